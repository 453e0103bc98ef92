// Reads tensors of a safetensors file, whole and by parts.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "base/threads/threads.hpp"
#include "cfck/safetensors.hpp"
#include "format/read/shared_progress.hpp"

namespace cfck {
namespace {

// Bytes that a worker reads at once; shorter runs are read together.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 18;

Error refuse(const SafetensorsEntry& entry, const char* message) {
  return invalid_argument(message).in_record(entry.name);
}

struct Piece {
  const SafetensorsRead* read = nullptr;
  std::uint64_t first_byte = 0;
  std::uint64_t n_bytes = 0;
};

Result<std::vector<Piece>> pieces_of(const ByteSource& source,
                                     std::span<const SafetensorsRead> reads) {
  std::vector<Piece> pieces;
  for (const SafetensorsRead& read : reads) {
    if (read.out.size() != read.entry->n_bytes) {
      return refuse(*read.entry, "the memory for the tensor has the wrong size");
    }
    CFCK_TRY(check_apart(read.out, source, read.entry->name));
    for (std::uint64_t first = 0; first < read.out.size(); first += kPieceBytes) {
      pieces.push_back({&read, first, std::min(kPieceBytes, read.out.size() - first)});
    }
  }
  return pieces;
}

// Copies runs of a file, in ascending order; short ones from a window of it.
class RunReader {
 public:
  RunReader(const ByteSource& source, std::uint64_t end) : source_(source), end_(end) {}

  Result<void> read(std::uint64_t offset_bytes, MutableBytes out) {
    if (out.size() >= kWindowBytes) return source_.read_at(offset_bytes, out);
    if (offset_bytes < start_ || offset_bytes + out.size() > start_ + window_.size()) {
      start_ = offset_bytes;
      window_.resize(std::min(kWindowBytes, end_ - offset_bytes));
      CFCK_TRY(source_.read_at(start_, window_));
    }
    std::memcpy(out.data(), window_.data() + (offset_bytes - start_), out.size());
    return {};
  }

 private:
  const ByteSource& source_;
  std::uint64_t end_;
  std::uint64_t start_ = 0;
  std::vector<std::byte> window_;
};

// A box of elements. Its last axes are one run where it has all of them.
class Box {
 public:
  Box(const SafetensorsEntry& entry, std::span<const std::uint64_t> starts,
      std::span<const std::uint64_t> stops)
      : entry_(entry), starts_(starts), stops_(stops), strides_(entry.shape.size(), 1) {
    for (std::size_t axis = entry.shape.size(); axis-- > 1;) {
      strides_[axis - 1] = strides_[axis] * entry.shape[axis];
    }
    n_outer_ = entry.shape.size();
    while (n_outer_ > 0 && starts[n_outer_ - 1] == 0 &&
           stops[n_outer_ - 1] == entry.shape[n_outer_ - 1]) {
      --n_outer_;
    }
    if (n_outer_ > 0) --n_outer_;  // along the last axis that is cut, the wanted part is one run
    run_elems_ = 1;
    for (std::size_t axis = n_outer_; axis < entry.shape.size(); ++axis) {
      run_elems_ *= stops[axis] - starts[axis];
      first_ += starts[axis] * strides_[axis];
    }
  }

  Result<void> read(const ByteSource& source, MutableBytes out) const {
    const std::uint64_t bits = bits_per_element(entry_.dtype);
    const std::uint64_t run_bytes = run_elems_ * bits / 8;
    RunReader reader(source, entry_.offset_bytes + entry_.n_bytes);
    std::vector<std::uint64_t> position(starts_.begin(), starts_.begin() + n_outer_);
    for (std::uint64_t done = 0; done < out.size(); done += run_bytes) {
      std::uint64_t first = first_;
      for (std::size_t axis = 0; axis < n_outer_; ++axis) first += position[axis] * strides_[axis];
      CFCK_TRY(reader.read(entry_.offset_bytes + first * bits / 8, out.subspan(done, run_bytes)));
      for (std::size_t axis = n_outer_; axis-- > 0;) {
        if (++position[axis] < stops_[axis]) break;
        position[axis] = starts_[axis];
      }
    }
    return {};
  }

 private:
  const SafetensorsEntry& entry_;
  std::span<const std::uint64_t> starts_;
  std::span<const std::uint64_t> stops_;
  std::vector<std::uint64_t> strides_;  // of a row-major tensor, in elements
  std::size_t n_outer_ = 0;             // axes that are not part of a run
  std::uint64_t run_elems_ = 0;
  std::uint64_t first_ = 0;  // of the first run, without the outer axes
};

Result<void> read_box(const ByteSource& source, const SafetensorsEntry& entry,
                      std::span<const std::uint64_t> starts, std::span<const std::uint64_t> stops,
                      MutableBytes out) {
  if (starts.size() != entry.shape.size() || stops.size() != entry.shape.size()) {
    return refuse(entry, "a slice has one start and one stop for each dimension");
  }
  Shape shape;
  for (std::size_t axis = 0; axis < entry.shape.size(); ++axis) {
    if (starts[axis] > stops[axis] || stops[axis] > entry.shape[axis]) {
      return refuse(entry, "the slice reaches beyond the tensor");
    }
    shape.push_back(stops[axis] - starts[axis]);
  }
  CFCK_TRY_ASSIGN(const std::uint64_t size, n_bytes(entry.dtype, shape));
  if (out.size() != size) return refuse(entry, "the memory for the slice has the wrong size");
  if (size == 0) return {};
  CFCK_TRY(check_apart(out, source, entry.name));
  if (size == entry.n_bytes) return source.read_at(entry.offset_bytes, out);
  if (bits_per_element(entry.dtype) % 8 != 0) {
    return unsupported("elements smaller than one byte can be read only with the whole tensor")
        .in_record(entry.name);
  }
  return Box(entry, starts, stops).read(source, out);
}

}  // namespace

Result<void> read_safetensors(const ByteSource& source, std::span<const SafetensorsRead> reads,
                              const ReadProgress& progress, unsigned threads) {
  return run_guarded([&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const std::vector<Piece> pieces, pieces_of(source, reads));
    format::SharedProgress shared(progress);
    return parallel_for(
        pieces.size(), resolve_threads(threads), [&](std::size_t i, unsigned) -> Result<void> {
          const Piece& piece = pieces[i];
          const SafetensorsEntry& entry = *piece.read->entry;
          CFCK_TRY(source.read_at(entry.offset_bytes + piece.first_byte,
                                  piece.read->out.subspan(piece.first_byte, piece.n_bytes)));
          return shared.advance(piece.n_bytes, entry.name);
        });
  });
}

Result<void> read_safetensors_slice(const ByteSource& source, const SafetensorsEntry& entry,
                                    std::span<const std::uint64_t> starts,
                                    std::span<const std::uint64_t> stops, MutableBytes out) {
  return run_guarded([&] { return read_box(source, entry, starts, stops, out); });
}

}  // namespace cfck
