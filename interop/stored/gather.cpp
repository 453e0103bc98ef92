#include "interop/stored/gather.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace cfck::interop {
namespace {

// Elements within this many bytes are read together, with whatever lies between them.
constexpr std::uint64_t kMinSpanBytes = std::uint64_t{1} << 20;
// Above that, at least every fourth element must be wanted,
constexpr std::uint64_t kMaxSparsity = 4;
// and this is the most that is read at once.
constexpr std::uint64_t kMaxSpanBytes = std::uint64_t{8} << 20;

struct Axis {
  std::uint64_t n = 0;
  std::uint64_t from = 0;  // distance in the source, in elements
  std::uint64_t to = 0;    // distance in the output, in elements
};

template <std::size_t kElemBytes>
void copy_axes(std::span<const Axis> axes, const std::byte* from, std::byte* to,
               std::size_t elem_bytes) {
  const std::size_t n_bytes = kElemBytes == 0 ? elem_bytes : kElemBytes;
  if (axes.empty()) {
    std::memcpy(to, from, n_bytes);
    return;
  }
  const Axis axis = axes.front();
  if (axes.size() > 1) {
    for (std::uint64_t i = 0; i < axis.n; ++i) {
      copy_axes<kElemBytes>(axes.subspan(1), from + i * axis.from * n_bytes,
                            to + i * axis.to * n_bytes, elem_bytes);
    }
    return;
  }
  for (std::uint64_t i = 0; i < axis.n; ++i) {
    std::memcpy(to + i * axis.to * n_bytes, from + i * axis.from * n_bytes, n_bytes);
  }
}

class Gatherer {
 public:
  Gatherer(const ByteSource& source, std::uint64_t elem_bytes, MutableBytes out)
      : source_(source), elem_bytes_(elem_bytes), out_(out) {}

  // `axes` by descending distance in the source.
  Result<void> run(std::span<const Axis> axes, std::uint64_t from_bytes, std::uint64_t to_elems) {
    std::uint64_t span = 1;
    std::uint64_t n_elems = 1;
    for (const Axis& axis : axes) {
      span += (axis.n - 1) * axis.from;
      n_elems *= axis.n;
    }
    const std::uint64_t span_bytes = span * elem_bytes_;
    const bool dense = span / kMaxSparsity <= n_elems;
    if (span_bytes <= kMinSpanBytes || axes.empty() || (dense && span_bytes <= kMaxSpanBytes)) {
      return read(axes, span_bytes, from_bytes, to_elems);
    }
    // Parts along the axis of the longest distance: as many of its elements as there is room for,
    // or one by one where they are far apart.
    const Axis& outer = axes.front();
    const std::uint64_t rest = span - (outer.n - 1) * outer.from;
    const std::uint64_t room = kMaxSpanBytes / elem_bytes_;
    const std::uint64_t step = dense && rest < room ? 1 + (room - rest) / outer.from : 1;
    std::vector<Axis> part(axes.begin(), axes.end());
    for (std::uint64_t i = 0; i < outer.n; i += step) {
      part.front().n = std::min(step, outer.n - i);
      const std::span<const Axis> inner =
          part.front().n == 1 ? std::span<const Axis>(part).subspan(1) : part;
      CFCK_TRY(run(inner, from_bytes + i * outer.from * elem_bytes_, to_elems + i * outer.to));
    }
    return {};
  }

 private:
  Result<void> read(std::span<const Axis> axes, std::uint64_t span_bytes, std::uint64_t from_bytes,
                    std::uint64_t to_elems) {
    buffer_.resize(span_bytes);
    CFCK_TRY(source_.read_at(from_bytes, buffer_));
    std::byte* const to = out_.data() + to_elems * elem_bytes_;
    switch (elem_bytes_) {
      case 1:
        copy_axes<1>(axes, buffer_.data(), to, 1);
        break;
      case 2:
        copy_axes<2>(axes, buffer_.data(), to, 2);
        break;
      case 4:
        copy_axes<4>(axes, buffer_.data(), to, 4);
        break;
      default:
        copy_axes<0>(axes, buffer_.data(), to, elem_bytes_);
    }
    return {};
  }

  const ByteSource& source_;
  std::uint64_t elem_bytes_;
  MutableBytes out_;
  std::vector<std::byte> buffer_;
};

}  // namespace

Result<void> gather(const ByteSource& source, const StridedBox& box, MutableBytes out) {
  if (out.empty()) return {};
  std::vector<Axis> axes;
  std::uint64_t to = 1;
  for (std::size_t i = box.shape.size(); i-- > 0;) {
    if (box.shape[i] != 1) axes.push_back({box.shape[i], box.strides[i], to});
    to *= box.shape[i];
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return a.from > b.from; });
  return Gatherer(source, box.elem_bytes, out).run(axes, box.offset_bytes, 0);
}

}  // namespace cfck::interop
