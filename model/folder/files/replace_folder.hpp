// Puts a finished folder in the place of an existing one, so that files of both are never taken for
// one checkpoint (docs/adr/0015-replaced-folders.md).
#pragma once

#include <string>
#include <vector>

#include "cfck/io.hpp"

namespace cfck::model {

// A file of this name marks a folder whose files are being replaced one by one, or where this was
// interrupted.
inline constexpr const char* kUnfinishedMark = ".cfck-convert-unfinished";

// Checks that the folder has no mark. Error: kCorrupt if it has.
Result<void> check_unmarked(const std::string& folder);

// Makes entries of a folder, and of all folders in it, safe against power loss.
Result<void> sync_tree(const std::string& folder, FileSystem& files);

struct FolderReplacement {
  std::string from;  // finished, in the same folder as `to`
  std::string to;    // exists
  // Paths of the files in `from`, relative to it, in an order that serves readers.
  std::vector<std::string> names;
  // Names of files in `to` itself that do not stay.
  std::vector<std::string> dropped = {};
};

// Afterwards the folder `to` has the files of `from`, and its own of other names that stay. Where
// the file system can exchange two folders and link files, `from` gets links to the files that stay
// and both change names in one step; else the files are renamed one by one while `to` has the mark.
// The contents of `from` may be removed afterwards.
//
// After an error `to` is as it was, or is replaced and the error says so, or has the mark. Errors:
// kIo; kInvalidArgument where a file would replace a folder or vice versa.
Result<void> replace_folder(const FolderReplacement& replacement, FileSystem& files);

// Moves the files of `from` into the folder `to`, which stays the same folder. Where none of the
// names is taken and nothing is dropped, files get their names one after another, and after an
// error none has; else they replace others while `to` has the mark, with the errors of
// replace_folder(). `from` may lie in `to`, and its contents may be removed afterwards. Errors:
// kIo; kExists; kInvalidArgument where a file would replace a folder.
Result<void> add_to_folder(const FolderReplacement& replacement, FileSystem& files);

}  // namespace cfck::model
