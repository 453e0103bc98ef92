#include "tests/fuzz/patch_again.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "cfck/patch.hpp"
#include "tests/fuzz/fixed_base.hpp"

namespace cfck::test {
namespace {

using Memory = std::vector<std::vector<std::byte>>;  // by number of the record

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

bool is_view_in_memory(const Record& record) {
  std::uint64_t run = 1;
  for (std::size_t i = record.shape.size(); i-- > 0;) {
    if (record.shape[i] != 1 && record.strides[i] != run) {
      return false;
    }
    run *= record.shape[i];
  }
  return bits_per_element(record.dtype) >= 8;
}

// The values before the patch.
std::vector<std::byte> values_before(const Record& record) {
  for (const FixedTensor& tensor : fixed_tensors()) {
    if (tensor.name == record.name && tensor.dtype == record.dtype &&
        tensor.shape == record.shape) {
      return tensor.values;
    }
  }
  return std::vector<std::byte>(record.decoded_bytes);
}

std::vector<PatchedTensor> tensors_of(const Reader& reader, bool ties_views, Memory& memory) {
  std::vector<PatchedTensor> tensors;
  for (const Record& record : reader.records()) {
    if (record.hidden) {
      continue;
    }
    MutableBytes data = memory[record.index];
    const bool is_tied = ties_views && record.kind == RecordKind::kAlias &&
                         !reader.records()[record.base].hidden && is_view_in_memory(record);
    if (is_tied) {
      const std::uint64_t first = record.element_offset * bits_per_element(record.dtype) / 8;
      data = MutableBytes(memory[record.base]).subspan(first, record.decoded_bytes);
    }
    const bool is_copy = !ties_views && record.index % 2 == 1;
    tensors.push_back({record.name, record.dtype, record.shape, data, is_copy});
  }
  return tensors;
}

void check_values(const Reader& reader, const Record& record, ByteView found) {
  // An alias may share the memory of its base, and nothing has no value: whether the index has
  // their digests right is for verify().
  const bool is_proven = record.kind != RecordKind::kAlias && record.n_elems != 0;
  require(!is_proven || digest_of(found) == record.digest);
  std::vector<std::byte> expected(record.decoded_bytes);
  if (reader.read(record, expected)) {
    require(std::equal(found.begin(), found.end(), expected.begin()));
  }
}

bool apply(const ByteSource& file, const Reader& reader, const DecodeOptions& options,
           bool ties_views) {
  Memory memory;
  for (const Record& record : reader.records()) {
    memory.push_back(record.hidden ? std::vector<std::byte>() : values_before(record));
  }
  const Memory before = memory;
  const std::vector<PatchedTensor> tensors = tensors_of(reader, ties_views, memory);
  if (!apply_patch(file, tensors, options)) {
    require(memory == before);
    return false;
  }
  auto tensor = tensors.begin();
  for (const Record& record : reader.records()) {
    if (!record.hidden) {
      check_values(reader, record, tensor->data);
      ++tensor;
    }
  }
  return true;
}

}  // namespace

bool apply_as_patch(const ByteSource& file, const Reader& reader, const DecodeOptions& options,
                    std::uint64_t most_bytes) {
  std::uint64_t n_bytes = 0;
  for (const Record& record : reader.records()) {
    if (record.decoded_bytes > most_bytes - n_bytes) {
      return false;
    }
    n_bytes += record.decoded_bytes;
  }
  const bool is_applied = apply(file, reader, options, false);
  return apply(file, reader, options, true) && is_applied;
}

}  // namespace cfck::test
