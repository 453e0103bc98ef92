// Several files as one archive.
#include "model/folder/archive.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/checkpoint.hpp"
#include "model/error_path.hpp"
#include "model/listed_archive.hpp"

namespace cfck::model {
namespace {

class FolderArchive final : public ListedArchive {
 public:
  FolderArchive(std::vector<std::unique_ptr<TensorArchive>> parts,
                std::vector<std::vector<bool>> is_of_model)
      : parts_(std::move(parts)), is_of_model_(std::move(is_of_model)) {}

  Result<void> list() {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const TensorArchive& archive = *parts_[part];
      starts_.push_back(files_.size());
      files_.insert(files_.end(), archive.files().begin(), archive.files().end());
      add_metadata(archive.metadata());
      for (const std::string& note : archive.notes()) {
        notes_.push_back("'" + escaped(archive.files().front().path) + "': " + note);
      }
      for (const Attachment& attachment : archive.attachments()) {
        if (is_of_part(attachment.name)) continue;
        if (attached_.emplace(attachment.name, part).second) attachments_.push_back(attachment);
      }
      new_indexes_.emplace_back(archive.tensors().size());
      add_tensors(part);
    }
    note_other_metadata();
    add_metadata_names();
    find_bases();
    CFCK_TRY(finish_list());
    return check_names();
  }

  std::span<const std::string> notes() const override { return notes_; }

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
  // The header of one shard is not that of the others, nor are its containers, unless no other has
  // any: then a checkpoint was divided, and they are those of all its shards.
  bool is_of_part(std::string_view attachment) const {
    if (parts_.size() == 1) return false;
    if (attachment.starts_with("safetensors.")) return true;
    if (attachment != kCheckpointAttachment) return false;
    return std::count_if(parts_.begin(), parts_.end(), [](const auto& part) {
             const auto attachments = part->attachments();
             return std::any_of(attachments.begin(), attachments.end(), [](const Attachment& any) {
               return any.name == kCheckpointAttachment;
             });
           }) > 1;
  }

  // A tensor of one of the parts.
  struct Place {
    std::size_t part = 0;
    std::size_t index = 0;
  };

  const ArchiveTensor& tensor_at(Place place) const {
    return parts_[place.part]->tensors()[place.index];
  }

  bool takes(std::size_t part, const ArchiveTensor& tensor) const {
    return is_of_model_.empty() || is_of_model_[part][tensor.index];
  }

  // The first shard that has a key says its value.
  void add_metadata(const Metadata& metadata) {
    for (const auto& [key, value] : metadata) {
      const auto [found, is_new] = metadata_.emplace(key, value);
      if (!is_new && found->second != value) other_keys_.insert(key);
    }
  }

  void note_other_metadata() {
    if (other_keys_.empty()) return;
    constexpr std::size_t kMaxNamed = 3;
    std::string named;
    std::size_t n_named = 0;
    for (const std::string& key : other_keys_) {
      if (n_named++ == kMaxNamed) break;
      named.append(named.empty() ? "'" : ", '").append(escaped(key)).append("'");
    }
    notes_.push_back("the shards have different metadata under " + named +
                     (other_keys_.size() > kMaxNamed ? ", ..." : "") +
                     "; the values are those of the first shard that has them");
  }

  void add_tensors(std::size_t part) {
    const auto tensors = parts_[part]->tensors();
    std::vector<bool> is_shared(tensors.size());  // with tensors of the model
    for (const ArchiveTensor& tensor : tensors) {
      if (tensor.sharing == Sharing::kMemory && takes(part, tensor)) is_shared[tensor.base] = true;
    }
    for (const ArchiveTensor& tensor : tensors) {
      if (tensor.named_by_metadata) continue;
      const bool is_of_model = takes(part, tensor);
      if (!is_of_model && !is_shared[tensor.index]) continue;
      add(part, tensor);
      if (is_of_model) continue;
      tensors_.back().hidden = true;
      tensors_.back().name.clear();
    }
  }

  void add(std::size_t part, const ArchiveTensor& tensor) {
    new_indexes_[part][tensor.index] = tensors_.size();
    places_.push_back({part, tensor.index});
    ArchiveTensor& added = tensors_.emplace_back(tensor);
    added.file += starts_[part];
  }

  // Each shard may have the metadata of all, and another one the tensor itself.
  void add_metadata_names() {
    std::set<std::string> names;
    for (const ArchiveTensor& tensor : tensors_) {
      if (!tensor.hidden) names.insert(tensor.name);
    }
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      for (const ArchiveTensor& tensor : parts_[part]->tensors()) {
        if (!tensor.named_by_metadata || !takes(part, tensor)) continue;
        if (names.insert(tensor.name).second) add(part, tensor);
      }
    }
  }

  void find_bases() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      ArchiveTensor& tensor = tensors_[i];
      if (tensor.sharing == Sharing::kNone) continue;
      const std::optional<std::size_t> base = new_indexes_[places_[i].part][tensor.base];
      if (base) {
        tensor.base = *base;
      } else {  // equal by chance to a tensor that is none of the model
        tensor.sharing = Sharing::kNone;
      }
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
  std::vector<std::size_t> starts_;             // of the files of each part in files_
  std::vector<std::vector<bool>> is_of_model_;  // for the tensors of each part; empty: all
  // The indexes of the tensors of each part in tensors_, if they are there.
  std::vector<std::vector<std::optional<std::size_t>>> new_indexes_;
  std::vector<Place> places_;                                 // of each of tensors_
  std::map<std::string, std::size_t, std::less<>> attached_;  // parts, by names of attachments
  std::set<std::string> other_keys_;                          // of metadata, with several values
  std::vector<std::string> notes_;
};

}  // namespace

Result<std::unique_ptr<TensorArchive>> join_archives(
    std::vector<std::unique_ptr<TensorArchive>> parts, std::vector<std::vector<bool>> is_of_model) {
  auto archive = std::make_unique<FolderArchive>(std::move(parts), std::move(is_of_model));
  CFCK_TRY(archive->list());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

}  // namespace cfck::model
