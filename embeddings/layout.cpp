#include "embeddings/layout.hpp"

#include <cmath>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "base/hashing/hashing.hpp"
#include "codec/common/id_buckets.hpp"
#include "codec/common/varint.hpp"

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
  std::uint64_t at = kHeaderBytes;
  ByteView* const parts[] = {&packet.table, &packet.buckets, &packet.bits, &packet.codes,
                             &packet.exact};
  std::uint64_t n_bytes[5];
  std::uint64_t all = kHeaderBytes + kHashBytes;
  for (unsigned i = 0; i < 5; ++i) {
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

// Reads a batch from the front of `fields`. Errors: those of the reader.
Result<BatchHeader> read_batch(codec::VarintReader& fields) {
  BatchHeader batch;
  CFCK_TRY_ASSIGN(const std::uint8_t dtype, fields.byte());
  CFCK_TRY_ASSIGN(const std::uint8_t order, fields.byte());
  batch.shape.dtype = static_cast<DType>(dtype);
  batch.order = static_cast<RowOrder>(order);
  batch.shape.needs_keys = batch.order == RowOrder::kKeys;
  CFCK_TRY_ASSIGN(batch.shape.n_rows, fields.varint());
  CFCK_TRY_ASSIGN(batch.shape.row_elems, fields.varint());
  if (batch.order == RowOrder::kFollowing) {
    CFCK_TRY_ASSIGN(batch.leader, fields.varint());
  }
  batch.shape.n_unique = batch.shape.n_rows;
  if (batch.order != RowOrder::kPlain) {
    CFCK_TRY_ASSIGN(batch.shape.n_unique, fields.varint());
  }
  CFCK_TRY_ASSIGN(batch.n_exact, fields.varint());
  if (batch.n_exact != 0) {
    CFCK_TRY_ASSIGN(batch.exact_bytes, fields.varint());
  }
  if (batch.n_exact != batch.shape.n_unique) {
    CFCK_TRY_ASSIGN(const ByteView step, fields.take(sizeof(double)));
    batch.step = load<double>(step.data());
  }
  return batch;
}

// Returns what is wrong with a batch, or nullptr.
const char* fault_of(const BatchHeader& batch, std::span<const BatchHeader> before) {
  const RowShape& shape = batch.shape;
  if (!is_known(shape.dtype)) return "has a dtype that rows do not have";
  if (batch.order > RowOrder::kKeys) return "has an unknown order of rows";
  if (shape.n_rows > kMaxBatchRows) return "has more rows than a packet may";
  if (shape.n_unique > shape.n_rows || (shape.n_unique == 0) != (shape.n_rows == 0)) {
    return "has another number of rows than it can have";
  }
  if (batch.n_exact > shape.n_unique) return "has more exact rows than rows";
  if (batch.n_exact != 0 && batch.exact_bytes == 0) return "has exact rows without bytes";
  if (batch.n_exact != shape.n_unique && !(batch.step > 0 && std::isfinite(batch.step))) {
    return "has a step that is no step";
  }
  if (batch.order != RowOrder::kFollowing) return nullptr;
  if (batch.leader >= before.size()) return "follows a batch that comes later";
  const BatchHeader& leader = before[batch.leader];
  return leader.order != RowOrder::kPlain && leader.shape.n_rows == shape.n_rows
             ? nullptr
             : "follows a batch that does not lead";
}

Result<void> read_table(Packet& packet) {
  codec::VarintReader fields(packet.table);
  while (!fields.at_end()) {
    const std::size_t at = packet.table_at() + fields.position();
    const std::string name = "batch " + std::to_string(packet.batches.size());
    const Result<BatchHeader> batch = read_batch(fields);
    if (!batch) {
      return corrupt("the table of the packet of rows ends within " + name +
                     ", or has a number there that is none")
          .at_byte(at);
    }
    if (const char* const fault = fault_of(*batch, packet.batches); fault != nullptr) {
      return corrupt(name + " of the packet of rows " + fault).at_byte(at);
    }
    packet.batches.push_back(*batch);
  }
  return {};
}

Result<Packet> check_table(ByteView bytes, Packet packet) {
  if (load<std::uint16_t>(bytes.data() + 2) != 0) {
    return corrupt("reserved bytes of the packet are not zero").at_byte(2);
  }
  CFCK_TRY(read_table(packet));
  std::uint64_t exact_bytes = 0;
  std::uint64_t n_coded = 0;
  bool has_ids = false;
  for (const BatchHeader& batch : packet.batches) {
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

Result<Packet> read_packet(ByteView bytes) {
  CFCK_TRY_ASSIGN(Packet packet, find_parts(bytes));
  return check_table(bytes, std::move(packet));
}

Result<Packet> verify_packet(ByteView bytes) {
  CFCK_TRY_ASSIGN(Packet packet, find_parts(bytes));
  CFCK_TRY(check_hash(bytes));
  return check_table(bytes, std::move(packet));
}

void write_header(const PartBytes& parts, std::byte* to) noexcept {
  store<std::uint32_t>(to, 0);
  to[0] = kMark;
  store<std::uint8_t>(to + 1, kVersion);
  store<std::uint32_t>(to + 4, parts.table);
  store<std::uint32_t>(to + 8, parts.buckets);
  store<std::uint32_t>(to + 12, parts.bits);
  store<std::uint32_t>(to + 16, parts.codes);
  store<std::uint32_t>(to + 20, parts.exact);
}

void append_batch(const BatchHeader& batch, std::vector<std::byte>& table) {
  using codec::append_varint;
  table.push_back(static_cast<std::byte>(batch.shape.dtype));
  table.push_back(static_cast<std::byte>(batch.order));
  append_varint(batch.shape.n_rows, table);
  append_varint(batch.shape.row_elems, table);
  if (batch.order == RowOrder::kFollowing) {
    append_varint(batch.leader, table);
  }
  if (batch.order != RowOrder::kPlain) {
    append_varint(batch.shape.n_unique, table);
  }
  append_varint(batch.n_exact, table);
  if (batch.n_exact != 0) {
    append_varint(batch.exact_bytes, table);
  }
  if (batch.n_exact != batch.shape.n_unique) {
    std::byte step[sizeof(double)];
    store<double>(step, batch.step);
    table.insert(table.end(), std::begin(step), std::end(step));
  }
}

}  // namespace cfck::embeddings
