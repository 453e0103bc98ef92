#include "tests/simt/encode/device_writer.hpp"

#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

constexpr std::size_t kAlignment = 256;

Result<void> add_all(Writer& writer, Encoding& encoding, const std::vector<NamedTensor>& tensors,
                     const OnDevice& on_device, bool looks) {
  CFCK_TRY(encoding.start(writer));
  if (looks) {
    CFCK_TRY(encoding->look_at(on_device.all()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CFCK_TRY(writer.add(tensors[i].name, on_device.all()[i]));
  }
  CFCK_TRY(writer.finish());
  return {};
}

}  // namespace

NamedTensor make_tensor(const std::string& name, DType dtype, Shape shape, codec::Pattern pattern,
                        std::uint64_t seed) {
  const std::uint64_t n = take(n_elems(shape));
  return {name, dtype, std::move(shape), codec::make_values(dtype, pattern, n, seed)};
}

Encoding::Encoding(const cuda::EncodeLimits& limits)
    : Encoding(take(cuda::WriterDevice::open(0, limits))) {}

Encoding::Encoding(cuda::WriterDevice device)
    : workspace_(device.workspace_bytes()),
      staging_(device.staging_bytes() + kAlignment),
      device_(std::move(device)) {}

Result<void> Encoding::start(Writer& writer) {
  const auto address = reinterpret_cast<std::uintptr_t>(staging_.data());
  std::byte* const staging = staging_.data() + (kAlignment - address % kAlignment) % kAlignment;
  return device_.encode_for(writer, workspace_.bytes().data(), {staging, device_.staging_bytes()},
                            {0, nullptr});
}

OnDevice::OnDevice(const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& tensor : tensors) {
    memory_.emplace_back(tensor.values);
    sources_.push_back(
        take(cuda::DeviceSource::open(0, memory_.back().bytes().data(), tensor.values.size())));
    all_.push_back({tensor.dtype, tensor.shape, sources_.back().get(), 0});
  }
}

Bytes write_on_host(const std::vector<NamedTensor>& tensors, const EncodeOptions& options) {
  return write_file(
      [&](Writer& writer) {
        for (const NamedTensor& tensor : tensors) {
          expect_ok(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.values}));
        }
      },
      options);
}

WrittenOnDevice write_on_device(const std::vector<NamedTensor>& tensors,
                                const EncodeOptions& options, const cuda::EncodeLimits& limits,
                                bool looks, WriteProgress progress) {
  const OnDevice on_device(tensors);
  Encoding encoding(limits);
  return write_on_device(tensors, on_device, encoding, options, looks, std::move(progress));
}

WrittenOnDevice write_on_device(const std::vector<NamedTensor>& tensors, const OnDevice& on_device,
                                Encoding& encoding, const EncodeOptions& options, bool looks,
                                WriteProgress progress) {
  MemorySink sink;
  WrittenOnDevice written;
  {
    Writer writer = take(Writer::create(sink, options));
    writer.set_progress(std::move(progress));
    written.result = add_all(writer, encoding, tensors, on_device, looks);
  }
  written.bytes.assign(sink.bytes().begin(), sink.bytes().end());
  written.summary = encoding->summary();
  return written;
}

}  // namespace cfck::test
