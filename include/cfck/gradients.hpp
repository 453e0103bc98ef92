// The largest values of gradients, as bytes for the wire and for files (spec/gradients.md), and how
// they are chosen.
//
// Tensors have dtype F32 and lie in host memory. Threads share nothing: each has a workspace of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

// Memory of one thread, kept from call to call. Not thread-safe.
class CFCK_API GradientWorkspace {
 public:
  GradientWorkspace() noexcept;
  ~GradientWorkspace();
  GradientWorkspace(GradientWorkspace&&) noexcept;
  GradientWorkspace& operator=(GradientWorkspace&&) noexcept;

  struct Memory;

 private:
  friend struct GradientMemory;
  std::unique_ptr<Memory> memory_;  // made at first use
};

// Some values of one tensor: value i is at the flat index indices[i] of n_elems; indices ascend.
struct SparseTensor {
  std::uint32_t n_elems = 0;
  std::span<const std::uint32_t> indices;
  std::span<const float> values;
};

// Holds what a packet says of a tensor.
struct SparseShape {
  std::uint32_t n_elems = 0;
  std::uint32_t n_values = 0;

  bool operator==(const SparseShape&) const = default;
};

struct GradientPacketOptions {
  // The most by which a value may change, as a fraction of the root mean square of the finite
  // values that are there of its tensor; 0: no bit is lost. NaN and infinities are kept bit for
  // bit.
  double value_error = 0.1;
  EncodeLevel level = EncodeLevel::kFast;
};

// Returns the most bytes of a packet of such tensors, whatever their values. Errors:
// kLimitExceeded.
CFCK_API Result<std::uint64_t> max_gradient_packet_bytes(std::span<const SparseTensor> tensors);

// Encodes the tensors of a step into `out`, which has at least max_gradient_packet_bytes(), and
// returns the length of the packet. Puts the values as who decodes it gets them into `decoded`,
// those of all tensors one after the other: what was lost is to be sent later. Equal calls give
// equal bytes. Errors: kInvalidArgument for indices that do not ascend or are not below n_elems,
// for other numbers of values than of indices, for a value_error that is negative or not finite,
// and for an `out` or `decoded` of the wrong size, or one that overlaps the other or the tensors;
// kLimitExceeded; kOutOfMemory.
CFCK_API Result<std::uint64_t> encode_gradients(std::span<const SparseTensor> tensors,
                                                const GradientPacketOptions& options,
                                                MutableBytes out, std::span<float> decoded,
                                                GradientWorkspace& workspace);

// Reads what a packet says of its tensors, unverified. Errors: kTruncated, kCorrupt, kUnsupported.
CFCK_API Result<std::vector<SparseShape>> gradient_packet_shapes(ByteView packet);

// Verifies and decodes a packet: indices and values of all tensors, one after the other. Both spans
// have as many places as gradient_packet_shapes() counts values. Errors, with the byte of the
// packet where something is wrong: kTruncated, kCorrupt, kChecksum, kUnsupported; kInvalidArgument
// for spans of another size, and those that overlap the packet; kOutOfMemory. After an error their
// contents are unspecified.
CFCK_API Result<void> decode_gradients(ByteView packet, std::span<std::uint32_t> indices,
                                       std::span<float> values, GradientWorkspace& workspace);

// Verifies a packet, and adds `weight` times its values to the tensors that it is of. Nothing is
// added after an error: those of decode_gradients(), and kInvalidArgument for tensors of other
// sizes than those of the packet, and those that overlap it.
CFCK_API Result<void> add_gradients(ByteView packet, float weight,
                                    std::span<const std::span<float>> tensors,
                                    GradientWorkspace& workspace);

// Puts the flat indices of the values with the largest magnitudes into `indices`, which has as many
// places as are wanted, in ascending order. Of equal magnitudes those with lower indices count; a
// NaN is larger than infinity, by its bits. Errors: kInvalidArgument for more indices than values;
// kLimitExceeded for 2^32 values and more; kOutOfMemory.
CFCK_API Result<void> select_largest(std::span<const float> values,
                                     std::span<std::uint32_t> indices,
                                     GradientWorkspace& workspace);

// Momentum correction and accumulation (Lin et al., Deep Gradient Compression, 2018): with momentum
// m, u becomes m u + g, and v becomes v + u; with Nesterov, u becomes m (u + g), and v becomes
// v + u + g. Without `momentum` (an empty span) v becomes v + g. Then selects the largest values of
// v, as select_largest() does, and puts them into `values`, which may be empty: then only their
// indices are wanted. All spans but `indices` and `values` have the same length, and these two
// likewise, or kInvalidArgument.
struct MomentumOptions {
  float factor = 0.9F;
  bool nesterov = false;
};
CFCK_API Result<void> accumulate_and_select(std::span<const float> gradient,
                                            std::span<float> momentum, std::span<float> velocity,
                                            const MomentumOptions& options,
                                            std::span<std::uint32_t> indices,
                                            std::span<float> values, GradientWorkspace& workspace);

// Keeps what was lost of the values that were sent, so that it is sent later: velocity[indices[i]]
// becomes values[i] - decoded[i], or 0 where that is not finite, and momentum[indices[i]] becomes 0
// (momentum factor masking), unless `momentum` is empty. Nothing is changed after an error:
// kInvalidArgument for an index that is not below the length of `velocity`, and for spans whose
// lengths differ.
CFCK_API Result<void> keep_unsent(std::span<const std::uint32_t> indices,
                                  std::span<const float> values, std::span<const float> decoded,
                                  std::span<float> momentum, std::span<float> velocity);

}  // namespace cfck
