// A tensor to encode, and reading its values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cfck/base.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/record.hpp"
#include "codec/chunk_geometry.hpp"
#include "codec/lossy.hpp"
#include "encode/device_tensor.hpp"
#include "encode/rules/tensor_choice.hpp"

namespace cfck::encode {

using codec::ChunkGeometry;
using codec::FrameCosts;

// A tensor to encode. The source must outlive everything that uses the plan.
struct EncodePlan {
  std::string name;  // for messages, and for what it says of the tensor (model_steps)
  DType dtype = DType::kU8;
  Shape shape;
  TensorChoice choice;
  ChunkGeometry geometry;
  const ByteSource* source = nullptr;
  std::uint64_t offset_bytes = 0;  // of the tensor in the source
  // Describes a tensor that a DeviceEncoder has looked at; nullptr for all others.
  const DeviceTensor* on_device = nullptr;
  EntropyId entropy = kDefaultEntropy;  // the caller's choice
  EncodeLevel level = EncodeLevel::kDefault;
  // Where the options name no codec, others than those that they ask for may be tried too.
  bool tries_others = false;
  // What the tensor may be stored against: one of its dtype and shape in the base; nullptr:
  // nothing.
  const Base* base = nullptr;
  const BaseTensor* base_tensor = nullptr;
  // True as soon as rate control has found the step, which the request of `choice` then has, and
  // that lossless takes more bytes.
  bool has_step = false;
  RecordQuality quality = {};  // if it has
};

// The memory that one thread keeps between chunks.
struct WorkerMemory {
  codec::Scratch scratch;
  codec::EncodedChunk encoded;
  codec::EncodedChunk other;  // of another candidate
  std::unique_ptr<std::byte[]> values;
  std::size_t values_bytes = 0;
  std::vector<std::byte> decoded;  // of a lossy chunk
  std::vector<std::byte> base;     // what a chunk is encoded against
};

// Returns bytes [offset, offset + n) of a source: in place where it is in memory, else read into
// `buffer`.
Result<ByteView> range_of(const ByteSource& source, std::uint64_t offset_bytes,
                          std::uint64_t n_bytes, std::vector<std::byte>& buffer);
// Returns bytes [offset, offset + n) of a tensor on a device, where the host knows them already;
// nothing elsewhere.
ByteView known_values(const EncodePlan& plan, std::uint64_t offset_bytes, std::uint64_t n_bytes);
// Returns bytes [offset, offset + n) of the tensor: in place where the source is in memory, else a
// copy in the worker's buffer, valid until its next use.
Result<ByteView> read_values(const EncodePlan& plan, std::uint64_t offset_bytes,
                             std::uint64_t n_bytes, WorkerMemory& memory);
// Returns all values of a chunk, in place or in the worker's buffer. Errors name the tensor.
Result<ByteView> read_chunk(const EncodePlan& plan, std::uint64_t chunk, WorkerMemory& memory);

// Adds the tensor's name to an error that has none.
template <class T>
Result<T> naming(Result<T> result, const EncodePlan& plan) {
  if (result || !result.error().record.empty()) {
    return result;
  }
  Error error = std::move(result).error();
  error.record = plan.name;
  return error;
}

}  // namespace cfck::encode
