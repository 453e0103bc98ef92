// Damaged packets are refused; those made to look whole do no harm.
#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "embeddings/layout.hpp"
#include "tests/embeddings/sample_rows.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::test {
namespace {

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

// Each field of the table, with what it may not be.
TEST(DamagedRowPacket, TablesAreChecked) {
  const auto batches = samples();
  const auto packet = expect_round_trip(batches, slow_network());
  struct Change {
    std::size_t batch, at;
    std::uint64_t value;
    std::size_t n_bytes;
  };
  const Change changes[] = {
      {0, 0, 99, 1},
      {0, 1, 4, 1},
      {0, 1, 0, 1},
      {0, 2, 1, 2},
      {0, 4, 91, 4},
      {0, 4, 0xffffffff, 4},
      {0, 8, 0xffffffff, 4},
      {0, 12, 0, 4},
      {0, 12, 91, 4},
      {0, 12, 0xffffffff, 4},
      {0, 16, 91, 4},
      {0, 20, 7, 4},
      {0, 24, 0, 8},
      {0, 24, 0x7ff0000000000000, 8},
      {0, 24, 0x7ff8000000000000, 8},
      {0, 24, 0xbff0000000000000, 8},
      {1, 2, 1, 2},
      {1, 2, 3, 2},
      {1, 16, 0, 4},
      {1, 16, 2, 4},
      {2, 24, 1, 8},
      {2, 16, 1, 4},
      {3, 1, 2, 1},
  };
  for (const Change& change : changes) {
    auto damaged = packet;
    const std::size_t at = embeddings::kHeaderBytes + embeddings::kBatchBytes * change.batch;
    for (std::size_t i = 0; i < change.n_bytes; ++i) {
      damaged[at + change.at + i] = static_cast<std::byte>(change.value >> 8 * i);
    }
    seal(damaged);
    const auto code = code_of(damaged, batches);
    EXPECT_TRUE(code == ErrorCode::kCorrupt || code == ErrorCode::kInvalidArgument)
        << change.batch << ' ' << change.at << ' ' << change.value;
  }
}

// Rows of 4 GiB, whose bytes are 0 in 32 bits.
TEST(DamagedRowPacket, RowsAreMeasuredIn64Bits) {
  Rows batch = looked_up(popular_ids(1, 1, 1), 1, 2, 0.01);
  auto packet = expect_round_trip(std::span(&batch, 1));
  detail::store<std::uint32_t>(packet.data() + embeddings::kHeaderBytes + 8, 1U << 30);
  seal(packet);
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
