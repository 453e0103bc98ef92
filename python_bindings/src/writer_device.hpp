// A device that encodes for one file that is written from Python.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cfck/cuda.hpp"

namespace cfck::python {

// The caller keeps the memory, and the tensors, alive.
class WriterDevice {
 public:
  // Raises UnsupportedError where the device cannot be used.
  WriterDevice(int number, std::uint64_t pass_bytes, std::uint64_t scratch_bytes);

  int number() const { return number_; }
  std::size_t workspace_bytes() const { return device_ ? device_->workspace_bytes() : 0; }
  std::size_t staging_bytes() const { return device_ ? device_->staging_bytes() : 0; }
  // Sets the memory and the stream, which work begins after.
  void use(std::uintptr_t workspace, std::uintptr_t staging, std::uint64_t staging_bytes,
           std::uintptr_t stream);
  Result<void> encode_for(Writer& writer) {
    return device_ ? device_->encode_for(writer, workspace_, staging_, stream_) : closed();
  }
  Result<void> look_at(std::span<const TensorSource> tensors) {
    return device_ ? device_->look_at(tensors) : closed();
  }
  // Waits for what is under way: then memory and tensors are of no use any more.
  void close();
  cuda::EncodeSummary summary() const { return device_ ? device_->summary() : summary_; }

 private:
  static Result<void> closed() {
    return Error{ErrorCode::kInvalidArgument, "the device was closed", {}, {}};
  }

  const int number_;
  std::optional<cuda::WriterDevice> device_;
  cuda::EncodeSummary summary_;  // once it is closed
  void* workspace_ = nullptr;
  MutableBytes staging_;
  cuda::Stream stream_;
};

}  // namespace cfck::python
