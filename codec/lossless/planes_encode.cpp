#include "codec/lossless/planes_encode.hpp"

#include <algorithm>

#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/lossless/integer_planes.hpp"
#include "codec/lossless/scratch.hpp"

namespace cfck::codec {
namespace {

Result<void> encode_split_planes(const ChunkShape& shape, ByteView planes, PlaneTransform transform,
                                 Scratch& scratch, std::vector<std::byte>& out) {
  PlanesHeader header;
  header.transform = transform;
  LosslessScratch& memory = scratch.part<LosslessScratch>();
  std::vector<std::byte>& sections = memory.sections;
  std::vector<std::byte>& frame = memory.plane_frame;
  sections.clear();
  for (unsigned p = 0; p < shape.value_bytes; ++p) {
    const ByteView plane = planes.subspan(p * shape.n_values, shape.n_values);
    PlaneHeader& plane_header = header.planes[p];
    if (std::all_of(plane.begin(), plane.end(), [&](std::byte b) { return b == plane[0]; })) {
      plane_header.coding = PlaneCoding::kConstant;
      plane_header.value = plane[0];
      continue;
    }
    CFCK_TRY(compress_bytes(plane, scratch, frame));
    const bool shrinks = frame.size() < plane.size();
    plane_header.coding = shrinks ? PlaneCoding::kZstd : PlaneCoding::kRaw;
    const ByteView stored = shrinks ? ByteView(frame) : plane;
    plane_header.stored_bytes = static_cast<std::uint32_t>(stored.size());
    sections.insert(sections.end(), stored.begin(), stored.end());
  }
  out.clear();
  append_planes_header(header, shape.value_bytes, out);
  out.insert(out.end(), sections.begin(), sections.end());
  return {};
}

}  // namespace

Result<void> encode_planes(const ChunkShape& shape, ByteView values, bool try_delta,
                           Scratch& scratch, std::vector<std::byte>& out) {
  std::byte* const room = scratch.part<LosslessScratch>().planes.reserve(shape.n_bytes());
  const ByteView planes(room, shape.n_bytes());
  split_planes(values.data(), shape.n_values, shape.value_bytes, false, room);
  CFCK_TRY(encode_split_planes(shape, planes, PlaneTransform::kNone, scratch, out));
  if (try_delta) {
    std::vector<std::byte>& as_delta = scratch.part<LosslessScratch>().deltas_body;
    split_planes(values.data(), shape.n_values, shape.value_bytes, true, room);
    CFCK_TRY(encode_split_planes(shape, planes, PlaneTransform::kDelta, scratch, as_delta));
    if (as_delta.size() < out.size()) {
      out.assign(as_delta.begin(), as_delta.end());
    }
  }
  return {};
}

}  // namespace cfck::codec
