#include "model/tensor_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/run_guarded.hpp"

namespace cfck::model {

Result<void> TensorBytes::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  return run_guarded([&]() -> Result<void> {
    if (out.empty()) return {};
    if (offset_bytes > size() || out.size() > size() - offset_bytes) {
      return truncated("the tensor ends before the bytes that are asked for")
          .in_record(tensor_.name);
    }
    const std::uint64_t bits = bits_per_element(tensor_.dtype);
    if (bits == 0) {
      return unsupported("a dtype of a newer version of cfck").in_record(tensor_.name);
    }
    // Eight elements are `bits` bytes; elements of whole bytes are read one by one.
    const std::uint64_t unit_bytes = bits % 8 == 0 ? bits / 8 : bits;
    const std::uint64_t unit_elems = bits % 8 == 0 ? 1 : 8;
    const std::uint64_t first_unit = offset_bytes / unit_bytes;
    const std::uint64_t last_byte = offset_bytes + out.size();
    const std::uint64_t end_unit = last_byte / unit_bytes + (last_byte % unit_bytes != 0 ? 1 : 0);
    const std::uint64_t first_elem = first_unit * unit_elems;
    const std::uint64_t end_elem = std::min(end_unit * unit_elems, tensor_.n_elems);
    const std::uint64_t head_bytes = offset_bytes - first_unit * unit_bytes;
    const std::uint64_t n_bytes = std::min(end_unit * unit_bytes, size()) - first_unit * unit_bytes;
    if (n_bytes == out.size()) {
      return archive_.read_elements(tensor_, first_elem, end_elem - first_elem, out);
    }
    std::vector<std::byte> buffer(n_bytes);
    CFCK_TRY(archive_.read_elements(tensor_, first_elem, end_elem - first_elem, buffer));
    std::memcpy(out.data(), buffer.data() + head_bytes, out.size());
    return {};
  });
}

}  // namespace cfck::model
