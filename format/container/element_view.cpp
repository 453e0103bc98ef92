#include "format/container/element_view.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace cfck::format {
namespace {

// Copies elements of 4 or 6 bits, one at a time.
void copy_bits(MutableBytes to, std::uint64_t to_elem, ByteView from, std::uint64_t from_elem,
               std::uint64_t n_elems, unsigned bits) noexcept {
  const unsigned mask = (1u << bits) - 1;
  for (std::uint64_t i = 0; i < n_elems; ++i) {
    const std::uint64_t from_byte = byte_of(from_elem + i, bits);
    const auto from_shift = static_cast<unsigned>((from_elem + i) % 8 * bits % 8);
    unsigned word = std::to_integer<unsigned>(from[from_byte]);
    if (from_shift + bits > 8) {
      word |= std::to_integer<unsigned>(from[from_byte + 1]) << 8;
    }
    const unsigned value = (word >> from_shift) & mask;
    const std::uint64_t to_byte = byte_of(to_elem + i, bits);
    const auto to_shift = static_cast<unsigned>((to_elem + i) % 8 * bits % 8);
    for (unsigned k = 0; k <= (to_shift + bits - 1) / 8; ++k) {
      const unsigned keep = ~((mask << to_shift) >> (8 * k)) & 0xFF;
      const unsigned add = ((value << to_shift) >> (8 * k)) & 0xFF;
      to[to_byte + k] =
          static_cast<std::byte>((std::to_integer<unsigned>(to[to_byte + k]) & keep) | add);
    }
  }
}

}  // namespace

void copy_elems(MutableBytes to, std::uint64_t to_elem, ByteView from, std::uint64_t from_elem,
                std::uint64_t n_elems, unsigned bits) noexcept {
  const bool on_bytes = bits >= 8 || (to_elem * bits % 8 == 0 && from_elem * bits % 8 == 0 &&
                                      n_elems * bits % 8 == 0);
  if (!on_bytes) {
    copy_bits(to, to_elem, from, from_elem, n_elems, bits);
  } else if (n_elems != 0) {
    std::memcpy(to.data() + byte_of(to_elem, bits), from.data() + byte_of(from_elem, bits),
                byte_of(n_elems, bits));
  }
}

ElementView::ElementView(std::uint64_t offset, const Shape& shape,
                         const std::vector<std::uint64_t>& strides)
    : offset_(offset) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) {
      continue;
    }
    // The comparison has no product that could overflow.
    const bool joins = !strides_.empty() && strides[i] <= strides_.back() &&
                       (strides[i] == 0 ? strides_.back() == 0
                                        : strides_.back() % strides[i] == 0 &&
                                              strides_.back() / strides[i] == shape[i]);
    if (joins) {
      shape_.back() *= shape[i];
      strides_.back() = strides[i];
    } else {
      shape_.push_back(shape[i]);
      strides_.push_back(strides[i]);
    }
  }
  if (shape_.empty()) {
    shape_.push_back(1);
    strides_.push_back(1);
  }
  for (std::size_t i = 1; i < shape_.size(); ++i) {
    row_ *= shape_[i];
  }
  run_ = strides_.back() == 1 ? shape_.back() : 1;
}

ElementView::ElementView(std::uint64_t offset, std::uint64_t n_elems)
    : offset_(offset), shape_{n_elems}, strides_{1}, run_(n_elems) {}

std::uint64_t ElementView::element_of(std::uint64_t flat) const noexcept {
  std::uint64_t element = offset_;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    element += flat % shape_[i] * strides_[i];
    flat /= shape_[i];
  }
  return element;
}

std::uint64_t ElementView::lower_bound(std::uint64_t first, std::uint64_t end,
                                       std::uint64_t element) const noexcept {
  while (first < end) {
    const std::uint64_t middle = first + (end - first) / 2;
    if (element_of(middle) < element) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return first;
}

bool ElementView::increasing() const noexcept {
  std::uint64_t reach = 0;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] > 1 && strides_[i] <= reach) {
      return false;
    }
    reach += (shape_[i] - 1) * strides_[i];
  }
  return true;
}

bool ElementView::whole_bytes(unsigned bits) const noexcept {
  if (bits >= 8) {
    return true;
  }
  bool whole = offset_ % 8 * bits % 8 == 0 && run_ % 8 * bits % 8 == 0;
  for (std::size_t i = 0; i + 1 < shape_.size(); ++i) {
    whole = whole && strides_[i] % 8 * bits % 8 == 0;
  }
  return whole;
}

std::uint64_t ElementView::lowest(std::uint64_t first_flat) const noexcept {
  return offset_ + first_flat / row_ * strides_[0];
}

std::uint64_t ElementView::highest(std::uint64_t last_flat) const noexcept {
  std::uint64_t element = offset_ + last_flat / row_ * strides_[0];
  for (std::size_t i = 1; i < shape_.size(); ++i) {
    element += (shape_[i] - 1) * strides_[i];
  }
  return element;
}

void ElementView::gather(MutableBytes to, ByteView from, std::uint64_t from_first,
                         std::uint64_t first, std::uint64_t n_elems, unsigned bits) const noexcept {
  const std::uint64_t inner = shape_.back();
  const std::uint64_t stride = strides_.back();
  std::uint64_t done = 0;
  while (done < n_elems) {
    const std::uint64_t flat = first + done;
    const std::uint64_t count = std::min(inner - flat % inner, n_elems - done);
    const std::uint64_t start = element_of(flat) - from_first;
    if (stride == 1) {
      copy_elems(to, done, from, start, count, bits);
    } else if (bits == 32) {
      for (std::uint64_t i = 0; i < count; ++i) {
        store(to.data() + (done + i) * 4,
              load<std::uint32_t>(from.data() + (start + i * stride) * 4));
      }
    } else if (bits == 16) {
      for (std::uint64_t i = 0; i < count; ++i) {
        store(to.data() + (done + i) * 2,
              load<std::uint16_t>(from.data() + (start + i * stride) * 2));
      }
    } else {
      for (std::uint64_t i = 0; i < count; ++i) {
        copy_elems(to, done + i, from, start + i * stride, 1, bits);
      }
    }
    done += count;
  }
}

}  // namespace cfck::format
