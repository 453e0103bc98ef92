// A message that a device is to make of a tensor in its memory: what is known of it before the
// device begins, and whether it is the one that the host makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cfck/message.hpp"
#include "cuda/host/cuda_device.hpp"
#include "encode/device/encode_batch.hpp"
#include "encode/device/look.hpp"
#include "encode/plan.hpp"
#include "encode/trial/candidates.hpp"
#include "message/chunk_encode.hpp"
#include "message/layout.hpp"

namespace cfck::message {

// A source of the values, for plans and for the host.
class ValuesOnDevice final : public ByteSource {
 public:
  ValuesOnDevice(cuda::CudaDevice& device, std::uint64_t n_bytes)
      : device_(device), n_bytes_(n_bytes) {}

  void set(const void* values) { values_ = static_cast<const std::byte*>(values); }
  const std::byte* values() const { return values_; }
  std::uint64_t size() const override { return n_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    return cuda::copy_to_host(device_, out, values_ + offset_bytes);
  }
  std::string name() const override { return "<device memory>"; }

 private:
  cuda::CudaDevice& device_;
  const std::uint64_t n_bytes_;
  const std::byte* values_ = nullptr;
};

// Stays where it is: its plan refers to its source.
class PlannedMessage {
 public:
  PlannedMessage(cuda::CudaDevice& device, DType dtype, Shape shape, const Header& header)
      : dtype_(dtype), shape_(std::move(shape)), header_(header), source_(device, header.n_bytes) {}
  PlannedMessage(const PlannedMessage&) = delete;
  PlannedMessage& operator=(const PlannedMessage&) = delete;

  // Finds out whether the device is tried at all: then there are chunks, which take at most that
  // much scratch memory each. Errors: those of max_message_bytes().
  Result<void> prepare(const MessageOptions& options, std::size_t most_scratch);
  // Whether something may be lost: then candidates are made of the values in advance.
  bool may_lose() const { return room_.has_value(); }

  void set_values(const void* values);
  // Requires: may_lose(), and values are set. The first asks for what the second needs to plan;
  // after that it is known whether the device encodes the message. Errors: those of the codec, and
  // of reading.
  Result<void> look_at_values(encode::DeviceLook& look);
  Result<void> plan_with_loss(encode::WorkerMemory& memory);
  // The rest of the message from its payloads on is filled in by the device.
  void write_header(std::byte* to) const;
  // Whether the host would make a message of so many bytes of payloads, and no other one.
  // `first_values` are those of first_bytes().
  Result<bool> is_that_of_the_host(std::uint64_t n_payload_bytes, ByteView first_values,
                                   encode::WorkerMemory& memory);
  // Encodes the values on the host. Errors: those of encode_message() and of the driver.
  Result<std::vector<std::byte>> of_host(const MessageOptions& options) const;

  DType dtype() const { return dtype_; }
  std::uint64_t value_bytes() const { return header_.n_bytes; }
  const std::byte* values() const { return source_.values(); }
  bool tries_device() const { return !chunks_.empty(); }
  // False where candidates are such that the host has to compare them.
  bool is_for_device() const { return tries_device() && (!may_lose() || only_.has_value()); }
  const std::vector<encode::DeviceChunk>& chunks() const { return chunks_; }
  // Bytes from the start of the message on: of what write_header() writes, of the lengths of
  // payloads, which are 0 where there are none, and of the payloads.
  std::uint64_t header_bytes() const;
  std::uint64_t table_at() const;
  std::uint64_t preamble_at() const;
  std::uint64_t payloads_at() const;
  ByteView preamble() const { return only_ ? only_->preamble() : ByteView(); }
  std::uint64_t most_bytes() const;
  // Bytes of control memory that its chunks take at most, beside those of chunks without loss.
  std::size_t lossy_control_bytes() const;
  // Bytes of the first values, which is_that_of_the_host() looks at.
  std::uint64_t first_bytes() const;

 private:
  bool has_table() const { return chunks_.size() > 1; }
  Result<void> prepare_with_loss(std::size_t most_scratch);
  // Plans the chunks for a candidate. Returns whether the device has what they take.
  bool plan_chunks(const encode::Candidate& candidate);
  bool plan_chunks_without_loss(std::size_t most_scratch);

  const DType dtype_;
  const Shape shape_;
  const Header header_;
  ValuesOnDevice source_;
  encode::EncodePlan plan_;
  std::vector<encode::DeviceChunk> chunks_;
  std::optional<codec::DeviceLossyRoom> room_;
  encode::DeviceTensor known_;             // of the values, while it is planned
  std::optional<encode::Candidate> only_;  // where something may be lost
  std::vector<codec::DeviceLossyEncodePlan> lossy_chunks_;
};

}  // namespace cfck::message
