#include "interop/stream/tensor_stream.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/threads/threads.hpp"
#include "format/container/element_view.hpp"
#include "format/write/sharing/alias_plan.hpp"
#include "model/listed_archive.hpp"

namespace cfck::interop {
namespace {

// Decoded bytes that a batch collects before it is handed to a worker: many small tensors together,
// so that a batch is worth its overhead.
constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20;

// Elements of one tensor that a batch decodes to `out_offset` of its buffer.
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
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> stopped = false;

  // False once `progress` ended the call. On other threads than the caller's it is not asked.
  bool go_on(std::string_view name) {
    if (!stopped && progress && std::this_thread::get_id() == caller) {
      stopped = !progress(done_bytes, name);
    }
    return !stopped;
  }
};

// Pieces of tensors, and bytes between them, are decoded and written at once.
class Batch {
 public:
  std::uint64_t n_bytes() const { return n_bytes_; }

  // Adds bytes that come before what is added next.
  void add(ByteView literal) {
    literals_.push_back({n_bytes_, literal});
    n_bytes_ += literal.size();
  }

  void add(Piece piece) {
    piece.out_offset = n_bytes_;
    n_bytes_ += piece.n_bytes;
    tensor_bytes_ += piece.n_bytes;
    pieces_.push_back(piece);
  }

  // On any thread.
  Result<std::vector<std::byte>> decode(Output& output) const {
    std::vector<std::byte> bytes(n_bytes_);
    const MutableBytes all(bytes);
    for (const auto& [offset, literal] : literals_) {
      std::copy(literal.begin(), literal.end(),
                bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    std::vector<ArchiveRead> whole;
    for (const Piece& piece : pieces_) {
      const MutableBytes out = all.subspan(piece.out_offset, piece.n_bytes);
      if (piece.n_elems == piece.tensor->n_elems) {
        whole.push_back({piece.tensor, out});
      } else {
        if (!output.go_on(piece.tensor->name)) return cancelled();
        CFCK_TRY(output.archive.read_elements(*piece.tensor, piece.first_elem, piece.n_elems, out));
      }
    }
    CFCK_TRY(output.archive.read_many(
        whole, [&](std::uint64_t, std::string_view name) { return output.go_on(name); }));
    return bytes;
  }

  // When its turn comes.
  Result<void> write(Output& output, ByteView bytes) const {
    CFCK_TRY(output.sink.write(bytes));
    output.done_bytes += tensor_bytes_;
    return pieces_.empty() || output.go_on(pieces_.back().tensor->name) ? Result<void>()
                                                                        : cancelled();
  }

 private:
  std::vector<Piece> pieces_;
  std::vector<std::pair<std::uint64_t, ByteView>> literals_;  // with their places in the bytes
  std::uint64_t n_bytes_ = 0;
  std::uint64_t tensor_bytes_ = 0;
};

Result<void> submit(OrderedPipeline& pipeline, Output& output, Batch made) {
  const auto batch = std::make_shared<const Batch>(std::move(made));
  return pipeline.submit([&output, batch](unsigned) { return batch->decode(output); },
                         [&output, batch](const std::vector<std::byte>& bytes) {
                           return batch->write(output, bytes);
                         });
}

// Number of elements to decode at a time: whole chunks of the stored tensor.
std::uint64_t elems_per_piece(const TensorArchive& archive, const ArchiveTensor& tensor) {
  const ArchiveTensor& stored = archive.tensors()[tensor.base];
  // Otherwise the elements are scattered over all chunks of the base. A small base has few chunks:
  // an alias may repeat it many times.
  if (tensor.sharing == Sharing::kMemory && !format::is_contiguous(tensor.shape, tensor.strides)) {
    if (stored.n_bytes > kBatchBytes) return tensor.n_elems;
    return std::min(tensor.n_elems, kBatchBytes / bits_per_element(tensor.dtype) * 8);
  }
  const std::uint64_t batch_elems = kBatchBytes / bits_per_element(tensor.dtype) * 8;
  const std::uint64_t chunk_elems = std::max<std::uint64_t>(stored.chunk_elems, 8);
  if (stored.chunk_elems == 0) return std::min(tensor.n_elems, batch_elems);
  // A call for each small chunk would take longer than decoding it.
  return std::min(tensor.n_elems, ceil_div(batch_elems, chunk_elems) * chunk_elems);
}

}  // namespace

Result<void> write_tensors(const TensorArchive& archive, std::span<const StreamedTensor> tensors,
                           ByteView end, ByteSink& sink, const ReadProgress& progress,
                           unsigned threads) {
  model::DecodedTotals totals(archive);
  for (const StreamedTensor& streamed : tensors) CFCK_TRY(totals.add(*streamed.tensor));
  Output output{archive, sink, progress};
  OrderedPipeline pipeline(resolve_threads(threads));
  Batch batch;
  for (const StreamedTensor& streamed : tensors) {
    const ArchiveTensor& tensor = *streamed.tensor;
    if (!streamed.before.empty()) batch.add(streamed.before);
    const std::uint64_t piece_elems = elems_per_piece(archive, tensor);
    for (std::uint64_t first = 0; first < tensor.n_elems; first += piece_elems) {
      const std::uint64_t count = std::min(piece_elems, tensor.n_elems - first);
      // All pieces but the last are multiples of 8 elements for sub-byte dtypes. A view with gaps
      // may claim far more than the file has.
      const std::uint64_t n_bytes = format::byte_of(count, bits_per_element(tensor.dtype));
      CFCK_TRY(archive.check_decoded_bytes(tensor, n_bytes));
      batch.add({&tensor, first, count, 0, n_bytes});
      if (batch.n_bytes() >= kBatchBytes) {
        CFCK_TRY(submit(pipeline, output, std::exchange(batch, {})));
      }
    }
  }
  if (!end.empty()) batch.add(end);
  if (batch.n_bytes() > 0) CFCK_TRY(submit(pipeline, output, std::move(batch)));
  return pipeline.drain();
}

}  // namespace cfck::interop
