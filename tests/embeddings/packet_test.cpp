// A packet gives back what went into it, within its error, and holds equal rows once.
#include <limits>

#include "tests/embeddings/sample_rows.hpp"
#include "tests/support/cpu_forms.hpp"

namespace cfck::test {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> expect_one(const Rows& batch, const RowPacketOptions& options = {}) {
  return expect_round_trip(std::span(&batch, 1), options);
}

RowShape shape_of(ByteView packet, std::size_t batch = 0) {
  return row_packet_shapes(packet).value().at(batch);
}

TEST(RowPacket, KeepsAllBitsWithoutAnError) {
  for (const DType dtype : kDtypes) {
    const auto ids = popular_ids(1000, 200, 1);
    const Rows batch = looked_up(ids, 32, 2, 0, dtype);
    const auto packet = expect_one(batch);
    EXPECT_LT(shape_of(packet).n_unique, 200U);
    EXPECT_EQ(shape_of(packet).dtype, dtype);
    EXPECT_LT(packet.size(), batch.values.size() / 4);
  }
}

TEST(RowPacket, KeepsTheError) {
  for (const DType dtype : kDtypes) {
    for (const double error : {1e-12, 1e-4, 3e-3, 0.02, 0.5, 1e30}) {
      expect_one(looked_up(popular_ids(700, 150, 3), 24, 4, error, dtype));
    }
  }
}

// Values half-way between two codes, and at the ends of what codes may be.
TEST(RowPacket, KeepsTheErrorBetweenCodes) {
  const double error = 0.125;
  std::vector<float> values;
  for (int k = -400; k < 400; ++k) {
    const auto middle = static_cast<float>((k + 0.5) * 2 * error);
    values.push_back(std::nextafter(middle, -kInf));
    values.push_back(middle);
    values.push_back(std::nextafter(middle, kInf));
  }
  for (const float far : {0x1p20F, 0x1p21F, 0x1.8p21F, 0x1p22F, 0x1p60F}) {
    values.insert(values.end(), {far, -far, std::nextafter(far, 0.0F)});
  }
  const auto n = static_cast<std::uint32_t>(values.size());
  expect_one({DType::kF32, n, 1, as_dtype(values, DType::kF32), error});
}

TEST(RowPacket, KeepsRowsWithNanAndInfinityBitForBit) {
  for (const DType dtype : kDtypes) {
    std::vector<float> values(40 * 8);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 56) * 0.01F;
    values[3] = kNan;
    values[20] = kInf;
    values[7 * 8 + 1] = -kInf;
    const Rows batch{dtype, 40, 8, as_dtype(values, dtype), 0.01};
    const auto packet = expect_one(batch);
    const auto decoded = decode(packet, std::span(&batch, 1)).value();
    const std::size_t row_bytes = 8 * bytes_of_value(dtype);
    for (const std::size_t row : {0, 2, 7}) {
      EXPECT_TRUE(std::equal(decoded[0].begin() + std::ptrdiff_t(row * row_bytes),
                             decoded[0].begin() + std::ptrdiff_t((row + 1) * row_bytes),
                             batch.values.begin() + std::ptrdiff_t(row * row_bytes)));
    }
  }
}

TEST(RowPacket, KeepsPayloadsOfNan) {
  Rows batch = looked_up(popular_ids(64, 20, 1), 4, 2);
  for (std::size_t i = 0; i < 20; ++i) {
    const std::uint32_t bits = 0x7f800001U + static_cast<std::uint32_t>(i);
    std::memcpy(batch.values.data() + 12 * i, &bits, sizeof(bits));
  }
  expect_one(batch);
}

TEST(RowPacket, MergesRowsThatBecomeEqual) {
  std::vector<float> values;
  for (int i = 0; i < 500; ++i) {
    const float base = static_cast<float>(i % 5);
    values.insert(values.end(), {base, base + 0.001F * static_cast<float>(i % 7), base, base});
  }
  const Rows batch{DType::kF32, 500, 4, as_dtype(values, DType::kF32), 0.05};
  EXPECT_EQ(shape_of(expect_one(batch, slow_network())).n_unique, 5U);
}

// The other attributes of a person follow from who it is.
TEST(RowPacket, SendsIdsThatFollowOnce) {
  const auto people = popular_ids(4000, 300, 5);
  std::vector<std::uint32_t> ages;
  for (const std::uint32_t person : people) ages.push_back(person * 7919 % 40);
  const std::vector<Rows> apart{looked_up(people, 16, 6, 0.01), looked_up(ages, 16, 7, 0.01)};
  const auto both = expect_round_trip(apart);
  const auto alone = expect_round_trip(std::span(apart).last(1));
  const auto first = expect_round_trip(std::span(apart).first(1));
  // Five bits an id, of 4,000 and of 300.
  EXPECT_LT(both.size() + 1800, first.size() + alone.size());
}

