#include "encode/plan.hpp"

namespace cfck::encode {

Result<ByteView> range_of(const ByteSource& source, std::uint64_t offset_bytes,
                          std::uint64_t n_bytes, std::vector<std::byte>& buffer) {
  const ByteView mapped = source.mapped();
  if (!mapped.empty()) {
    return mapped.subspan(offset_bytes, n_bytes);
  }
  buffer.resize(n_bytes);
  CFCK_TRY(source.read_at(offset_bytes, buffer));
  return ByteView(buffer);
}

ByteView known_values(const EncodePlan& plan, std::uint64_t offset_bytes, std::uint64_t n_bytes) {
  return plan.on_device == nullptr ? ByteView() : plan.on_device->find_bytes(offset_bytes, n_bytes);
}

Result<ByteView> read_values(const EncodePlan& plan, std::uint64_t offset_bytes,
                             std::uint64_t n_bytes, WorkerMemory& memory) {
  const ByteView mapped = plan.source->mapped();
  if (!mapped.empty()) {
    return mapped.subspan(plan.offset_bytes + offset_bytes, n_bytes);
  }
  if (const ByteView known = known_values(plan, offset_bytes, n_bytes); !known.empty()) {
    return known;
  }
  if (memory.values_bytes < n_bytes) {
    memory.values.reset();
    memory.values_bytes = 0;
    memory.values = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
    memory.values_bytes = n_bytes;
  }
  const MutableBytes values(memory.values.get(), n_bytes);
  CFCK_TRY(plan.source->read_at(plan.offset_bytes + offset_bytes, values));
  return ByteView(values);
}

Result<ByteView> read_chunk(const EncodePlan& plan, std::uint64_t chunk, WorkerMemory& memory) {
  const ChunkGeometry& geometry = plan.geometry;
  return naming(read_values(plan, chunk * geometry.chunk_bytes, geometry.bytes_of(chunk), memory),
                plan);
}

}  // namespace cfck::encode
