#include "format/read/dependents.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files/folder_listing.hpp"
#include "base/files/stamp.hpp"
#include "base/hashing/hashing.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/base.hpp"
#include "cfck/io.hpp"
#include "format/container/index/compressed_index.hpp"

namespace cfck {
namespace format {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileEnding = ".cfck";
// The index of a model of 10^12 values takes a tenth of that.
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 29;
constexpr std::size_t kMostNamesInMessages = 3;

// Reads the index of a file, and neither metadata nor values; `features`: those of
// Tail::required_features that the file must have, else there is none.
Result<std::optional<Index>> read_index_of_file(const std::string& path, std::uint64_t features) {
  CFCK_TRY_ASSIGN(const std::unique_ptr<ByteSource> source, open_file(path));
  const std::uint64_t file_bytes = source->size();
  if (file_bytes < kHeadBytes + kTailBytes) {
    return truncated("the file is too short");
  }
  std::array<std::byte, kTailBytes> end;
  CFCK_TRY(source->read_at(file_bytes - kTailBytes, end));
  CFCK_TRY_ASSIGN(const Tail tail, decode_tail(end, file_bytes - kTailBytes));
  if ((tail.required_features & features) != features) {
    return std::optional<Index>();
  }
  if (tail.index.n_bytes > kMaxIndexBytes) {
    return limit_exceeded("the index is too large");
  }
  std::vector<std::byte> frame(tail.index.n_bytes);
  CFCK_TRY(source->read_at(tail.index.offset_bytes, frame));
  if (hash128(frame) != tail.index_hash) {
    return wrong_checksum("the index of the file is damaged");
  }
  Limits limits;
  limits.max_index_bytes = kMaxIndexBytes;
  CFCK_TRY_ASSIGN(Index index, decode_index_of(tail, frame, limits));
  return std::optional<Index>(std::move(index));
}

// The tensors of a file that others may be stored against.
class BaseTensors {
 public:
  // `index` must outlive this object.
  BaseTensors(const Index& index, const std::vector<bool>& chosen) {
    for (std::size_t i = 0; i < index.records.size(); ++i) {
      const Record& record = index.records[i].record;
      if (chosen[i] && !record.hidden) {
        by_name_.emplace(record.name, &record);
      }
    }
  }

  bool are_needed_by(const Index& index) const {
    return std::any_of(index.records.begin(), index.records.end(), [&](const StoredRecord& stored) {
      const Record& record = stored.record;
      const auto own = record.base_digest ? by_name_.find(record.name) : by_name_.end();
      return own != by_name_.end() && own->second->digest == *record.base_digest &&
             own->second->dtype == record.dtype && own->second->shape == record.shape;
    });
  }

 private:
  std::map<std::string_view, const Record*> by_name_;
};

// The files beside a file that are stored against it.
class DependentSearch {
 public:
  // `tensors`: those of the file that matter; nullptr: all.
  DependentSearch(const std::string& path, const BaseTensors* tensors)
      : path_(path), tensors_(tensors) {}

  Result<std::vector<std::string>> run() {
    const auto stamp = stamp_of(path_);
    if (!stamp) {
      return not_found("there is no file '" + escaped(path_) + "'");
    }
    std::error_code failed;
    if (!fs::is_regular_file(path_, failed)) {
      return std::vector<std::string>();
    }
    stamp_ = *stamp;
    // A link is another name of its file, which is what writers replace and readers open.
    const fs::path file = fs::canonical(path_, failed);
    if (failed) {
      return cannot_look(io_error(failed.message()));
    }
    ending_ = file.extension().native();
    folder_ = file.parent_path();
    Result<std::vector<std::string>> names = names_in(folder_.native());
    if (!names) {
      return cannot_look(std::move(names).error());
    }
    std::vector<std::string> dependents;
    for (std::string& name : *names) {
      CFCK_TRY_ASSIGN(const bool found, is_dependent(name));
      if (found) {
        dependents.push_back(std::move(name));
      }
    }
    return dependents;
  }

 private:
  Error cannot_look(Error error) const {
    error.message = "cannot find out which files are stored against '" + escaped(path_) + "' (" +
                    error.message + "); make its folder readable, or force the change";
    return error;
  }

  Result<bool> is_dependent(const std::string& name) {
    const std::string path = (folder_ / name).native();
    const std::string ending = fs::path(name).extension().native();
    if (ending != kFileEnding && ending != ending_) {
      return false;
    }
    const Result<std::optional<Index>> index = read_index_of_file(path, kHasBase);
    if (!index && index.error().code == ErrorCode::kOutOfMemory) {
      return copy_of(index.error());
    }
    if (!index || !*index || (*index)->base_name.empty()) {
      return false;
    }
    const auto base = stamp_of((folder_ / (*index)->base_name).native());
    const auto own = stamp_of(path);
    const bool names_it = base && base->is_same_file(stamp_) && own && !own->is_same_file(stamp_);
    return names_it && is_needed_by(**index);
  }

  // Most files are nobody's base, so that their index is read late.
  bool is_needed_by(const Index& index) {
    if (tensors_ == nullptr && !is_read_) {
      is_read_ = true;
      if (Result<std::optional<Index>> read = read_index_of_file(path_, 0)) {
        index_ = *std::move(read);
        all_.emplace(*index_, std::vector<bool>(index_->records.size(), true));
        tensors_ = &*all_;
      }
    }
    return tensors_ == nullptr || tensors_->are_needed_by(index);
  }

  const std::string& path_;
  const BaseTensors* tensors_;
  bool is_read_ = false;
  std::optional<Index> index_;
  std::optional<BaseTensors> all_;
  FileStamp stamp_;
  fs::path folder_;
  std::string ending_;
};

}  // namespace

Result<std::vector<std::string>> dependents_of(const std::string& path, const Index& index,
                                               const std::vector<bool>& lost) {
  const BaseTensors tensors(index, lost);
  return DependentSearch(path, &tensors).run();
}

Error is_a_base(const std::string& path, const std::vector<std::string>& dependents,
                const std::string& otherwise) {
  std::string names;
  const std::size_t n_named = std::min(dependents.size(), kMostNamesInMessages);
  for (std::size_t i = 0; i < n_named; ++i) {
    const bool is_last = i + 1 == dependents.size();
    names += (i == 0 ? "'" : is_last ? " and '" : ", '") + escaped(dependents[i]) + "'";
  }
  if (dependents.size() > n_named) {
    names += " and " + std::to_string(dependents.size() - n_named) + " more";
  }
  const bool is_one = dependents.size() == 1;
  return exists_already(names + (is_one ? " is" : " are") + " stored against '" + escaped(path) +
                        "', and cannot be read without its values; make " +
                        (is_one ? "it" : "them") + " stand alone first (cfck compact), or " +
                        otherwise);
}

}  // namespace format

Result<std::vector<std::string>> dependents_of(const std::string& path) {
  return run_guarded([&] { return format::DependentSearch(path, nullptr).run(); });
}

Result<void> check_no_dependents(const std::string& path, const std::string& otherwise) {
  return run_guarded([&]() -> Result<void> {
    Result<std::vector<std::string>> dependents = dependents_of(path);
    if (!dependents) {
      return dependents.error().code == ErrorCode::kNotFound ? Result<void>()
                                                             : std::move(dependents).error();
    }
    return dependents->empty() ? Result<void>() : format::is_a_base(path, *dependents, otherwise);
  });
}

}  // namespace cfck
