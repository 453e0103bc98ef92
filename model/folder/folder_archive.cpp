// Several files as one archive.
#include "model/folder/folder_archive.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "model/error_path.hpp"
#include "model/listed_archive.hpp"

namespace cfck::model {
namespace {

class FolderArchive final : public ListedArchive {
 public:
  explicit FolderArchive(std::vector<std::unique_ptr<TensorArchive>> parts)
      : parts_(std::move(parts)) {}

  Result<void> list() {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const TensorArchive& archive = *parts_[part];
      starts_.push_back(files_.size());
      files_.insert(files_.end(), archive.files().begin(), archive.files().end());
      metadata_.insert(archive.metadata().begin(), archive.metadata().end());
      for (const Attachment& attachment : archive.attachments()) {
        if (attached_.emplace(attachment.name, part).second) attachments_.push_back(attachment);
      }
      new_indexes_.emplace_back(archive.tensors().size());
      for (const ArchiveTensor& tensor : archive.tensors()) {
        if (!tensor.named_by_metadata) add(part, tensor);
      }
    }
    add_metadata_names();
    CFCK_TRY(finish_list());
    return check_names();
  }

  Result<std::vector<std::byte>> attachment(std::string_view name) const override {
    const auto found = attached_.find(name);
    if (found == attached_.end()) return ListedArchive::attachment(name);
    return parts_[found->second]->attachment(name);
  }

  Result<void> check_decoded_bytes(const ArchiveTensor& tensor,
                                   std::uint64_t n_bytes) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    const Place place = places_[listed->index];
    return named(parts_[place.part]->check_decoded_bytes(tensor_at(place), n_bytes), *listed);
  }

  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override {
    return run_guarded([&]() -> Result<void> {
      std::vector<std::vector<ArchiveRead>> by_part(parts_.size());
      for (const ArchiveRead& read : reads) {
        CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(read.tensor));
        const Place place = places_[listed->index];
        by_part[place.part].push_back({&tensor_at(place), read.out});
      }
      std::uint64_t before_bytes = 0;
      for (std::size_t part = 0; part < parts_.size(); ++part) {
        if (by_part[part].empty()) continue;
        ReadProgress shifted;
        if (progress) {
          shifted = [&](std::uint64_t done_bytes, std::string_view name) {
            return progress(before_bytes + done_bytes, name);
          };
        }
        if (auto done = parts_[part]->read_many(by_part[part], shifted); !done) {
          return with_path(std::move(done).error(), files_[starts_[part]].path);
        }
        for (const ArchiveRead& read : by_part[part]) before_bytes += read.out.size();
      }
      return {};
    });
  }

  Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    const Place place = places_[listed->index];
    return named(parts_[place.part]->read_elements(tensor_at(place), first_elem, n_elems, out),
                 *listed);
  }

  Result<void> read_slice(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    const Place place = places_[listed->index];
    return named(parts_[place.part]->read_slice(tensor_at(place), starts, stops, out), *listed);
  }

  Result<VerifyReport> verify(VerifyLevel level, const ReadProgress& progress) const override {
    return run_guarded([&]() -> Result<VerifyReport> {
      VerifyReport all;
      std::uint64_t before_bytes = 0;
      for (std::size_t part = 0; part < parts_.size(); ++part) {
        const std::string& path = files_[starts_[part]].path;
        std::uint64_t last_bytes = 0;
        const auto shifted = [&](std::uint64_t done_bytes, std::string_view name) {
          last_bytes = done_bytes;
          return !progress || progress(before_bytes + done_bytes, name);
        };
        auto report = parts_[part]->verify(level, shifted);
        if (!report) return with_path(std::move(report).error(), path);
        before_bytes += last_bytes;
        all.n_records += report->n_records;
        all.checked_bytes += report->checked_bytes;
        for (Error& problem : report->problems) {
          all.problems.push_back(with_path(std::move(problem), path));
        }
      }
      return all;
    });
  }

 private:
  // A tensor of one of the parts.
  struct Place {
    std::size_t part = 0;
    std::size_t index = 0;
  };

  const ArchiveTensor& tensor_at(Place place) const {
    return parts_[place.part]->tensors()[place.index];
  }

  void add(std::size_t part, const ArchiveTensor& tensor) {
    new_indexes_[part][tensor.index] = tensors_.size();
    places_.push_back({part, tensor.index});
    ArchiveTensor& added = tensors_.emplace_back(tensor);
    added.file += starts_[part];
  }

  // Each shard may have the metadata of all, and another one the tensor itself.
  void add_metadata_names() {
    std::set<std::string_view> names;
    for (const auto& part : parts_) {
      for (const ArchiveTensor& tensor : part->tensors()) {
        if (!tensor.hidden && !tensor.named_by_metadata) names.insert(tensor.name);
      }
    }
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      for (const ArchiveTensor& tensor : parts_[part]->tensors()) {
        if (tensor.named_by_metadata && names.insert(tensor.name).second) add(part, tensor);
      }
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].sharing == Sharing::kNone) continue;
      tensors_[i].base = new_indexes_[places_[i].part][tensors_[i].base];
    }
  }

  Result<void> check_names() const {
    const auto [first, second] = same_names();
    if (first == nullptr) return {};
    return Error{ErrorCode::kCorrupt,
                 "two shards have a tensor with this name: " + escaped(files_[first->file].path) +
                     " and " + escaped(files_[second->file].path),
                 first->name,
                 {}};
  }

  Result<void> named(Result<void> done, const ArchiveTensor& tensor) const {
    if (done) return done;
    return run_guarded(
        [&] { return with_path(std::move(done).error(), files_[tensor.file].path); });
  }

  std::vector<std::unique_ptr<TensorArchive>> parts_;
  std::vector<std::size_t> starts_;                    // of the files of each part in files_
  std::vector<std::vector<std::size_t>> new_indexes_;  // of the tensors of each part in tensors_
  std::vector<Place> places_;                          // of each of tensors_
  std::map<std::string, std::size_t, std::less<>> attached_;  // parts, by names of attachments
};

}  // namespace

Result<std::unique_ptr<TensorArchive>> join_archives(
    std::vector<std::unique_ptr<TensorArchive>> parts) {
  auto archive = std::make_unique<FolderArchive>(std::move(parts));
  CFCK_TRY(archive->list());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

}  // namespace cfck::model
