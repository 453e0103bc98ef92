#include "format/read/boxes.hpp"

#include <utility>
#include <vector>

#include "base/overlap.hpp"

namespace cfck::format {

Error wrong_call(std::string message, const std::string& record) {
  return invalid_argument(std::move(message)).in_record(record);
}

Result<void> check_out(const OpenFile& file, const Record& record, std::uint64_t expected_bytes,
                       MutableBytes out) {
  if (out.size() != expected_bytes) {
    return wrong_call("the memory to read into has " + std::to_string(out.size()) +
                          " bytes; the values need " + std::to_string(expected_bytes),
                      record.name);
  }
  return check_apart(out, *file.source, record.name);
}

Result<std::uint64_t> range_bytes(const Record& record, std::uint64_t first, std::uint64_t count) {
  const unsigned bits = bits_per_element(record.dtype);
  if (first > record.n_elems || count > record.n_elems - first) {
    return wrong_call(
        "the range of elements ends beyond the tensor, which has " + std::to_string(record.n_elems),
        record.name);
  }
  if (bits < 8 && (first % 8 * bits % 8 != 0 || count % 8 * bits % 8 != 0)) {
    return wrong_call("a range of a sub-byte dtype must start and end on whole bytes", record.name);
  }
  return byte_of(count, bits);
}

ElementView box_view(const Record& record, std::span<const std::uint64_t> starts,
                     const Shape& shape) {
  std::vector<std::uint64_t> strides(record.shape.size());
  std::uint64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= record.shape[i];
  }
  std::uint64_t offset = 0;
  if (record.kind == RecordKind::kAlias) {
    strides = record.strides;
    offset = record.element_offset;
  }
  for (std::size_t i = 0; i < strides.size(); ++i) {
    offset += starts[i] * strides[i];
  }
  return ElementView(offset, shape, strides);
}

Result<Shape> box_shape(const Record& record, std::span<const std::uint64_t> starts,
                        std::span<const std::uint64_t> stops) {
  if (starts.size() != record.shape.size() || stops.size() != record.shape.size()) {
    return wrong_call("the box needs one start and one stop for each of the " +
                          std::to_string(record.shape.size()) + " dimensions",
                      record.name);
  }
  Shape shape(starts.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (starts[i] > stops[i] || stops[i] > record.shape[i]) {
      return wrong_call("the box reaches beyond dimension " + std::to_string(i) + ", which is " +
                            std::to_string(record.shape[i]),
                        record.name);
    }
    shape[i] = stops[i] - starts[i];
  }
  return shape;
}

Result<const Record*> own_readable(const OpenFile& file, const Record& record) {
  CFCK_TRY_ASSIGN(const Record* const own, file.own(record));
  CFCK_TRY(check_readable(*own));
  return own;
}

}  // namespace cfck::format
