#include <bit>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "gradients/layout.hpp"
#include "gradients/rescale.hpp"
#include "gradients/workspace.hpp"

namespace cfck {
namespace gradients {
namespace {

Error at_message(Error error, std::size_t begin) {
  if (error.byte_offset) {
    error.byte_offset = *error.byte_offset + begin;
  }
  return error;
}

// Decodes a message of n_values, of dtype F32 or, where it may be, U32; says which.
Result<DType> decode_part(ByteView part, std::size_t begin, std::size_t n_values,
                          bool may_be_integers, std::span<std::uint32_t> out,
                          MessageWorkspace& workspace) {
  const auto info = message_info(part);
  if (!info) {
    return at_message(info.error(), begin);
  }
  const bool is_known =
      info->dtype == DType::kF32 || (may_be_integers && info->dtype == DType::kU32);
  if (!is_known || info->shape != Shape{n_values}) {
    return corrupt("a message of the packet of gradients has another dtype or length than it says")
        .at_byte(begin);
  }
  if (auto done = decode_message(part, std::as_writable_bytes(out), workspace); !done) {
    return at_message(std::move(done).error(), begin);
  }
  return info->dtype;
}

Error bad_gap(const Packet& packet, std::size_t tensor) {
  return corrupt("an index of tensor " + std::to_string(tensor) +
                 " of the packet is not below its number of elements")
      .at_byte(packet.gaps_at());
}

// Makes flat indices of gaps, in place: of floats, if `dtype` is F32.
Result<void> sum_gaps(const Packet& packet, DType dtype, std::span<std::uint32_t> gaps) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < packet.n_tensors; ++i) {
    const SparseShape shape = packet.shape_of(i);
    std::uint64_t next = 0;
    for (std::uint32_t n = shape.n_values; n > 0; --n, ++at) {
      std::uint64_t gap = gaps[at];
      if (dtype == DType::kF32) {
        const float rounded = std::nearbyint(std::bit_cast<float>(gaps[at]));
        if (!(rounded >= 0 && rounded < float{kMaxFloatGap})) {
          return bad_gap(packet, i);
        }
        gap = static_cast<std::uint64_t>(rounded);
      }
      next += gap;
      if (next >= shape.n_elems) {
        return bad_gap(packet, i);
      }
      gaps[at] = static_cast<std::uint32_t>(next++);
    }
  }
  return {};
}

Result<void> decode(const Packet& packet, std::span<std::uint32_t> indices, std::span<float> values,
                    MessageWorkspace& workspace) {
  if (packet.n_values == 0) {
    if (!packet.gaps.empty() || !packet.values.empty()) {
      return corrupt("a packet without values has messages of some").at_byte(packet.gaps_at());
    }
    return {};
  }
  CFCK_TRY_ASSIGN(const DType dtype, decode_part(packet.gaps, packet.gaps_at(), packet.n_values,
                                                 true, indices, workspace));
  CFCK_TRY(sum_gaps(packet, dtype, indices));
  static_assert(sizeof(float) == sizeof(std::uint32_t));
  const std::span<std::uint32_t> bits(reinterpret_cast<std::uint32_t*>(values.data()),
                                      values.size());
  CFCK_TRY(decode_part(packet.values, packet.values_at(), packet.n_values, false, bits, workspace));
  std::size_t at = 0;
  for (std::size_t i = 0; i < packet.n_tensors; ++i) {
    const float scale = packet.scale_of(i);
    for (std::uint32_t n = packet.shape_of(i).n_values; n > 0; --n, ++at) {
      values[at] = from_unit(values[at], scale);
    }
  }
  return {};
}

Result<void> add(const Packet& packet, float weight, std::span<const std::span<float>> tensors,
                 GradientWorkspace::Memory& memory) {
  if (tensors.size() != packet.n_tensors) {
    return invalid_argument("the packet has " + std::to_string(packet.n_tensors) +
                            " tensors, and " + std::to_string(tensors.size()) + " were given");
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].size() != packet.shape_of(i).n_elems) {
      return invalid_argument("tensor " + std::to_string(i) + " of the packet has " +
                              std::to_string(packet.shape_of(i).n_elems) +
                              " elements, and the one given " + std::to_string(tensors[i].size()));
    }
  }
  memory.integers.resize(packet.n_values);
  memory.values.resize(packet.n_values);
  CFCK_TRY(decode(packet, memory.integers, memory.values, memory.messages));
  std::size_t at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::uint32_t n = packet.shape_of(i).n_values; n > 0; --n, ++at) {
      tensors[i][memory.integers[at]] += weight * memory.values[at];
    }
  }
  return {};
}

}  // namespace
}  // namespace gradients

GradientWorkspace::GradientWorkspace() noexcept = default;
GradientWorkspace::~GradientWorkspace() = default;
GradientWorkspace::GradientWorkspace(GradientWorkspace&&) noexcept = default;
GradientWorkspace& GradientWorkspace::operator=(GradientWorkspace&&) noexcept = default;

Result<std::vector<SparseShape>> gradient_packet_shapes(ByteView packet) {
  return detail::run_guarded([&]() -> Result<std::vector<SparseShape>> {
    CFCK_TRY_ASSIGN(const gradients::Packet parts, gradients::read_packet(packet));
    std::vector<SparseShape> shapes;
    shapes.reserve(parts.n_tensors);
    for (std::size_t i = 0; i < parts.n_tensors; ++i) {
      shapes.push_back(parts.shape_of(i));
    }
    return shapes;
  });
}

Result<void> decode_gradients(ByteView packet, std::span<std::uint32_t> indices,
                              std::span<float> values, GradientWorkspace& workspace) {
  return detail::run_guarded([&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const gradients::Packet parts, gradients::verify_packet(packet));
    if (indices.size() != parts.n_values || values.size() != parts.n_values) {
      return invalid_argument("the packet has " + std::to_string(parts.n_values) +
                              " values, and there is space for " + std::to_string(indices.size()) +
                              " indices and " + std::to_string(values.size()) + " values");
    }
    CFCK_TRY(check_apart(std::as_bytes(indices), packet, "the packet"));
    CFCK_TRY(check_apart(std::as_bytes(values), packet, "the packet"));
    return gradients::decode(parts, indices, values, GradientMemory::of(workspace).messages);
  });
}

Result<void> add_gradients(ByteView packet, float weight, std::span<const std::span<float>> tensors,
                           GradientWorkspace& workspace) {
  return detail::run_guarded([&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const gradients::Packet parts, gradients::verify_packet(packet));
    for (const std::span<float> tensor : tensors) {
      CFCK_TRY(check_apart(std::as_bytes(tensor), packet, "the packet"));
    }
    return gradients::add(parts, weight, tensors, GradientMemory::of(workspace));
  });
}

}  // namespace cfck
