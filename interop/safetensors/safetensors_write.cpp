// Writes archives as safetensors files.
#include "interop/safetensors/safetensors_write.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/threads/threads.hpp"
#include "format/read/element_view.hpp"
#include "format/write/alias_plan.hpp"
#include "interop/safetensors/safetensors_header.hpp"
#include "interop/safetensors/safetensors_ties.hpp"
#include "model/listed_archive.hpp"

namespace cfck::interop {
namespace {

// Decoded bytes that a job collects before it is handed to a worker: many small tensors together,
// so that a job is worth its overhead.
constexpr std::uint64_t kJobBytes = std::uint64_t{1} << 20;

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
  for (const SafetensorsTie& tie : header.ties) {
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
  const auto dropped = dropped_names(archive.tensors());
  std::vector<SafetensorsEntry> entries;
  for (const ArchiveTensor& tensor : archive.tensors()) {
    if (tensor.hidden || dropped.contains(tensor.name)) continue;
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, tensor.n_bytes});
  }
  Metadata metadata = archive.metadata();
  for (const auto& [name, kept] : dropped) metadata.emplace(name, kept);
  return make_safetensors_header(std::move(entries), std::move(metadata));
}

// Elements of one tensor that a job decodes to `out_offset` of its buffer.
struct Piece {
  const ArchiveTensor* tensor = nullptr;
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t out_offset = 0;
  std::uint64_t n_bytes = 0;
};

struct Output {
  const TensorArchive& archive;
  ByteSink& sink;
  const ReadProgress& progress;
  std::uint64_t done_bytes = 0;
};

// Decodes pieces on a worker; writes them when its turn comes.
class DecodeJob final : public OrderedPipeline::Job {
 public:
  explicit DecodeJob(Output& output) : output_(output) {}

  std::uint64_t n_bytes() const { return n_bytes_; }

  void add(Piece piece) {
    piece.out_offset = n_bytes_;
    n_bytes_ += piece.n_bytes;
    pieces_.push_back(piece);
  }

  Result<void> run(unsigned) override {
    bytes_.resize(n_bytes_);
    const MutableBytes all(bytes_);
    std::vector<ArchiveRead> whole;
    for (const Piece& piece : pieces_) {
      const MutableBytes out = all.subspan(piece.out_offset, piece.n_bytes);
      if (piece.n_elems == piece.tensor->n_elems) {
        whole.push_back({piece.tensor, out});
      } else {
        CFCK_TRY(
            output_.archive.read_elements(*piece.tensor, piece.first_elem, piece.n_elems, out));
      }
    }
    return output_.archive.read_many(whole);
  }

  Result<void> finish() override {
    CFCK_TRY(output_.sink.write(bytes_));
    output_.done_bytes += n_bytes_;
    if (output_.progress && !output_.progress(output_.done_bytes, pieces_.back().tensor->name)) {
      return cancelled();
    }
    return {};
  }

 private:
  Output& output_;
  std::vector<Piece> pieces_;
  std::uint64_t n_bytes_ = 0;
  std::vector<std::byte> bytes_;
};

// Number of elements to decode at a time: whole chunks of the stored tensor.
std::uint64_t elems_per_piece(const TensorArchive& archive, const ArchiveTensor& tensor) {
  const ArchiveTensor& stored = archive.tensors()[tensor.base];
  // Otherwise the elements are scattered over all chunks of the base. A small base has few chunks:
  // an alias may repeat it many times.
  if (tensor.sharing == Sharing::kMemory && !format::is_contiguous(tensor.shape, tensor.strides)) {
    if (stored.n_bytes > kJobBytes) return tensor.n_elems;
    return std::min(tensor.n_elems, kJobBytes / bits_per_element(tensor.dtype) * 8);
  }
  const std::uint64_t chunk_elems =
      stored.chunk_elems > 0 ? stored.chunk_elems : kJobBytes / bits_per_element(tensor.dtype) * 8;
  return std::min(tensor.n_elems, std::max<std::uint64_t>(chunk_elems, 8));
}

Result<void> write_tensors(const TensorArchive& archive, const SafetensorsHeader& header,
                           ByteSink& sink, const ReadProgress& progress, unsigned threads) {
  Output output{archive, sink, progress, 0};
  OrderedPipeline pipeline(resolve_threads(threads));
  auto job = std::make_unique<DecodeJob>(output);
  for (const SafetensorsEntry& entry : header.entries) {
    const ArchiveTensor& tensor = *archive.find(entry.name);
    const std::uint64_t piece_elems = elems_per_piece(archive, tensor);
    for (std::uint64_t first = 0; first < tensor.n_elems; first += piece_elems) {
      const std::uint64_t count = std::min(piece_elems, tensor.n_elems - first);
      // All pieces but the last are multiples of 8 elements for sub-byte dtypes. A view with gaps
      // may claim far more than the file has.
      const std::uint64_t n_bytes = format::byte_of(count, bits_per_element(tensor.dtype));
      CFCK_TRY(archive.check_decoded_bytes(tensor, n_bytes));
      job->add({&tensor, first, count, 0, n_bytes});
      if (job->n_bytes() >= kJobBytes) {
        CFCK_TRY(pipeline.submit(std::move(job)));
        job = std::make_unique<DecodeJob>(output);
      }
    }
  }
  if (job->n_bytes() > 0) CFCK_TRY(pipeline.submit(std::move(job)));
  return pipeline.drain();
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
  return write_tensors(archive, header, sink, progress, threads);
}

std::uint64_t file_bytes(const SafetensorsHeader& header) {
  std::uint64_t n_bytes = kSafetensorsLengthBytes + header.json.size();
  for (const SafetensorsEntry& entry : header.entries) n_bytes += entry.n_bytes;
  return n_bytes;
}

}  // namespace cfck::interop
