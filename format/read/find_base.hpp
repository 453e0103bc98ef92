// Finds the base of a file: beside it, or in the folders of its reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/files/stamp.hpp"
#include "cfck/base.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

// A file at a place in a chain: its device, its number, and how many files come before it.
using PlaceInChain = std::tuple<std::uint64_t, std::uint64_t, std::size_t>;

// The files that are open already, because each is stored against the next one.
struct BaseChain {
  std::vector<FileStamp> files;
  // The files that could not be used, so that none is tried again: there may be as many ways to a
  // file as folders to look in for each one before it.
  std::shared_ptr<std::map<PlaceInChain, Error>> failed = nullptr;
};

// Returns the part of a path behind its last separator.
std::string file_name_of(const std::string& path);

// Returns an error of reading a base as one of the file that is stored against it. `name` may be
// empty.
Error of_base(Error error, std::string_view name);

// Checks that `base` has the tensor that a record is stored against: its name, dtype, shape and
// digest. Errors: kMissingBase, with the name of the record; those of Base::digest().
Result<void> check_base_of(const Record& record, const Base& base);

// Opens the base of the file in `source`, whose index is given: the first file of its name, beside
// the file or in one of DecodeOptions::base_dirs, that has all tensors that are needed. Errors:
// kMissingBase where there is none, where only others are found, for a chain that comes back to one
// of its files, and for a link that leads out of its folder; kLimitExceeded for a chain that is too
// long; those of opening the base. They name it.
Result<std::shared_ptr<const Base>> find_base(const ByteSource& source, const Index& index,
                                              const DecodeOptions& options, const BaseChain& chain);

}  // namespace cfck::format
