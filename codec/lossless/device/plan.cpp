// The lossless codec tells a device of its chunks (codec/device_plan.hpp).
#include <algorithm>

#include "codec/common/groups.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/device_plan.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "codec/lossless/device/header.hpp"
#include "codec/lossless/lossless.hpp"

namespace cfck::codec {
namespace {

static_assert(kMinSegmentValues == kSegmentGroups * kGroupSize && kMostSegments == kMaxSegments);

// The kernel that decodes mode 2; kHost where there is none for the dtype.
DecodeMethod choose_kernel(DType dtype, device::Kernel& kernel) {
  switch (dtype) {
    case DType::kF64:
      kernel = device::Kernel::kDecodeLosslessF64;
      return DecodeMethod::kKernel;
    case DType::kF32:
    case DType::kC64:
      kernel = device::Kernel::kDecodeLosslessF32;
      return DecodeMethod::kKernel;
    case DType::kBF16:
      kernel = device::Kernel::kDecodeLosslessBf16;
      return DecodeMethod::kKernel;
    case DType::kF16:
      kernel = device::Kernel::kDecodeLosslessF16;
      return DecodeMethod::kKernel;
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      kernel = device::Kernel::kDecodeLosslessE5m2;
      return DecodeMethod::kKernel;
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
      kernel = device::Kernel::kDecodeLosslessE4m3;
      return DecodeMethod::kKernel;
    default:
      return DecodeMethod::kHost;
  }
}

// Fills in what all segments have in common.
LosslessDeviceHeader common_header(const SymbolsHeader& symbols, DeviceSections& sections) {
  LosslessDeviceHeader result;
  result.flags = symbols.flags;
  result.n_masked = symbols.n_masked;
  result.trailing_zero_base = symbols.trailing_zero_base;
  result.mask = sections.next(symbols.mask_bytes);
  result.mask_signs = sections.next(symbols.sign_bytes());
  result.tables = sections.next(symbols.table_bytes);
  return result;
}

void plan_segments(const SymbolsHeader& symbols, const ChunkShape& shape,
                   std::uint32_t header_bytes, DevicePlan& plan) {
  DeviceSections sections(header_bytes);
  LosslessDeviceHeader header = common_header(symbols, sections);
  const bool has_mask = (symbols.flags & kHasMask) != 0;
  const SegmentedGroups groups(shape.n_values - symbols.n_masked, symbols.n_segments);
  plan.segments.resize(symbols.n_segments);
  for (unsigned i = 0; i < symbols.n_segments; ++i) {
    const SegmentHeader& segment = symbols.segments[i];
    header.first_bin = segment.first_bin;
    header.bin_escapes = sections.next(2 * std::uint64_t{segment.n_bin_escapes});
    header.escapes = sections.next(std::uint64_t{shape.value_bytes} * segment.n_escapes);
    header.coded = sections.next(segment.coded_bytes);
    header.raw = sections.next(segment.raw_bytes);
    const std::uint64_t n_groups = groups.end_group(i) - groups.first_group(i);
    SegmentPlan& to = plan.segments[i];
    to.header.store(header);
    to.first_value = static_cast<std::uint32_t>(groups.first_value(i));
    to.n_values = static_cast<std::uint32_t>(has_mask ? shape.n_values : groups.n_values(i));
    to.needs.groups_bytes = 4 * n_groups;
    to.needs.values_bytes = has_mask ? groups.n_values(i) * shape.value_bytes : 0;
    to.needs.escapes_bytes = escape_rows_bytes(segment.n_escapes, n_groups);
  }
}

void plan_symbols(const ChunkInfo& info, const ChunkShape& shape, const ChunkHeader& header,
                  DevicePlan& plan) {
  const SymbolsHeader& symbols = header.symbols;
  // Tables of no bytes at all are the host's to refuse.
  if (info.entropy != EntropyId::kRans || (symbols.n_segments > 1 && symbols.table_bytes == 0)) {
    return;
  }
  plan.method = choose_kernel(info.dtype, plan.kernel);
  plan_segments(symbols, shape, header.header_bytes, plan);
  if ((symbols.flags & kHasMask) != 0) {
    plan.mask_bytes = static_cast<std::uint32_t>((shape.n_values + 7) / 8);
    plan.mask_at = header.header_bytes;
    plan.mask_frame_bytes = symbols.mask_bytes == plan.mask_bytes ? 0 : symbols.mask_bytes;
  }
}

}  // namespace

DevicePlan lossless_device_plan(const ChunkInfo& info, ByteView payload,
                                std::uint32_t payload_bytes) {
  DevicePlan plan;
  const auto shape = chunk_shape(info);
  const auto header = parse_chunk_header(info, payload);
  if (!check_lossless_chunk(info) || !shape || !header) {
    return plan;
  }
  const bool has_frame = header->mode == ChunkMode::kSymbols && info.entropy != EntropyId::kRans;
  if (has_frame || header->body_bytes != payload_bytes) {
    return plan;
  }
  plan.values_at = header->header_bytes;
  plan.value_bytes = shape->value_bytes;
  switch (header->mode) {
    case ChunkMode::kStored:
      plan.method = DecodeMethod::kCopy;
      break;
    case ChunkMode::kConstant:
      plan.method = DecodeMethod::kRepeat;
      break;
    case ChunkMode::kSymbols:
      plan_symbols(info, *shape, *header, plan);
      break;
    case ChunkMode::kPlanes:
      break;
  }
  return plan;
}

DevicePlan LosslessDecoder::plan_for_device(
    const ChunkInfo& info, ByteView payload, std::uint32_t payload_bytes,
    const std::shared_ptr<const ParametersForDevice>&) const {
  return lossless_device_plan(info, payload, payload_bytes);
}

}  // namespace cfck::codec
