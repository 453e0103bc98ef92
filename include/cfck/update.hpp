// Changes to existing files: append, compact, repair.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/record.hpp"
#include "cfck/writer.hpp"

namespace cfck {

// The changes of an update. A tensor whose name exists replaces that record.
struct Update {
  std::vector<StridedTensor> tensors = {};
  std::vector<std::string> remove = {};  // names; kNotFound if there is none
  // Entries to set; all others stay.
  Metadata metadata = {};
  // Replaces and removes also tensors that files of the folder are stored against, which cannot be
  // read without them afterwards.
  bool force = false;
  // Called with the writer of the new generation before tensors are added to it, for instance to
  // have a device encode them (cfck/cuda.hpp). The writer is gone when update() returns.
  std::function<Result<void>(Writer& writer)> prepare = {};
};

// Appends a new generation to the file at `path`: new chunks, a complete index, a tail. Old
// bytes are not touched, and a failed update truncates the file to its old length (where
// that fails too, the error says so); a kill in the middle leaves a torn end, which
// repair() removes. Until the end of the call, files opened with open_file() show the
// generation before, in every process of the machine. Once it has returned, the update is
// permanent. Aliases of a replaced or removed record keep their own values. The attachment
// that makes conversion back to safetensors byte-exact is dropped. In a checkpoint of
// Python's save_checkpoint tensors can be replaced, but not added or removed, since its
// containers name every one: kInvalidArgument. A tensor that files of the folder are stored against
// (dependents_of() in cfck/base.hpp) stays, unless Update::force is set: kExists, with the names of
// the files; compact() makes them stand alone. One writer at a time: the file is locked,
// and kIo reported if it is in use. `progress` counts the bytes of the tensors in
// `changes`.
CFCK_API Result<WriteSummary> update(const std::string& path, const Update& changes,
                                     EncodeOptions options = {}, DecodeOptions decode = {},
                                     FileSystem& files = system_files(),
                                     WriteProgress progress = {});

// Rewrites the file at `path` without its dead bytes, as generation 0, so that it stands alone:
// what is stored against a base, which must be there, is encoded by itself, without loss. All other
// chunks are copied and checked, not encoded again. No value changes, so that files that are stored
// against this one can be read as before. Returns the bytes freed, 0 for a file that got longer.
// The file is locked, which keeps update() out. A save takes no lock: one that replaced the file
// before the end of the copy is kept, and kIo reported; one that comes in the instant between that
// check and the rename loses to this call.
CFCK_API Result<std::uint64_t> compact(const std::string& path, DecodeOptions options = {},
                                       FileSystem& files = system_files());

// A record whose chunks are damaged in the newest generation, and whole in an older one.
struct OlderRecord {
  std::string name;
  std::uint64_t generation = 0;  // the generation whose values the new file has
};

struct RepairReport {
  std::uint64_t generation = 0;    // the newest one that is whole
  std::uint64_t end_bytes = 0;     // where it ends in the damaged file
  std::uint64_t n_records = 0;     // kept, older ones included
  std::vector<OlderRecord> older;  // the new file has values that updates had replaced
  std::vector<std::string> lost;   // records with damaged chunks, left out
};

// Copies everything that can be proven whole of the newest complete generation in
// `damaged` to a new file. For a record that is damaged there, the record of that name in
// an older generation is kept instead, if that is whole; the report names it, because
// such tensors may not fit the others. Walks the frames forward from the start; bytes
// that merely look like a frame inside a tensor are never trusted. Bytes that an update()
// in progress has appended so far are left out. Errors: kCorrupt if no generation is
// whole.
CFCK_API Result<RepairReport> repair(const std::string& damaged, const std::string& out,
                                     DecodeOptions options = {},
                                     FileSystem& files = system_files());

}  // namespace cfck