TEST(RowPacket, DoesNotFollowWhatDiffersOnce) {
  const auto people = popular_ids(3000, 100, 5);
  std::vector<std::uint32_t> ages;
  for (const std::uint32_t person : people) ages.push_back(person % 30);
  ages.back() = (ages.back() + 1) % 30;
  expect_round_trip(std::vector<Rows>{looked_up(people, 8, 6), looked_up(ages, 8, 7)});
}

TEST(RowPacket, LeavesOutIdsThatBothSidesHave) {
  const auto ids = popular_ids(5000, 400, 8);
  Rows batch = looked_up(ids, 16, 9, 0.01);
  const auto with_ids = expect_one(batch);
  for (const std::uint32_t id : ids) batch.keys.push_back(std::int64_t{id} - 200);
  const auto without = expect_one(batch);
  EXPECT_TRUE(shape_of(without).needs_keys);
  EXPECT_LT(without.size() + 3000, with_ids.size());
}

TEST(RowPacket, KeysLead) {
  const auto people = popular_ids(2000, 300, 5);
  std::vector<std::uint32_t> ages;
  for (const std::uint32_t person : people) ages.push_back(person % 50);
  std::vector<Rows> batches{looked_up(people, 8, 6, 0.01), looked_up(ages, 8, 7, 0.01)};
  batches[0].keys.assign(people.begin(), people.end());
  expect_round_trip(batches);
}

TEST(RowPacket, OfManySizes) {
  for (const std::uint32_t n_rows : {0U, 1U, 2U, 127U, 128U, 129U, 8191U, 8193U}) {
    for (const std::uint32_t row_elems : {0U, 1U, 3U, 128U}) {
      for (const double error : {0.0, 0.01}) {
        expect_one(looked_up(popular_ids(n_rows, 50, n_rows + 1), row_elems, 2, error));
      }
    }
  }
  EXPECT_FALSE(expect_round_trip(std::span<const Rows>()).empty());
}

TEST(RowPacket, OfManyBatches) {
  std::vector<Rows> batches;
  for (unsigned i = 0; i < 60; ++i) {
    batches.push_back(looked_up(popular_ids(200 + i % 3, 1 + i * 7, i), 1 + i % 9, i,
                                i % 4 == 0 ? 0 : 0.001 * i, kDtypes[i % 3]));
  }
  expect_round_trip(batches);
}

TEST(RowPacket, OfMoreRowsThanSmallBucketsHave) {
  std::vector<std::uint32_t> ids(120000);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::uint32_t>(i * 7919 % 60000);
  }
  const auto packet = expect_one(looked_up(ids, 16, 3, 0.01), slow_network());
  EXPECT_LE(shape_of(packet).n_unique, 60000U);
}

// Where time on the wire costs nothing, what takes time is left out, and the other way round.
TEST(RowPacket, IdsDependOnTheRateOfTheNetwork) {
  std::vector<std::uint32_t> ids;  // one row in three comes twice
  for (std::uint32_t i = 0; i < 3000; ++i) ids.push_back(i % 2000);
  const Rows batch = looked_up(ids, 16, 1, 0.01);
  RowPacketOptions fast;
  fast.bytes_per_second = 1e12;
  EXPECT_EQ(shape_of(expect_one(batch, slow_network())).n_unique, 2000U);
  EXPECT_EQ(shape_of(expect_one(batch, fast)).n_unique, 3000U);
}

TEST(RowPacket, IsTheSameAtEveryCpuLevel) {
  const std::vector<Rows> batches{looked_up(popular_ids(3000, 500, 1), 32, 2, 0.01),
                                  looked_up(popular_ids(3000, 90, 3), 16, 4, 0, DType::kBF16)};
  const auto expected = encode(batches).value();
  for (const CpuForm& form : cpu_forms()) {
    const UseCpuForm use(form);
    EXPECT_EQ(encode(batches).value(), expected);
    expect_round_trip(batches);
  }
}

