#include "embeddings/layout.hpp"

#include <cmath>
#include <string>

#include "base/hashing/hashing.hpp"
#include "embeddings/ids.hpp"

namespace cfck::embeddings {
namespace {

Error too_short(ByteView bytes, std::uint64_t n_needed) {
  return truncated("the packet of rows has " + std::to_string(bytes.size()) +
                   " bytes, and needs at least " + std::to_string(n_needed) + "; receive it again")
      .at_byte(bytes.size());
}

Result<Packet> find_parts(ByteView bytes) {
  if (!bytes.empty() && bytes[0] != kMark) {
    return corrupt("these bytes are no packet of rows").at_byte(0);
  }
  if (bytes.size() < kHeaderBytes + kHashBytes) {
    return too_short(bytes, kHeaderBytes + kHashBytes);
  }
  if (const auto version = load<std::uint8_t>(bytes.data() + 1); version != kVersion) {
    return unsupported("the packet of rows has version " + std::to_string(version) +
                       ", and this library reads version " + std::to_string(kVersion))
        .at_byte(1);
  }
  Packet packet;
  packet.n_batches = load<std::uint32_t>(bytes.data() + 4);
  std::uint64_t at = kHeaderBytes;
  ByteView* const parts[] = {&packet.table, &packet.buckets, &packet.bits, &packet.codes,
                             &packet.exact};
  std::uint64_t n_bytes[5] = {std::uint64_t{packet.n_batches} * kBatchBytes};
  std::uint64_t all = kHeaderBytes + kHashBytes + n_bytes[0];
  for (unsigned i = 1; i < 5; ++i) {
    n_bytes[i] = load<std::uint32_t>(bytes.data() + 4 + 4 * i);
    all += n_bytes[i];
  }
  if (bytes.size() < all) {
    return too_short(bytes, all);
  }
  if (bytes.size() > all) {
    return corrupt("the packet of rows is followed by other bytes").at_byte(all);
  }
  for (unsigned i = 0; i < 5; ++i) {
    *parts[i] = bytes.subspan(at, n_bytes[i]);
    at += n_bytes[i];
  }
  return packet;
}

Result<void> check_hash(ByteView bytes) {
  const ByteView hashed = bytes.first(bytes.size() - kHashBytes);
  if (detail::tiled_hash64(hashed) != load<std::uint64_t>(bytes.data() + hashed.size())) {
    return wrong_checksum(
               "the checksum of the packet of rows is wrong: it was changed after it was written; "
               "receive it again")
        .at_byte(hashed.size());
  }
  return {};
}

bool is_known(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// Returns what is wrong with a batch, or nullptr.
const char* fault_of(const Packet& packet, std::uint32_t number, const std::byte* bytes) {
  const BatchHeader batch = packet.batch(number);
  const RowShape& shape = batch.shape;
  if (!is_known(shape.dtype)) return "has a dtype that rows do not have";
  if (batch.order > RowOrder::kKeys) return "has an unknown order of rows";
  if (shape.n_rows > kMaxBatchRows) return "has more rows than a packet may";
  if (shape.n_unique > shape.n_rows || (shape.n_unique == 0) != (shape.n_rows == 0)) {
    return "has another number of rows than it can have";
  }
  if (batch.order == RowOrder::kPlain && shape.n_unique != shape.n_rows) {
    return "lacks rows, and has no ids";
  }
  if (batch.n_exact > shape.n_unique) return "has more exact rows than rows";
  if ((batch.n_exact == 0) != (batch.exact_bytes == 0)) return "has exact rows without bytes";
  const bool is_coded = batch.n_exact != shape.n_unique;
  if (is_coded ? !(batch.step > 0 && std::isfinite(batch.step))
               : load<std::uint64_t>(bytes + 24) != 0) {
    return "has a step that is no step";
  }
  if (batch.order != RowOrder::kFollowing) {
    return batch.leader == 0 ? nullptr : "follows a batch, and should not";
  }
  if (batch.leader >= number) return "follows a batch that comes later";
  const BatchHeader leader = packet.batch(batch.leader);
  return leader.order != RowOrder::kPlain && leader.shape.n_rows == shape.n_rows
             ? nullptr
             : "follows a batch that does not lead";
}

Result<Packet> check_table(ByteView bytes, Packet packet) {
  if (load<std::uint16_t>(bytes.data() + 2) != 0) {
    return corrupt("reserved bytes of the packet are not zero").at_byte(2);
  }
  std::uint64_t exact_bytes = 0;
  std::uint64_t n_coded = 0;
  bool has_ids = false;
  for (std::uint32_t i = 0; i < packet.n_batches; ++i) {
    const std::size_t at = packet.table_at() + kBatchBytes * i;
    if (const char* const fault = fault_of(packet, i, bytes.data() + at); fault != nullptr) {
      return corrupt("batch " + std::to_string(i) + " of the packet of rows " + fault).at_byte(at);
    }
    const BatchHeader batch = packet.batch(i);
    exact_bytes += batch.exact_bytes;
    n_coded += batch.n_coded_elems();
    has_ids = has_ids || (batch.has_ids() && batch.shape.n_rows != 0);
  }
  if (exact_bytes != packet.exact.size()) {
    return corrupt("the exact rows of the packet have another length than its table says")
        .at_byte(packet.exact_at());
  }
  if ((n_coded == 0) != packet.codes.empty() || has_ids == packet.buckets.empty()) {
    return corrupt("the packet of rows has parts that its table does not need, or lacks some")
        .at_byte(packet.buckets_at());
  }
  return packet;
}

}  // namespace

BatchHeader Packet::batch(std::size_t number) const noexcept {
  const std::byte* const at = table.data() + kBatchBytes * number;
  BatchHeader batch;
  batch.shape.dtype = static_cast<DType>(load<std::uint8_t>(at));
  batch.order = static_cast<RowOrder>(load<std::uint8_t>(at + 1));
  batch.leader = load<std::uint16_t>(at + 2);
  batch.shape.n_rows = load<std::uint32_t>(at + 4);
  batch.shape.row_elems = load<std::uint32_t>(at + 8);
  batch.shape.n_unique = load<std::uint32_t>(at + 12);
  batch.shape.needs_keys = batch.order == RowOrder::kKeys;
  batch.n_exact = load<std::uint32_t>(at + 16);
  batch.exact_bytes = load<std::uint32_t>(at + 20);
  batch.step = load<double>(at + 24);
  return batch;
}

Result<Packet> read_packet(ByteView bytes) {
  CFCK_TRY_ASSIGN(const Packet packet, find_parts(bytes));
  return check_table(bytes, packet);
}

Result<Packet> verify_packet(ByteView bytes) {
  CFCK_TRY_ASSIGN(const Packet packet, find_parts(bytes));
  CFCK_TRY(check_hash(bytes));
  return check_table(bytes, packet);
}

void write_header(std::uint32_t n_batches, const PartBytes& parts, std::byte* to) noexcept {
  store<std::uint32_t>(to, 0);
  to[0] = kMark;
  store<std::uint8_t>(to + 1, kVersion);
  store<std::uint32_t>(to + 4, n_batches);
  store<std::uint32_t>(to + 8, parts.buckets);
  store<std::uint32_t>(to + 12, parts.bits);
  store<std::uint32_t>(to + 16, parts.codes);
  store<std::uint32_t>(to + 20, parts.exact);
}

void write_batch(const BatchHeader& batch, std::byte* to) noexcept {
  store<std::uint8_t>(to, static_cast<std::uint8_t>(batch.shape.dtype));
  store<std::uint8_t>(to + 1, static_cast<std::uint8_t>(batch.order));
  store<std::uint16_t>(to + 2, batch.leader);
  store<std::uint32_t>(to + 4, batch.shape.n_rows);
  store<std::uint32_t>(to + 8, batch.shape.row_elems);
  store<std::uint32_t>(to + 12, batch.shape.n_unique);
  store<std::uint32_t>(to + 16, batch.n_exact);
  store<std::uint32_t>(to + 20, batch.exact_bytes);
  store<double>(to + 24, batch.step);
}

}  // namespace cfck::embeddings
