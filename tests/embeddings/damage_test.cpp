// Damaged packets are refused; those made to look whole do no harm.
#include <limits>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "embeddings/layout.hpp"
#include "tests/embeddings/sample_rows.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::test {
namespace {

using embeddings::BatchHeader;
using embeddings::RowOrder;

std::vector<Rows> samples() {
  const auto people = popular_ids(90, 30, 5);
  std::vector<std::uint32_t> ages;
  for (const std::uint32_t person : people) ages.push_back(person % 7);
  std::vector<Rows> batches{looked_up(people, 16, 1, 0.01), looked_up(ages, 12, 2, 0.02),
                            looked_up(people, 2, 3, 0, DType::kF16),
                            looked_up(popular_ids(20, 1000, 4), 2, 4, 0.01, DType::kBF16)};
  const std::uint32_t nan = 0x7fc00000;
  std::memcpy(batches[1].values.data() + 24, &nan, sizeof(nan));
  batches[2].keys.assign(people.begin(), people.end());
  return batches;
}

void seal(std::vector<std::byte>& packet) {
  const std::size_t end = packet.size() - 8;
  detail::store<std::uint64_t>(packet.data() + end,
                               detail::tiled_hash64(ByteView(packet).first(end)));
}

// Decodes as a receiver would that knows its tables; whether that is refused or not, nothing
// outside of the packet and the batches is touched.
std::optional<ErrorCode> code_of(const std::vector<std::byte>& packet,
                                 std::span<const Rows> batches) {
  const GuardedBytes guarded(packet);
  const auto decoded = decode(guarded.bytes(), batches);
  return decoded ? std::nullopt : std::optional(decoded.error().code);
}

TEST(DamagedRowPacket, IsTruncated) {
  const auto batches = samples();
  const auto packet = expect_round_trip(batches, slow_network());
  for (std::size_t n = 0; n < packet.size(); ++n) {
    const std::vector<std::byte> cut(packet.begin(), packet.begin() + std::ptrdiff_t(n));
    EXPECT_EQ(code_of(cut, batches), ErrorCode::kTruncated) << n;
  }
  auto longer = packet;
  longer.push_back(std::byte{0});
  EXPECT_EQ(code_of(longer, batches), ErrorCode::kCorrupt);
}

TEST(DamagedRowPacket, HasAHash) {
  const auto batches = samples();
  const auto packet = expect_round_trip(batches, slow_network());
  for (std::size_t at = 0; at < packet.size(); ++at) {
    auto damaged = packet;
    damaged[at] ^= std::byte{1};
    EXPECT_TRUE(code_of(damaged, batches)) << at;
  }
}

TEST(DamagedRowPacket, IsRefusedOrHarmlessWithARepairedHash) {
  const auto batches = samples();
  const auto packet = expect_round_trip(batches, slow_network());
  std::size_t n_refused = 0;
  for (std::size_t at = 0; at + 8 < packet.size(); ++at) {
    for (const unsigned change : {1U, 0x80U, 0xffU}) {
      auto damaged = packet;
      damaged[at] ^= static_cast<std::byte>(change);
      seal(damaged);
      n_refused += code_of(damaged, batches) ? 1 : 0;
    }
  }
  EXPECT_GT(n_refused, packet.size());
}

using ChangeBatch = void (*)(BatchHeader&);

// The packet with another batch in its table.
std::vector<std::byte> with_batch(const std::vector<std::byte>& packet, std::size_t number,
                                  ChangeBatch change) {
  embeddings::Packet parts = embeddings::read_packet(packet).value();
  change(parts.batches[number]);
  std::vector<std::byte> table;
  for (const BatchHeader& batch : parts.batches) {
    embeddings::append_batch(batch, table);
  }
  const auto behind_table = packet.begin() + static_cast<std::ptrdiff_t>(parts.buckets_at());
  std::vector<std::byte> changed(packet.begin(), packet.begin() + embeddings::kHeaderBytes);
  detail::store<std::uint32_t>(changed.data() + 4, static_cast<std::uint32_t>(table.size()));
  changed.insert(changed.end(), table.begin(), table.end());
  changed.insert(changed.end(), behind_table, packet.end());
  seal(changed);
  return changed;
}

// Each field of the table, with what it may not be.
TEST(DamagedRowPacket, TablesAreChecked) {
  const auto batches = samples();
  const auto packet = expect_round_trip(batches, slow_network());
  struct Change {
    std::size_t batch;
    ChangeBatch make;
  };
  const Change changes[] = {
      {0, [](BatchHeader& b) { b.shape.dtype = static_cast<DType>(99); }},
      {0, [](BatchHeader& b) { b.order = static_cast<RowOrder>(4); }},
      {0, [](BatchHeader& b) { b.order = RowOrder::kPlain; }},
      {0, [](BatchHeader& b) { b.order = RowOrder::kFollowing; }},
      {0, [](BatchHeader& b) { b.shape.n_rows = 91; }},
      {0, [](BatchHeader& b) { b.shape.n_rows = 0xffffffff; }},
      {0, [](BatchHeader& b) { b.shape.row_elems = 0xffffffff; }},
      {0, [](BatchHeader& b) { b.shape.n_unique = 0; }},
      {0, [](BatchHeader& b) { b.shape.n_unique = 91; }},
      {0, [](BatchHeader& b) { b.shape.n_unique = 0xffffffff; }},
      {0, [](BatchHeader& b) { b.n_exact = 91; }},
      {0, [](BatchHeader& b) { b.n_exact = 1; }},
      {0, [](BatchHeader& b) { b.step = 0; }},
      {0, [](BatchHeader& b) { b.step = -1; }},
      {0, [](BatchHeader& b) { b.step = std::numeric_limits<double>::infinity(); }},
      {0, [](BatchHeader& b) { b.step = std::numeric_limits<double>::quiet_NaN(); }},
      {1, [](BatchHeader& b) { b.order = RowOrder::kFollowing, b.leader = 1; }},
      {1, [](BatchHeader& b) { b.order = RowOrder::kFollowing, b.leader = 3; }},
      {1, [](BatchHeader& b) { b.n_exact = 0; }},
      {1, [](BatchHeader& b) { b.n_exact = 2; }},
      {1, [](BatchHeader& b) { b.exact_bytes += 1; }},
      {1, [](BatchHeader& b) { b.exact_bytes = 0; }},
      {2, [](BatchHeader& b) { b.n_exact -= 1; }},
      {3, [](BatchHeader& b) { b.order = RowOrder::kFollowing; }},
  };
  for (const Change& change : changes) {
    const auto code = code_of(with_batch(packet, change.batch, change.make), batches);
    EXPECT_TRUE(code == ErrorCode::kCorrupt || code == ErrorCode::kInvalidArgument)
        << &change - changes;
  }
}

// Rows of 4 GiB, whose bytes are 0 in 32 bits.
TEST(DamagedRowPacket, RowsAreMeasuredIn64Bits) {
  Rows batch = looked_up(popular_ids(1, 1, 1), 1, 2, 0.01);
  const auto packet = with_batch(expect_round_trip(std::span(&batch, 1)), 0,
                                 [](BatchHeader& wide) { wide.shape.row_elems = 1U << 30; });
  EXPECT_EQ(row_packet_shapes(packet).value()[0].row_elems, 1U << 30);
  batch.values.clear();
  EXPECT_EQ(code_of(packet, std::span(&batch, 1)), ErrorCode::kInvalidArgument);
  batch.row_elems = 1U << 30;
  EXPECT_EQ(encode(std::span(&batch, 1)).error().code, ErrorCode::kInvalidArgument);
}

TEST(DamagedRowPacket, OfANewerVersionSaysSo) {
  const auto batches = samples();
  auto packet = expect_round_trip(batches, slow_network());
  packet[1] = std::byte{2};
  EXPECT_EQ(code_of(packet, batches), ErrorCode::kUnsupported);
  packet[0] = std::byte{0xC9};
  EXPECT_EQ(code_of(packet, batches), ErrorCode::kCorrupt);
}

TEST(DamagedRowPacket, TakesMemoryOfTheSizesThatItSays) {
  auto batches = samples();
  const auto packet = expect_round_trip(batches, slow_network());
  batches[0].values.pop_back();
  EXPECT_EQ(code_of(packet, batches), ErrorCode::kInvalidArgument);
  batches = samples();
  batches.pop_back();
  EXPECT_EQ(code_of(packet, batches), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace cfck::test