TEST(RowPacket, RefusesWhatIsNoBatch) {
  const auto code_of = [](const Rows& batch) -> std::optional<ErrorCode> {
    const auto packet = encode(std::span(&batch, 1));
    return packet ? std::nullopt : std::optional(packet.error().code);
  };
  const Rows good = looked_up(popular_ids(10, 5, 1), 4, 2, 0.01);
  EXPECT_FALSE(code_of(good));
  Rows bad = good;
  bad.values.pop_back();
  EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  bad = good;
  bad.dtype = DType::kF64;
  EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  for (const double error : {-1.0, double{kInf}, double{kNan}}) {
    bad = good;
    bad.max_abs_error = error;
    EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  }
  bad = good;
  bad.keys.assign(9, 0);
  EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  bad.keys.assign(10, 0);  // the rows differ
  EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  bad = Rows{DType::kF32, kMaxBatchRows + 1, 0, {}, 0};
  EXPECT_EQ(code_of(bad), ErrorCode::kLimitExceeded);
}

TEST(RowPacket, RefusesOptionsAndMemoryThatDoNotFit) {
  const Rows batch = looked_up(popular_ids(10, 5, 1), 4, 2, 0.01);
  RowPacketOptions options;
  for (const double rate : {0.0, -1.0, double{kNan}}) {
    options.bytes_per_second = rate;
    EXPECT_EQ(encode(std::span(&batch, 1), options).error().code, ErrorCode::kInvalidArgument);
  }
  std::vector<std::byte> small(20);
  RowWorkspace workspace;
  const RowBatch view = batch.view();
  EXPECT_EQ(encode_rows(std::span(&view, 1), {}, small, workspace).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(RowPacket, RefusesResultsThatOverlapWhatIsRead) {
  const Rows batch = looked_up(popular_ids(10, 5, 1), 4, 2, 0.01);
  std::vector<std::byte> memory(5000);
  std::copy(batch.values.begin(), batch.values.end(), memory.begin());
  const std::size_t n_values = batch.values.size();
  RowBatch view = batch.view();
  view.values = std::span(memory).first(n_values);
  RowWorkspace workspace;
  EXPECT_EQ(encode_rows(std::span(&view, 1), {}, memory, workspace).error().code,
            ErrorCode::kInvalidArgument);
  const MutableBytes apart = std::span(memory).subspan(n_values);
  const std::uint64_t n_bytes = encode_rows(std::span(&view, 1), {}, apart, workspace).value();
  const DecodedRows over{std::span(memory).subspan(1, n_values)};
  const DecodedRows beside{std::span(memory).first(n_values)};
  EXPECT_EQ(decode_rows(apart.first(n_bytes), std::span(&over, 1), workspace).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(decode_rows(apart.first(n_bytes), std::span(&beside, 1), workspace));
  std::vector<std::int64_t> keys(n_values / sizeof(std::int64_t) + 1);
  const DecodedRows over_keys{std::as_writable_bytes(std::span(keys)).first(n_values), keys};
  EXPECT_EQ(decode_rows(apart.first(n_bytes), std::span(&over_keys, 1), workspace).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(RowPacket, RefusesKeysOfOtherRows) {
  Rows batch = looked_up(popular_ids(100, 30, 1), 4, 2, 0.01);
  const auto ids = popular_ids(100, 30, 1);
  batch.keys.assign(ids.begin(), ids.end());
  const auto packet = encode(std::span(&batch, 1)).value();
  for (std::int64_t& key : batch.keys) key /= 2;
  EXPECT_EQ(decode(packet, std::span(&batch, 1)).error().code, ErrorCode::kInvalidArgument);
  batch.keys.clear();
  EXPECT_EQ(decode(packet, std::span(&batch, 1)).error().code, ErrorCode::kInvalidArgument);
}

TEST(RowPacket, AWorkspaceServesAfterAnError) {
  RowWorkspace workspace;
  const Rows batch = looked_up(popular_ids(500, 100, 1), 16, 2, 0.01);
  const RowBatch view = batch.view();
  std::vector<std::byte> packet(max_row_packet_bytes(std::span(&view, 1)).value());
  const auto n_bytes = encode_rows(std::span(&view, 1), {}, packet, workspace).value();
  packet.resize(n_bytes);
  std::vector<std::byte> out(batch.values.size());
  const DecodedRows room{out, {}};
  EXPECT_FALSE(decode_rows(ByteView(packet).first(n_bytes - 1), std::span(&room, 1), workspace));
  ASSERT_TRUE(decode_rows(packet, std::span(&room, 1), workspace));
  std::vector<std::byte> again(max_row_packet_bytes(std::span(&view, 1)).value());
  again.resize(encode_rows(std::span(&view, 1), {}, again, workspace).value());
  EXPECT_EQ(again, packet);
}

}  // namespace
}  // namespace cfck::test
