#include "gradients/layout.hpp"

#include <string>

#include "base/hashing/hashing.hpp"

namespace cfck::gradients {
namespace {

Error too_short(ByteView bytes, std::uint64_t n_needed) {
  return truncated("the packet of gradients has " + std::to_string(bytes.size()) +
                   " bytes, and needs at least " + std::to_string(n_needed) + "; receive it again")
      .at_byte(bytes.size());
}

Result<Packet> find_parts(ByteView bytes) {
  if (!bytes.empty() && bytes[0] != kMark) {
    return corrupt("these bytes are no packet of gradients").at_byte(0);
  }
  if (bytes.size() < kHeaderBytes + kHashBytes) {
    return too_short(bytes, kHeaderBytes + kHashBytes);
  }
  if (const auto version = load<std::uint8_t>(bytes.data() + 1); version != kVersion) {
    return unsupported("the packet of gradients has version " + std::to_string(version) +
                       ", and this library reads version " + std::to_string(kVersion))
        .at_byte(1);
  }
  Packet packet;
  packet.n_tensors = load<std::uint32_t>(bytes.data() + 4);
  const std::uint64_t gap_bytes = load<std::uint32_t>(bytes.data() + 8);
  const std::uint64_t value_bytes = load<std::uint32_t>(bytes.data() + 12);
  const std::uint64_t table_bytes = std::uint64_t{packet.n_tensors} * kTensorBytes;
  const std::uint64_t all = kHeaderBytes + table_bytes + gap_bytes + value_bytes + kHashBytes;
  if (bytes.size() < all) {
    return too_short(bytes, all);
  }
  if (bytes.size() > all) {
    return corrupt("the packet of gradients is followed by other bytes").at_byte(all);
  }
  packet.table = bytes.subspan(kHeaderBytes, table_bytes);
  packet.gaps = bytes.subspan(packet.gaps_at(), gap_bytes);
  packet.values = bytes.subspan(packet.values_at(), value_bytes);
  return packet;
}

Result<void> check_hash(ByteView bytes) {
  const ByteView hashed = bytes.first(bytes.size() - kHashBytes);
  if (tiled_hash64(hashed) != load<std::uint64_t>(bytes.data() + hashed.size())) {
    return wrong_checksum(
               "the checksum of the packet of gradients is wrong: it was changed after it was "
               "written; receive it again")
        .at_byte(hashed.size());
  }
  return {};
}

// Checks what the header says, and counts the values.
Result<Packet> check_counts(ByteView bytes, Packet packet) {
  if (load<std::uint16_t>(bytes.data() + 2) != 0) {
    return corrupt("reserved bytes of the packet are not zero").at_byte(2);
  }
  for (std::size_t i = 0; i < packet.n_tensors; ++i) {
    const SparseShape shape = packet.shape_of(i);
    if (shape.n_values > shape.n_elems) {
      return corrupt("tensor " + std::to_string(i) + " of the packet has more values than elements")
          .at_byte(kHeaderBytes + kTensorBytes * i + 4);
    }
    packet.n_values += shape.n_values;
  }
  return packet;
}

}  // namespace

SparseShape Packet::shape_of(std::size_t tensor) const noexcept {
  const std::byte* const at = table.data() + kTensorBytes * tensor;
  return {load<std::uint32_t>(at), load<std::uint32_t>(at + 4)};
}

float Packet::scale_of(std::size_t tensor) const noexcept {
  return load<float>(table.data() + kTensorBytes * tensor + 8);
}

Result<Packet> read_packet(ByteView bytes) {
  CFCK_TRY_ASSIGN(const Packet packet, find_parts(bytes));
  return check_counts(bytes, packet);
}

Result<Packet> verify_packet(ByteView bytes) {
  CFCK_TRY_ASSIGN(const Packet packet, find_parts(bytes));
  CFCK_TRY(check_hash(bytes));
  return check_counts(bytes, packet);
}

void write_header(std::uint32_t n_tensors, std::uint32_t n_gap_bytes, std::uint32_t n_value_bytes,
                  std::byte* to) noexcept {
  store<std::uint64_t>(to, 0);
  to[0] = kMark;
  store<std::uint8_t>(to + 1, kVersion);
  store<std::uint32_t>(to + 4, n_tensors);
  store<std::uint32_t>(to + 8, n_gap_bytes);
  store<std::uint32_t>(to + 12, n_value_bytes);
}

void write_tensor(const SparseShape& shape, float scale, std::byte* to) noexcept {
  store<std::uint32_t>(to, shape.n_elems);
  store<std::uint32_t>(to + 4, shape.n_values);
  store<float>(to + 8, scale);
}

}  // namespace cfck::gradients
