// A tensor as bare bytes, without a file around it: for gradients, embeddings and patches
// (spec/message.md). A message takes 24 bytes beside its payload, and 8 more for each dimension
// after the first; it is never longer than the values and these.
//
// Threads share nothing but constant options: each has a workspace of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "cfck/dtype.hpp"
#include "cfck/export.hpp"
#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

// How a message is encoded. By default nothing is lost. Of the three errors and the learned steps
// at most one may be given; the tensor must then have dtype F64, F32, BF16 or F16.
struct MessageOptions {
  // kAuto takes whichever needs fewer bytes: of raw and lossless, and where a maximum error is
  // given of direct too. Codec raw stands in for every codec that saves nothing. kSpectral is
  // refused without learned steps: messages have no targets.
  CodecChoice codec = CodecChoice::kAuto;
  std::optional<double> max_abs_error = std::nullopt;
  std::optional<double> max_rel_error = std::nullopt;
  std::optional<double> max_sigma_error = std::nullopt;
  bool per_row = false;  // with max_rel_error or max_sigma_error
  // Steps of codec spectral, as EncodeOptions::learned_steps has them for the tensor.
  std::optional<LearnedSteps> learned_steps = std::nullopt;
  EntropyId entropy = kDefaultEntropy;
  EncodeLevel level = EncodeLevel::kDefault;
  // Values per chunk; 0: at most 2^18, in equal chunks. Rounded as in EncodeOptions.
  std::uint32_t chunk_elems = 0;

  bool operator==(const MessageOptions&) const = default;
};

// Memory of one thread, kept from call to call, so that a call allocates none as soon as calls of
// its kind and size have been made. Not thread-safe. After a call that failed it can be used again.
class CFCK_API MessageWorkspace {
 public:
  MessageWorkspace() noexcept;
  ~MessageWorkspace();
  MessageWorkspace(MessageWorkspace&&) noexcept;
  MessageWorkspace& operator=(MessageWorkspace&&) noexcept;

  struct Memory;

 private:
  friend struct MessageMemory;
  std::unique_ptr<Memory> memory_;  // made at first use
};

// Holds what the first bytes of a message say. It is not verified: decode_message() does that.
struct MessageInfo {
  DType dtype = DType::kU8;
  Shape shape;
  std::uint64_t n_elems = 0;
  std::uint64_t n_bytes = 0;  // of the decoded values
  CodecId codec = CodecId::kRaw;
  EntropyId entropy = EntropyId::kNone;
  bool has_chunks = false;  // several, which can be decoded side by side
};

// So many bytes of any message are enough for message_info().
inline constexpr std::size_t kMaxMessageHeaderBytes = 8 + 8 * 64;

// Returns the most bytes that a message of such a tensor has, whatever its values: those of the
// values, 16, and 8 for each dimension. Errors: those of encode_message() that do not depend on
// values or memory.
CFCK_API Result<std::uint64_t> max_message_bytes(const MessageOptions& options, DType dtype,
                                                 const Shape& shape);

// Encodes a tensor, which has at most 64 dimensions, into `out` and returns the length of the
// message. `out` has at least max_message_bytes() bytes and does not overlap the tensor; what lies
// behind the message is unspecified. Equal calls give equal bytes, as for files. Errors:
// kInvalidArgument for options that contradict themselves, a maximum error for a dtype without one,
// learned steps that do not fit the tensor, data of another length than dtype and shape have, and
// an `out` that is too small or overlaps the tensor; kUnsupported for codec spectral without
// learned steps, an unknown dtype and memory that is not the host's; kLimitExceeded; kOutOfMemory.
CFCK_API Result<std::uint64_t> encode_message(const TensorView& tensor,
                                              const MessageOptions& options, MutableBytes out,
                                              MessageWorkspace& workspace);

// Reads the header of a message. `bytes` is the message or its beginning. Errors: kTruncated,
// kCorrupt, kUnsupported.
CFCK_API Result<MessageInfo> message_info(ByteView bytes);

// Verifies and decodes a message into `out`, which has exactly MessageInfo::n_bytes bytes and does
// not overlap the message. On error the contents of `out` are unspecified. Errors, with the byte of
// the message where something is wrong: kTruncated, kCorrupt, kChecksum, kUnsupported; and without
// one kInvalidArgument for an `out` of another size or one that overlaps the message,
// kOutOfMemory.
CFCK_API Result<void> decode_message(ByteView message, MutableBytes out,
                                     MessageWorkspace& workspace);

}  // namespace cfck
