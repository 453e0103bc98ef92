// The lossless codec tells a device of its chunks (codec/device_plan.hpp).
#include "codec/device_plan.hpp"

#include <algorithm>

#include "codec/common/groups.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "codec/lossless/device_header.hpp"
#include "codec/lossless/lossless.hpp"

namespace cfck::codec {
namespace {

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

LosslessDeviceHeader device_header(const ChunkHeader& header, unsigned value_bytes) {
  const SymbolsHeader& symbols = header.symbols;
  const bool has_signs = (symbols.flags & kHasMaskSigns) != 0;
  DeviceSections sections(header.header_bytes);
  LosslessDeviceHeader result;
  result.flags = symbols.flags;
  result.first_bin = symbols.first_bin;
  result.n_masked = symbols.n_masked;
  result.trailing_zero_base = symbols.trailing_zero_base;
  result.mask = sections.next(symbols.mask_bytes);
  result.mask_signs = sections.next(has_signs ? (std::uint64_t{symbols.n_masked} + 7) / 8 : 0);
  result.bin_escapes = sections.next(2 * std::uint64_t{symbols.n_bin_escapes});
  result.escapes = sections.next(std::uint64_t{value_bytes} * symbols.n_escapes);
  result.coded = sections.next(symbols.coded_bytes);
  result.raw = sections.next(symbols.raw_bytes);
  return result;
}

void plan_symbols(const ChunkInfo& info, const ChunkShape& shape, const ChunkHeader& header,
                  DevicePlan& plan) {
  if (info.entropy != EntropyId::kRans) {
    return;
  }
  plan.method = choose_kernel(info.dtype, plan.kernel);
  plan.header.store(device_header(header, shape.value_bytes));
  const SymbolsHeader& symbols = header.symbols;
  const std::uint64_t n_left = shape.n_values - symbols.n_masked;
  const std::uint64_t n_groups = (n_left + kGroupSize - 1) / kGroupSize;
  plan.needs.groups_bytes = 4 * n_groups;
  plan.needs.escapes_bytes = escape_rows_bytes(symbols.n_escapes, n_groups);
  if ((symbols.flags & kHasMask) != 0) {
    plan.needs.values_bytes = n_left * shape.value_bytes;
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
  plan.n_values = static_cast<std::uint32_t>(shape->n_values);
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
