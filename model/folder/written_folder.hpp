// A folder of models that is written: its files, what must not stay beside them, and how it gets
// its place.
#pragma once

#include <string>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/status.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {

struct WrittenFolder {
  const ArchiveFormat* format = nullptr;
  // Paths relative to the folder.
  std::vector<std::string> tensor_files;
  std::vector<std::string> index_files;
  std::vector<std::string> other_files;
  // True if it takes the place of a folder with files, which stay unless they are called as new
  // ones or `dropped`: names in the folder itself.
  bool replaces = false;
  std::vector<std::string> dropped = {};
  // True if the files go into the folder that is there, beside others that are no concern of them.
  bool stays = false;
};

// True for a folder that must stay the same folder whatever is written to it, since others rely on
// it: the current directory of this process, the home folder, and all folders around these. `path`
// is one of real_folder().
bool must_stay(const std::string& path);

// Returns the path beside which the TemporaryFolder belongs for what is written to the folder:
// `path` itself, or one in it where the folder must stay.
std::string temporary_place(const std::string& path);

// Returns the absolute path of an output folder, without links: a link to a folder stands for the
// folder. Errors: kIo, kOutOfMemory.
Result<std::string> real_folder(const std::string& path);

// True if there is a file, or a folder that is not empty, at `path`. Errors: kIo, kOutOfMemory.
Result<bool> is_taken(const std::string& path);

// Checks that the files of `path` that stay cannot be read together with the written ones, or
// instead of them. Error: kInvalidArgument.
Result<void> check_what_stays(const std::string& path, const WrittenFolder& written);

// Puts the finished folder `from` in the place of `path`, or its files into it where that folder
// must stay. Errors: those of replace_folder() and add_to_folder(); kIo.
Result<void> put_in_place(const std::string& from, const std::string& path,
                          const WrittenFolder& written, FileSystem& files);

}  // namespace cfck::model
