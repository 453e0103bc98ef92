#include "message/chunk_encode.hpp"

namespace cfck::message {

void plan_values(const Values& values, encode::EncodePlan& plan) {
  const std::uint64_t n_bytes = values.source.size();
  const std::uint64_t n_elems = n_bytes * 8 / bits_per_element(values.dtype);
  plan.name.clear();
  plan.dtype = values.dtype;
  plan.shape = values.shape;
  plan.choice = {};
  plan.geometry = codec::chunk_geometry(values.dtype, n_elems, n_bytes,
                                        values.chunk_elems != 0 ? values.chunk_elems : n_elems);
  plan.source = &values.source;
  plan.offset_bytes = 0;
  plan.on_device = nullptr;
  plan.entropy = values.entropy;
  plan.level = values.level;
  plan.has_step = false;
  plan.quality = {};
}

encode::FrameCosts costs_of_chunks(std::uint64_t header_bytes) noexcept {
  return {
      .header_bytes = header_bytes,
      .max_packed_payload_bytes = 0,
      .max_raw_frame_bytes = codec::kMaxChunkBytes,
      // There are no tables, but lossy codecs are compared as they are in a file.
      .error_entry_bytes = 32,
      .preamble_entry_bytes = 24,
  };
}

Result<encode::SingleChoice> encode_chunk(const encode::EncodePlan& plan,
                                          std::uint64_t header_bytes, ByteView values,
                                          encode::WorkerMemory& memory) {
  return encode::choose_for_values(plan, costs_of_chunks(header_bytes), values, memory,
                                   encode::WantsDigest::kNo);
}

}  // namespace cfck::message
