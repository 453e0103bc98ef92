// Writes archives as safetensors files.
#include "interop/safetensors/write.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "interop/safetensors/header.hpp"
#include "interop/safetensors/ties.hpp"
#include "interop/stream/tensor_stream.hpp"

namespace cfck::interop {
namespace {

// True if the archive holds the tensors of the header, in its own order, and besides them nothing
// but names that the header ties to them.
bool same_tensors(const SafetensorsHeader& header, const TensorArchive& archive,
                  std::size_t n_named) {
  if (header.metadata != archive.metadata()) return false;
  std::size_t n_known = header.entries.size();
  for (const SafetensorsEntry& entry : header.entries) {
    const ArchiveTensor* tensor = archive.find(entry.name);
    if (tensor == nullptr || tensor->dtype != entry.dtype || tensor->shape != entry.shape) {
      return false;
    }
  }
  // Any tie that the metadata allow: files of earlier versions have more of them.
  for (const SafetensorsTie& tie : possible_ties(header.entries, header.metadata)) {
    const ArchiveTensor* tensor = archive.find(tie.name);
    if (tensor == nullptr) continue;
    if (are_tied(*tensor, *archive.find(header.entries[tie.entry].name))) ++n_known;
  }
  return n_known == n_named;
}

// Returns the header this archive was made from, if it is kept and still true.
Result<std::optional<SafetensorsHeader>> kept_header(const TensorArchive& archive,
                                                     std::size_t n_named) {
  const auto attachments = archive.attachments();
  // An attachment longer than safetensors allows was never a header.
  const bool kept = std::any_of(attachments.begin(), attachments.end(), [](const auto& attachment) {
    return attachment.name == kSafetensorsHeaderAttachment &&
           attachment.decoded_bytes <= kMaxSafetensorsHeaderBytes;
  });
  if (!kept) return std::optional<SafetensorsHeader>();
  CFCK_TRY_ASSIGN(const auto bytes, archive.attachment(kSafetensorsHeaderAttachment));
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto original =
      check_safetensors_header(json, std::nullopt, {n_named, archive.metadata().size()});
  if (!original || !same_tensors(*original, archive, n_named)) {
    return std::optional<SafetensorsHeader>();
  }
  original->json = json;
  return std::optional(std::move(*original));
}

Result<SafetensorsHeader> new_header(const TensorArchive& archive) {
  auto dropped = dropped_names(archive.tensors());
  // A name that is a key of other metadata could not be found there.
  std::erase_if(dropped, [&](const auto& drop) {
    const auto found = archive.metadata().find(drop.first);
    return found != archive.metadata().end() && found->second != drop.second;
  });
  std::vector<SafetensorsEntry> entries;
  for (const ArchiveTensor& tensor : archive.tensors()) {
    if (tensor.hidden || dropped.contains(tensor.name)) continue;
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, tensor.n_bytes});
  }
  Metadata metadata = archive.metadata();
  for (const auto& [name, kept] : dropped) metadata.emplace(name, kept);
  mark_ties(dropped, entries, metadata);
  return make_safetensors_header(std::move(entries), std::move(metadata));
}

// A .cfck file may not yield more in one conversion than in one call.
Result<void> check_total(const TensorArchive& archive, const SafetensorsHeader& header) {
  std::vector<std::uint64_t> totals(archive.files().size());
  for (const SafetensorsEntry& entry : header.entries) {
    std::uint64_t& total_bytes = totals[archive.find(entry.name)->file];
    if (!checked_add(total_bytes, entry.n_bytes, total_bytes)) total_bytes = ~std::uint64_t{0};
  }
  for (std::size_t file = 0; file < totals.size(); ++file) {
    const Reader* const reader = archive.files()[file].reader;
    if (reader != nullptr) CFCK_TRY(reader->check_decoded_bytes(totals[file]));
  }
  return {};
}

}  // namespace

Result<SafetensorsHeader> header_for(const TensorArchive& archive) {
  std::size_t n_named = 0;
  for (const ArchiveTensor& tensor : archive.tensors()) {
    if (tensor.hidden) continue;
    ++n_named;
    if (bits_per_element(tensor.dtype) == 0) {
      return unsupported("the dtype is of a newer version of cfck, and safetensors may not have it")
          .in_record(tensor.name);
    }
  }
  CFCK_TRY_ASSIGN(std::optional<SafetensorsHeader> kept, kept_header(archive, n_named));
  return kept ? std::move(*kept) : new_header(archive);
}

Result<void> write_archive(const TensorArchive& archive, const SafetensorsHeader& header,
                           ByteSink& sink, const ReadProgress& progress, unsigned threads) {
  CFCK_TRY(check_total(archive, header));
  std::byte length_bytes[kSafetensorsLengthBytes];
  store<std::uint64_t>(length_bytes, header.json.size());
  CFCK_TRY(sink.write(length_bytes));
  CFCK_TRY(sink.write(std::as_bytes(std::span(header.json))));
  std::vector<StreamedTensor> tensors;
  for (const SafetensorsEntry& entry : header.entries) {
    tensors.push_back({archive.find(entry.name), {}});
  }
  return write_tensors(archive, tensors, {}, sink, progress, threads);
}

std::uint64_t file_bytes(const SafetensorsHeader& header) {
  std::uint64_t n_bytes = kSafetensorsLengthBytes + header.json.size();
  for (const SafetensorsEntry& entry : header.entries) n_bytes += entry.n_bytes;
  return n_bytes;
}

}  // namespace cfck::interop
