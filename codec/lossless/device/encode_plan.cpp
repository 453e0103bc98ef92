// The lossless codec tells a device how to encode its chunks (codec/device_encode_plan.hpp).
#include "codec/common/chunk_shape.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/device_encode_plan.hpp"
#include "codec/lossless/device/encode_layout.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/symboliser/float_format.hpp"

namespace cfck::codec {
namespace {

std::optional<device::Kernel> kernel_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return device::Kernel::kEncodeLosslessF64;
    case DType::kF32:
    case DType::kC64:
      return device::Kernel::kEncodeLosslessF32;
    case DType::kBF16:
      return device::Kernel::kEncodeLosslessBf16;
    case DType::kF16:
      return device::Kernel::kEncodeLosslessF16;
    default:
      return std::nullopt;  // byte planes, which libzstd compresses, are tried for all others
  }
}

}  // namespace

std::size_t lossless_device_bytes(DType dtype, std::size_t n_values) {
  return visit_format(
      dtype,
      [&](auto tag) {
        using Format = With32Symbols<typename decltype(tag)::type>;
        return lossless_encode_layout(sizeof(typename Format::Word), Format::kRawBits, n_values)
            .n_bytes;
      },
      [] { return std::size_t{0}; });
}

std::optional<DeviceEncodePlan> LosslessEncoder::plan_for_device(const ChunkInfo& info) const {
  const std::optional<device::Kernel> kernel = kernel_of(info.dtype);
  const Result<ChunkShape> shape = chunk_shape(info);
  if (!kernel || info.entropy != EntropyId::kRans || !shape) {
    return std::nullopt;
  }
  return DeviceEncodePlan{*kernel, static_cast<std::uint32_t>(shape->n_values),
                          lossless_device_bytes(info.dtype, shape->n_values)};
}

}  // namespace cfck::codec
