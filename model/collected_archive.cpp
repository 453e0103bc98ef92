#include "model/collected_archive.hpp"

#include <cstring>
#include <utility>

#include "base/run_guarded.hpp"
#include "format/container/tensor_checks.hpp"
#include "format/write/sharing/alias_plan.hpp"

namespace cfck::model {

CollectedArchive::CollectedArchive() { files_.push_back({"<memory>", {}, 0, 0, nullptr, nullptr}); }

Result<void> CollectedArchive::add(ArchiveTensor tensor, Place place) {
  if (!tensor.hidden && !by_name_.emplace(tensor.name, tensors_.size()).second) {
    return invalid_argument("a tensor with this name was added before; names must differ")
        .in_record(tensor.name);
  }
  tensors_.push_back(std::move(tensor));
  places_.push_back(place);
  return {};
}

Result<void> CollectedArchive::add(std::string_view name, const TensorSource& tensor) {
  CFCK_TRY(format::check_utf8_name(name));
  ArchiveTensor added;
  added.name = name;
  added.dtype = tensor.dtype;
  added.shape = tensor.shape;
  CFCK_TRY_ASSIGN(added.n_bytes, format::checked_bytes(name, tensor));
  Place place;
  place.source = tensor.source;
  place.offset_bytes = tensor.offset_bytes;
  return add(std::move(added), place);
}

Result<void> CollectedArchive::add(std::string_view name, const TensorView& tensor) {
  CFCK_TRY(format::check_utf8_name(name));
  ArchiveTensor added;
  added.name = name;
  added.dtype = tensor.dtype;
  added.shape = tensor.shape;
  CFCK_TRY_ASSIGN(added.n_bytes, format::checked_bytes(name, tensor));
  Place place;
  place.bytes = tensor.data;
  return add(std::move(added), place);
}

Result<bool> CollectedArchive::tie(std::string_view name, std::string_view base) {
  const auto found = by_name_.find(std::string(base));
  if (found == by_name_.end()) {
    return not_found("no tensor with this name was added").in_record(std::string(base));
  }
  if (by_name_.contains(std::string(name)) || !format::check_utf8_name(name)) return false;
  ArchiveTensor tied = tensors_[found->second];
  tied.name = name;
  if (tied.sharing == Sharing::kNone) {
    tied.sharing = Sharing::kMemory;
    tied.base = found->second;
    tied.strides = format::contiguous_strides(tied.shape);
  }
  CFCK_TRY(add(std::move(tied), places_[found->second]));
  return true;
}

Result<void> CollectedArchive::set_metadata(std::string_view key, std::string_view value) {
  CFCK_TRY(format::check_metadata(key, value));
  metadata_.insert_or_assign(std::string(key), std::string(value));
  return {};
}

Result<void> CollectedArchive::attach(std::string_view name, ByteView bytes) {
  CFCK_TRY(format::check_attachment_name(name));
  attached_.insert_or_assign(std::string(name), std::vector<std::byte>(bytes.begin(), bytes.end()));
  return {};
}

Result<void> CollectedArchive::add_archive(const TensorArchive& archive) {
  const std::size_t first_file = files_.size();
  const std::size_t first_tensor = tensors_.size();
  files_.insert(files_.end(), archive.files().begin(), archive.files().end());
  for (const auto& [key, value] : archive.metadata()) CFCK_TRY(set_metadata(key, value));
  for (const Attachment& attachment : archive.attachments()) {
    attachments_.push_back(attachment);
    attached_sources_.emplace(attachment.name, &archive);
  }
  for (const ArchiveTensor& tensor : archive.tensors()) {
    ArchiveTensor added = tensor;
    added.file += first_file;
    added.base += first_tensor;
    Place place;
    place.archive = &archive;
    place.index = tensor.index;
    CFCK_TRY(add(std::move(added), place));
  }
  return {};
}

Result<void> CollectedArchive::finish() {
  for (const auto& [name, bytes] : attached_) {
    attachments_.push_back({name, bytes.size(), bytes.size()});
  }
  return finish_list();
}

Result<std::vector<std::byte>> CollectedArchive::attachment(std::string_view name) const {
  if (const auto found = attached_.find(name); found != attached_.end()) return found->second;
  if (const auto found = attached_sources_.find(name); found != attached_sources_.end()) {
    return found->second->attachment(name);
  }
  return ListedArchive::attachment(name);
}

Result<void> CollectedArchive::check_decoded_bytes(const ArchiveTensor& tensor,
                                                   std::uint64_t n_bytes) const {
  CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
  const Place& place = places_[listed->index];
  return place.archive == nullptr ? Result<void>()
                                  : place.archive->check_decoded_bytes(place.tensor(), n_bytes);
}

Result<void> CollectedArchive::read_many(std::span<const ArchiveRead> reads,
                                         const ReadProgress& progress) const {
  return run_guarded([&]() -> Result<void> {
    std::map<const TensorArchive*, std::vector<ArchiveRead>> by_archive;
    std::uint64_t done_bytes = 0;
    for (const ArchiveRead& read : reads) {
      CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(read.tensor));
      const Place& place = places_[listed->index];
      if (place.archive != nullptr) {
        by_archive[place.archive].push_back({&place.tensor(), read.out});
        continue;
      }
      CFCK_TRY(read_elements(*listed, 0, listed->n_elems, read.out));
      done_bytes += read.out.size();
      if (progress && !progress(done_bytes, listed->name)) return cancelled();
    }
    for (const auto& [archive, requests] : by_archive) {
      ReadProgress shifted;
      if (progress) {
        shifted = [&](std::uint64_t more_bytes, std::string_view name) {
          return progress(done_bytes + more_bytes, name);
        };
      }
      CFCK_TRY(archive->read_many(requests, shifted));
      for (const ArchiveRead& read : requests) done_bytes += read.out.size();
    }
    return {};
  });
}

Result<void> CollectedArchive::read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                                             std::uint64_t n_elems, MutableBytes out) const {
  CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
  const Place& place = places_[listed->index];
  if (place.archive != nullptr) {
    return place.archive->read_elements(place.tensor(), first_elem, n_elems, out);
  }
  CFCK_TRY(check_elements(*listed, first_elem, n_elems, out));
  if (out.empty()) return {};
  const std::uint64_t bits = bits_per_element(listed->dtype);
  const std::uint64_t first_byte = first_elem / 8 * bits + first_elem % 8 * bits / 8;
  if (place.source != nullptr) return place.source->read_at(place.offset_bytes + first_byte, out);
  std::memcpy(out.data(), place.bytes.data() + first_byte, out.size());
  return {};
}

Result<void> CollectedArchive::read_slice(const ArchiveTensor& tensor,
                                          std::span<const std::uint64_t>,
                                          std::span<const std::uint64_t>, MutableBytes) const {
  return unsupported("what is to be written is not read by boxes").in_record(tensor.name);
}

}  // namespace cfck::model
