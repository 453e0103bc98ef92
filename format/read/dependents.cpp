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

// A file that names another as its base.
struct Dependent {
  std::string name;  // without its folder
  Index index;
};

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

// The files beside a file that name it as their base.
class DependentSearch {
 public:
  explicit DependentSearch(const std::string& path) : path_(path) {}

  Result<std::vector<Dependent>> run() {
    const auto stamp = stamp_of(path_);
    if (!stamp) {
      return not_found("there is no file '" + escaped(path_) + "'");
    }
    std::error_code failed;
    if (!fs::is_regular_file(path_, failed)) {
      return std::vector<Dependent>();
    }
    stamp_ = *stamp;
    // A link is another name of its file, which is what writers replace and readers open.
    const fs::path file = fs::canonical(path_, failed);
    fs::directory_iterator entry;
    if (!failed) {
      extension_ = file.extension().native();
      folder_ = file.parent_path();
      entry = fs::directory_iterator(folder_, failed);
    }
    while (!failed && entry != fs::directory_iterator()) {
      look_at(*entry);
      entry.increment(failed);
    }
    if (failed) {
      return io_error("cannot find out which files are stored against '" + escaped(path_) +
                      "', because its folder cannot be listed (" + failed.message() +
                      "); allow it, or force the change");
    }
    std::sort(found_.begin(), found_.end(),
              [](const Dependent& one, const Dependent& other) { return one.name < other.name; });
    return std::move(found_);
  }

 private:
  void look_at(const fs::directory_entry& entry) {
    std::error_code failed;
    const std::string extension = entry.path().extension().native();
    if ((extension != kFileEnding && extension != extension_) || !entry.is_regular_file(failed)) {
      return;
    }
    Result<std::optional<Index>> index = read_index_of_file(entry.path().native(), kHasBase);
    if (!index || !*index || (*index)->base_name.empty()) {
      return;
    }
    const auto base = stamp_of((folder_ / (*index)->base_name).native());
    const auto own = stamp_of(entry.path().native());
    if (base && base->is_same_file(stamp_) && own && !own->is_same_file(stamp_)) {
      found_.push_back({entry.path().filename().native(), **std::move(index)});
    }
  }

  const std::string& path_;
  FileStamp stamp_;
  fs::path folder_;
  std::string extension_;
  std::vector<Dependent> found_;
};

// The tensors of a file, as far as others are stored against them.
class BaseTensors {
 public:
  BaseTensors(const Index& index, const std::vector<bool>& lost) {
    for (std::size_t i = 0; i < index.records.size(); ++i) {
      const Record& record = index.records[i].record;
      if (lost[i] && !record.hidden) {
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

std::vector<std::string> dependent_names(const std::vector<Dependent>& dependents,
                                         const BaseTensors* tensors) {
  std::vector<std::string> names;
  for (const Dependent& dependent : dependents) {
    if (tensors == nullptr || tensors->are_needed_by(dependent.index)) {
      names.push_back(dependent.name);
    }
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> dependents_of(const std::string& path, const Index& index,
                                               const std::vector<bool>& lost) {
  CFCK_TRY_ASSIGN(const std::vector<Dependent> dependents, DependentSearch(path).run());
  const BaseTensors tensors(index, lost);
  return dependent_names(dependents, &tensors);
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
  return run_guarded([&]() -> Result<std::vector<std::string>> {
    CFCK_TRY_ASSIGN(const std::vector<format::Dependent> dependents,
                    format::DependentSearch(path).run());
    if (dependents.empty()) {
      return std::vector<std::string>();
    }
    const Result<std::optional<format::Index>> index = format::read_index_of_file(path, 0);
    if (!index) {
      return format::dependent_names(dependents, nullptr);
    }
    const std::vector<bool> all((*index)->records.size(), true);
    const format::BaseTensors tensors(**index, all);
    return format::dependent_names(dependents, &tensors);
  });
}

}  // namespace cfck
