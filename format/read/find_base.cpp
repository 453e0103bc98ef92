#include "format/read/find_base.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "cfck/reader.hpp"
#include "format/read/reader_access.hpp"

namespace cfck::format {
namespace {

namespace fs = std::filesystem;

// True if `path` is a link that leads to another folder. The files beside a file are those that
// came with it; what a link elsewhere shows, its sender may not have been meant to choose.
bool leads_elsewhere(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed)) {
    return false;
  }
  const fs::path target = fs::canonical(path, failed);
  const fs::path folder = failed ? fs::path() : fs::canonical(path.parent_path(), failed);
  return failed || target.parent_path() != folder;
}

class Search {
 public:
  Search(const ByteSource& source, const Index& index, const DecodeOptions& options,
         const BaseChain& chain)
      : source_(source), index_(index), options_(options), chain_(chain) {
    if (const auto stamp = stamp_of_source()) {
      chain_.files.push_back(*stamp);
    }
    if (chain_.failed == nullptr) {
      chain_.failed = std::make_shared<std::map<PlaceInChain, Error>>();
    }
  }

  Result<std::shared_ptr<const Base>> run() {
    if (index_.base_name.empty()) {
      return missing_base(
          "the file is stored against tensors that were in memory, and names no file that has "
          "them; give them as its base");
    }
    const std::uint64_t most = options_.limits.max_bases;
    if (chain_.files.size() > most) {
      return limit_exceeded("the chain of bases is longer than the " + std::to_string(most) +
                            " files allowed; raise the limit max_bases to read it, or store one "
                            "of its files by itself (cfck compact)");
    }
    const std::vector<fs::path> folders = this->folders();
    for (const fs::path& folder : folders) {
      std::shared_ptr<const Base> base = try_folder(folder);
      if (base != nullptr) {
        return base;
      }
    }
    return unusable_ ? *std::move(unusable_) : nowhere(folders);
  }

 private:
  std::optional<FileStamp> stamp_of_source() const {
    if (source_.descriptor() < 0 && !source_.mapped().empty()) {
      return std::nullopt;  // bytes in memory, whatever they are called
    }
    return source_.descriptor() >= 0 ? stamp_of(source_.descriptor()) : stamp_of(source_.name());
  }

  std::vector<fs::path> folders() const {
    std::vector<fs::path> folders;
    if (!chain_.files.empty() && stamp_of_source()) {
      const fs::path beside = fs::path(source_.name()).parent_path();
      folders.push_back(beside.empty() ? fs::path(".") : beside);
    }
    folders.insert(folders.end(), options_.base_dirs.begin(), options_.base_dirs.end());
    return folders;
  }

  // Returns the base, or nullptr where there is none; an error of one that cannot be used is kept.
  std::shared_ptr<const Base> try_folder(const fs::path& folder) {
    const fs::path path = folder / index_.base_name;
    const auto stamp = stamp_of(path.string());
    if (!stamp) {
      return nullptr;
    }
    const PlaceInChain place{stamp->device, stamp->number, chain_.files.size()};
    const auto failed = chain_.failed->find(place);
    if (failed != chain_.failed->end()) {
      keep(failed->second, path);
      return nullptr;
    }
    Result<std::shared_ptr<const Base>> opened = open(path, *stamp);
    if (opened) {
      return *std::move(opened);
    }
    keep(opened.error(), path);
    chain_.failed->emplace(place, std::move(opened).error());
    return nullptr;
  }

  void keep(const Error& error, const fs::path& path) {
    if (!unusable_) {
      unusable_ = of_base(error, path.string());
    }
  }

  Result<std::shared_ptr<const Base>> open(const fs::path& path, const FileStamp& stamp) const {
    const bool is_in_chain =
        std::any_of(chain_.files.begin(), chain_.files.end(),
                    [&](const FileStamp& file) { return file.is_same_file(stamp); });
    if (is_in_chain) {
      return missing_base(chain_.files.back().is_same_file(stamp)
                              ? "the file names itself as its base"
                              : "the chain of bases comes back to a file that it went through");
    }
    if (leads_elsewhere(path)) {
      return missing_base(
          "it is a link to another folder, which is not followed; name that folder with "
          "base_dirs, or give the base itself");
    }
    DecodeOptions options = options_;
    options.base = nullptr;
    options.threads = 1;
    CFCK_TRY_ASSIGN(std::unique_ptr<const ByteSource> source, open_file(path.string()));
    CFCK_TRY_ASSIGN(Reader reader, ReaderAccess::open(std::move(source), options, chain_));
    CFCK_TRY(reader.check_base());
    CFCK_TRY_ASSIGN(std::shared_ptr<const Base> base,
                    base_of_reader(std::move(reader), index_.base_name));
    for (const StoredRecord& stored : index_.records) {
      CFCK_TRY(check_base_of(stored.record, *base));
    }
    return base;
  }

  Error nowhere(const std::vector<fs::path>& folders) const {
    std::string places;
    for (const fs::path& folder : folders) {
      places += (places.empty() ? " in '" : " or '") + escaped(folder.string()) + "'";
    }
    return missing_base("the file is stored against '" + escaped(index_.base_name) +
                        "', which is not" + (places.empty() ? " known here" : places) +
                        "; put it there, name its folder with base_dirs, or give it as the base");
  }

  const ByteSource& source_;
  const Index& index_;
  const DecodeOptions& options_;
  BaseChain chain_;
  std::optional<Error> unusable_;  // the first
};

}  // namespace

Error of_base(Error error, std::string_view name) {
  if (error.code != ErrorCode::kOutOfMemory) {
    const std::string what = name.empty() ? "the base" : "the base '" + escaped(name) + "'";
    error.message = what + ": " + error.message;
  }
  return error;
}

std::string file_name_of(const std::string& path) { return fs::path(path).filename().string(); }

Result<void> check_base_of(const Record& record, const Base& base) {
  if (!record.base_digest) {
    return {};
  }
  const auto refuse = [&](const char* what) {
    const std::string of = base.name().empty() ? std::string() : " '" + escaped(base.name()) + "'";
    return missing_base(
               "the base" + of + " " + what +
               "; the tensor can only be decoded with the values that it was stored against")
        .in_record(record.name);
  };
  const BaseTensor* const tensor = base.find(record.name);
  if (tensor == nullptr) {
    return refuse("has no tensor of this name");
  }
  if (tensor->dtype != record.dtype || tensor->shape != record.shape) {
    return refuse("has a tensor of this name with another dtype or shape");
  }
  Result<Digest> digest = base.digest(*tensor);
  if (!digest) {
    Error error = std::move(digest).error();
    if (error.record.empty()) {
      error.record = record.name;
    }
    return error;
  }
  return *digest == *record.base_digest ? Result<void>()
                                        : refuse("has other values in the tensor of this name");
}

Result<std::shared_ptr<const Base>> find_base(const ByteSource& source, const Index& index,
                                              const DecodeOptions& options,
                                              const BaseChain& chain) {
  return Search(source, index, options, chain).run();
}

}  // namespace cfck::format
