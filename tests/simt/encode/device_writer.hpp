// Tensors in the memory of a device, and files of which it encodes the chunks.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cfck/cuda.hpp"
#include "tests/codec/test_values.hpp"
#include "tests/simt/fake_device.hpp"

namespace cfck::test {

struct NamedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Bytes values;
};

NamedTensor make_tensor(const std::string& name, DType dtype, Shape shape, codec::Pattern pattern,
                        std::uint64_t seed);

// A device that encodes for a writer, with its memory.
class Encoding {
 public:
  explicit Encoding(const cuda::EncodeLimits& limits);
  Result<void> start(Writer& writer);
  cuda::WriterDevice* operator->() { return &device_; }

 private:
  explicit Encoding(cuda::WriterDevice device);

  DeviceMemory workspace_;
  Bytes staging_;
  cuda::WriterDevice device_;  // goes first: it waits for what uses the memory
};

// Copies of tensors in the memory of the device.
class OnDevice {
 public:
  explicit OnDevice(const std::vector<NamedTensor>& tensors);
  const std::vector<TensorSource>& all() const { return all_; }

 private:
  std::deque<DeviceMemory> memory_;
  std::vector<std::unique_ptr<cuda::DeviceSource>> sources_;
  std::vector<TensorSource> all_;
};

// Limits under which a chunk of 2^14 values fits a pass, and few more.
inline constexpr cuda::EncodeLimits kSmallPasses{.pass_bytes = std::size_t{1} << 18,
                                                 .scratch_bytes = std::size_t{8} << 20};

Bytes write_on_host(const std::vector<NamedTensor>& tensors, const EncodeOptions& options);

struct WrittenOnDevice {
  Result<void> result;
  Bytes bytes;  // if it has succeeded
  cuda::EncodeSummary summary;
};
WrittenOnDevice write_on_device(const std::vector<NamedTensor>& tensors,
                                const EncodeOptions& options, const cuda::EncodeLimits& limits,
                                bool looks = true, WriteProgress progress = {});
// Writes tensors that are there already; `encoding` has encoded nothing yet.
WrittenOnDevice write_on_device(const std::vector<NamedTensor>& tensors, const OnDevice& on_device,
                                Encoding& encoding, const EncodeOptions& options, bool looks = true,
                                WriteProgress progress = {});

}  // namespace cfck::test
