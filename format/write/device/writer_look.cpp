// A writer has a device look at tensors in its memory before they are encoded.
#include "format/container/tensor_checks.hpp"
#include "format/write/writer_impl.hpp"

namespace cfck {

Result<void> Writer::Impl::use_device(encode::DeviceEncoder& encoder_on_device) {
  if (!places.empty()) {
    return invalid_argument("tensors were added to the writer before the device");
  }
  device = &encoder_on_device;
  encoder.use_device(encoder_on_device);
  return {};
}

// The plans are those that the tensors will have, but for options of their own.
Result<void> Writer::Impl::look_at(std::span<const TensorSource> tensors) {
  std::vector<encode::EncodePlan> plans;
  for (const TensorSource& tensor : tensors) {
    CFCK_TRY_ASSIGN(const std::uint64_t total_bytes, format::checked_bytes({}, tensor));
    if (total_bytes == 0) {
      continue;
    }
    CFCK_TRY_ASSIGN(const std::uint64_t n, n_elems(tensor.shape));
    encode::EncodePlan& plan = plans.emplace_back();
    plan.tries_others = true;
    plan.dtype = tensor.dtype;
    plan.shape = tensor.shape;
    plan.choice.codec = encode::lossless_codec(options.codec);
    plan.geometry = codec::chunk_geometry(
        tensor.dtype, n, total_bytes,
        format::default_chunk_elems(tensor.dtype, tensor.shape, options.chunk_elems));
    plan.source = tensor.source;
    plan.offset_bytes = tensor.offset_bytes;
    plan.entropy = options.entropy;
    plan.level = options.level;
  }
  return device->look_at(plans);
}

Result<void> Writer::Impl::look_at_sources(std::span<const StridedTensor> tensors) {
  std::vector<TensorSource> on_device;
  for (const StridedTensor& tensor : tensors) {
    if (tensor.source != nullptr && device->is_on_device(*tensor.source)) {
      on_device.push_back({tensor.dtype, tensor.shape, tensor.source, 0});
    }
  }
  return look_at(on_device);
}

}  // namespace cfck
