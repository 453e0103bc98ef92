#include "format/write/sharing/gather_source.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace cfck::format {
namespace {

template <class T>
void copy_strided(const std::byte* from, std::uint64_t stride, std::uint64_t n, std::byte* out) {
  for (std::uint64_t i = 0; i < n; ++i) {
    store(out + i * sizeof(T), load<T>(from + i * stride * sizeof(T)));
  }
}

}  // namespace

GatherSource::GatherSource(const std::byte* data, DType dtype, const Shape& shape,
                           const std::vector<std::uint64_t>& strides)
    : data_(data), elem_bytes_(bits_per_element(dtype) / 8) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    n_elems_ *= shape[i];
    if (shape[i] == 1) {
      continue;
    }
    if (!axes_.empty() && axes_.back().stride == strides[i] * shape[i]) {
      axes_.back() = {axes_.back().size * shape[i], strides[i]};
    } else {
      axes_.push_back({shape[i], strides[i]});
    }
  }
}

void GatherSource::copy_run(std::uint64_t first, std::uint64_t stride, std::uint64_t n,
                            std::byte* out) const {
  const std::byte* from = data_ + first * elem_bytes_;
  if (stride == 1 || n == 1) {
    std::memcpy(out, from, n * elem_bytes_);
    return;
  }
  switch (elem_bytes_) {
    case 1:
      return copy_strided<std::uint8_t>(from, stride, n, out);
    case 2:
      return copy_strided<std::uint16_t>(from, stride, n, out);
    case 4:
      return copy_strided<std::uint32_t>(from, stride, n, out);
    default:
      return copy_strided<std::uint64_t>(from, stride, n, out);
  }
}

Result<void> GatherSource::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  if (offset_bytes > size() || out.size() > size() - offset_bytes ||
      offset_bytes % elem_bytes_ != 0 || out.size() % elem_bytes_ != 0) {
    return internal_error("read outside of a view").at_byte(offset_bytes);
  }
  if (axes_.empty()) {
    std::memcpy(out.data(), data_, out.size());
    return {};
  }
  // The position of the first element: its index along every axis.
  std::vector<std::uint64_t> index(axes_.size());
  std::uint64_t left = offset_bytes / elem_bytes_;
  std::uint64_t position = 0;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    index[i] = left % axes_[i].size;
    left /= axes_[i].size;
    position += index[i] * axes_[i].stride;
  }
  std::uint64_t n_elems = out.size() / elem_bytes_;
  std::byte* to = out.data();
  const Axis& inner = axes_.back();
  while (n_elems > 0) {
    const std::uint64_t n = std::min(n_elems, inner.size - index.back());
    copy_run(position, inner.stride, n, to);
    to += n * elem_bytes_;
    n_elems -= n;
    position += n * inner.stride;
    index.back() += n;
    for (std::size_t i = axes_.size() - 1; i > 0 && index[i] == axes_[i].size; --i) {
      position -= axes_[i].size * axes_[i].stride;
      index[i] = 0;
      index[i - 1] += 1;
      position += axes_[i - 1].stride;
    }
  }
  return {};
}

}  // namespace cfck::format
