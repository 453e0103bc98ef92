// The interface of a codec: it turns the values of one chunk into a payload, and back. Codecs know
// nothing of files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/record.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/device_encode_plan.hpp"

namespace cfck::codec {

class ChangeLog;    // codec/change_log.hpp
struct DevicePlan;  // codec/device_plan.hpp, as what follows
class ParametersForDevice;

// No chunk decodes to more bytes (spec/format.md, section 4); so every length in a payload
// fits 32 bits.
inline constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 26;

// The properties of a chunk that a codec may use. `n_elems` is at least 1; the chunk's values are
// n_elems * bits_per_element(dtype) / 8 bytes, rounded up.
struct ChunkInfo {
  DType dtype = DType::kU8;
  EntropyId entropy = EntropyId::kNone;
  ScanId scan = ScanId::kStorageOrder;
  std::uint64_t n_elems = 0;
  ByteView preamble = {};  // the record's, already verified; empty if it has none
  // The shape of the tensor, and the index of the chunk's first value in it. Codecs that process
  // values one by one need neither.
  std::span<const std::uint64_t> shape = {};
  std::uint64_t first_elem = 0;
  EncodeLevel level = EncodeLevel::kDefault;  // for encoders only
  // The values that the chunk has in the base, for codecs that store values against one; empty for
  // all others. As many bytes as the chunk's own values.
  ByteView base = {};
  // For decoders whose output is the memory of the base: where not nullptr, what they change there
  // is noted in it, on error as well. It has nothing yet.
  ChangeLog* changes = nullptr;
};

// A payload is a body (headers and sections) followed by the Zstd frame of its symbols, which may
// be absent. The container puts the body into a skippable frame and the symbol frame after it
// (spec/format.md, section "Chunks"); in a pack both stay together as plain bytes. A body contains
// its own length.
struct EncodedChunk {
  std::vector<std::byte> payload;
  std::uint32_t body_bytes = 0;
};

// Scratch memory of one thread, kept between chunks: one object of each type that somebody asked
// for, so that codecs and entropy stages need not know each other's. Not thread-safe; create one
// for each worker.
class Scratch {
 public:
  // The object of type T, which is created at first use and stays where it is. To be looked up
  // once for a chunk. Throws std::bad_alloc.
  template <class T>
  T& part() {
    for (const Part& part : parts_) {
      if (part.type == &type_of<T>) {
        return *static_cast<T*>(part.object.get());
      }
    }
    Part made{&type_of<T>, {new T, [](void* object) { delete static_cast<T*>(object); }}};
    return *static_cast<T*>(parts_.emplace_back(std::move(made)).object.get());
  }

 private:
  // Only its address counts; it is not constant, so that no linker merges two of them.
  template <class T>
  static inline char type_of = 0;

  struct Part {
    const char* type;
    std::unique_ptr<void, void (*)(void*)> object;
  };
  std::vector<Part> parts_;
};

// Tells a device what to be ready for before it has seen a chunk of a codec.
struct DeviceTraits {
  bool has_kernels = false;  // without them the host decodes
  // Chunks of a record without a preamble begin with parameters, of any length.
  bool chunks_may_have_parameters = false;
  // Bytes of scratch memory for each value, beside what each group of values takes.
  unsigned scratch_bytes_per_value = 0;
};

// Decoders are stateless; every function may be called concurrently, each call
// with a Scratch of its own.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Returns the length of the body at the start of `payload`, from its header alone. Errors:
  // kTruncated, kCorrupt.
  virtual Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const = 0;

  // Decodes the whole chunk into `out`, which has exactly the chunk's bytes.
  // Everything in `payload` must be consumed. Errors: kTruncated, kCorrupt,
  // kUnsupported, kOutOfMemory; offsets count from the start of the payload. On
  // error the contents of `out` are unspecified. Never reads outside `payload`
  // or writes outside `out`, whatever the payload holds.
  virtual Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                              MutableBytes out) const = 0;

  // Returns true for a codec of values against a base: chunks can only be decoded with
  // ChunkInfo::base, whose memory may be `out` of decode(), and then ChunkInfo::changes is filled.
  virtual bool needs_base() const { return false; }

  // The functions from here on are for devices. A codec without kernels leaves them alone: the host
  // decodes.
  virtual DeviceTraits device_traits() const { return {}; }

  // Returns what the preamble of a record tells a device; nullptr where that is nothing, and where
  // the preamble is refused. `info` is that of any of its chunks.
  virtual std::shared_ptr<const ParametersForDevice> parameters_for_device(
      const ChunkInfo& info) const;
  // Says how a device decodes a chunk, from its header. `payload` may end anywhere after the
  // header; its full length is `payload_bytes`. `parameters` are those of parameters_for_device().
  virtual DevicePlan plan_for_device(
      const ChunkInfo& info, ByteView payload, std::uint32_t payload_bytes,
      const std::shared_ptr<const ParametersForDevice>& parameters) const;
};

// A sample of the rows of a chunk, evenly spread: row i of it is row i * n_rows / n_sampled.
struct RowSample {
  std::uint64_t row_bytes = 0;
  std::uint64_t n_rows = 0;
  std::uint64_t n_sampled = 0;

  std::uint64_t offset_bytes(std::uint64_t i) const noexcept {
    return i * n_rows / n_sampled * row_bytes;
  }
};

// Encoders are stateless too. Equal values give equal payloads on every machine, thread count and
// CPU level; byte planes and masks only with the same version of libzstd.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Returns the entropy stage of records of `dtype` where the caller asks for `wanted`.
  virtual EntropyId entropy_for(DType dtype, EntropyId wanted) const = 0;

  // `values` are the chunk's bytes. The payload is never longer than the values by more than
  // max_overhead_bytes(): values that do not shrink are stored.
  virtual Result<void> encode(const ChunkInfo& info, ByteView values, Scratch& scratch,
                              EncodedChunk& out) const = 0;
  virtual std::uint32_t max_overhead_bytes() const = 0;

  // Returns true for a codec of values against a base: encode() needs ChunkInfo::base.
  virtual bool needs_base() const { return false; }

  // Returns the rows of a chunk that show whether a tensor should be tried with this codec too
  // where the options name none; by default there are none, and it should not.
  virtual RowSample rows_to_sample(const ChunkInfo& /*info*/) const { return {}; }
  // Says whether it should. `hashes` are those of the sampled rows, by hash128().
  virtual bool may_be_smaller(std::span<const Digest> /*hashes*/) const { return false; }

  // Says how a device encodes a chunk; nothing where it has no kernel for such chunks.
  virtual std::optional<DeviceEncodePlan> plan_for_device(const ChunkInfo& /*info*/) const {
    return std::nullopt;
  }
};

// Returns nullptr for an id this version does not know. kRaw has neither: the container
// stores its bytes as they are. Lossy codecs have an encoder of their own kind
// (codec/lossy.hpp).
const Decoder* find_decoder(CodecId id) noexcept;
const Encoder* find_encoder(CodecId id) noexcept;

}  // namespace cfck::codec
