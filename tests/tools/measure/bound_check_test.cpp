// The parts that decide whether a maximum error was kept.
#include "tools/measure/bound_check.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cfck/safetensors.hpp"
#include "tests/support/sample_tensors.hpp"
#include "tools/convert/compare/comparing_sink.hpp"
#include "tools/measure/exact_sum.hpp"
#include "tools/output/nearest_names.hpp"

namespace cfck::tools {
namespace {

using test::Bytes;
using test::expect_ok;
using test::Random;

__extension__ using Wide = __int128;

constexpr double kGreatest = std::numeric_limits<double>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Within, AgreesWithIntegersNearTies) {
  Random random(1);
  int n_within = 0;
  for (int round = 0; round < 200000; ++round) {
    const auto factor = static_cast<std::int64_t>(random.next() >> (11 + random.below(40)));
    const auto low = static_cast<std::int64_t>(random.next() >> 14) - (std::int64_t{1} << 49);
    const std::int64_t high = low + static_cast<std::int64_t>(random.next() >> 34);
    const Wide limit = static_cast<Wide>(factor) * (high - low);
    // x and y in units that leave the distance 50 bits.
    int unit = 0;
    while ((limit >> unit) >= (std::int64_t{1} << 50)) ++unit;
    const std::int64_t distance = std::max<std::int64_t>(
        static_cast<std::int64_t>(limit >> unit) + static_cast<std::int64_t>(random.below(4)) - 1,
        0);
    const auto y = static_cast<std::int64_t>(random.next() >> 14) - (std::int64_t{1} << 49);
    const std::int64_t x = y + (random.below(2) == 0 ? distance : -distance);
    const bool expected = (static_cast<Wide>(distance) << unit) <= limit;
    n_within += expected ? 1 : 0;
    // Scales go down to the smallest double, and up to the largest.
    const int scale_x = static_cast<int>(random.below(2040 - static_cast<unsigned>(unit))) - 1074;
    const int scale_range = std::clamp((scale_x - unit) / 2, -1074, 970);
    const int scale_factor = scale_x - unit - scale_range;
    if (scale_factor < -1074 || scale_factor > 970 || scale_x > 970) continue;
    const auto scaled = [](std::int64_t value, int scale) {
      return std::ldexp(static_cast<double>(value), scale);
    };
    EXPECT_EQ(within(scaled(x, scale_x), scaled(y, scale_x), scaled(factor, scale_factor),
                     scaled(low, scale_range), scaled(high, scale_range)),
              expected)
        << round;
  }
  EXPECT_GT(n_within, 50000);
  EXPECT_LT(n_within, 150000);
}

TEST(Within, TheEndsOfTheNumberLine) {
  EXPECT_TRUE(within(kGreatest, -kGreatest, 1, -kGreatest, kGreatest));
  EXPECT_TRUE(within(kGreatest, -kGreatest, kGreatest, 0, 2));
  EXPECT_FALSE(within(kGreatest, -kGreatest, 1 - 0x1p-53, -kGreatest, kGreatest));
  EXPECT_FALSE(within(kGreatest, -kGreatest, kGreatest, 0, 1));
  EXPECT_TRUE(within(0x1p-1074, 0, 0x1p-1074, 0, 1));
  EXPECT_FALSE(within(0x1p-1074, -0x1p-1074, 0x1p-1074, 0, 1));
  EXPECT_FALSE(within(0x1p-1074, 0, 0x1p-1074, 0, 1 - 0x1p-53));
  EXPECT_FALSE(within(0x1p-1074, 0, 0x1p-1074, 0, 0x1p-1074));
  EXPECT_TRUE(within(0x1p-1074, 0, kGreatest, 0, 0x1p-1074));
  EXPECT_TRUE(within(0.0, -0.0, 1, 3, 3));
  EXPECT_FALSE(within(0x1p-1074, 0, 1, 3, 3));
  // Rounded, both distances are 1.
  EXPECT_FALSE(within(1, -0x1p-60, 1, 0, 1));
  EXPECT_TRUE(within(1, 0x1p-60, 1, 0, 1));
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

template <class T>
constexpr DType kDTypeOf = sizeof(T) == 8 ? DType::kF64 : DType::kF32;

// Feeds the check in pieces of `piece` values.
template <class T>
BoundCheck checked(const ErrorBound& bound, std::uint64_t n_rows, const std::vector<T>& reference,
                   const std::vector<T>& decoded, std::size_t piece = 1000) {
  const Bytes x = bytes_of(reference);
  const Bytes y = bytes_of(decoded);
  const auto read = [&](std::uint64_t first, std::uint64_t count,
                        MutableBytes out) -> Result<void> {
    EXPECT_LE((first + count) * sizeof(T), x.size());
    EXPECT_EQ(out.size(), count * sizeof(T));
    std::memcpy(out.data(), x.data() + first * sizeof(T), out.size());
    return {};
  };
  BoundCheck check(bound, kDTypeOf<T>, reference.size(), n_rows, read);
  for (std::size_t at = 0; at < reference.size(); at += piece) {
    const std::size_t n_bytes = std::min(piece, reference.size() - at) * sizeof(T);
    expect_ok(check.add(std::span(y).subspan(at * sizeof(T), n_bytes),
                        std::span(x).subspan(at * sizeof(T), n_bytes)));
  }
  return check;
}

TEST(BoundCheck, RowsOfEveryLength) {
  for (const auto& [n_rows, row_values] :
       {std::pair<std::size_t, std::size_t>{3, 300000}, {5000, 7}, {1000, 1}, {40, 4096}}) {
    std::vector<float> x(n_rows * row_values);
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Ranges of 8, 16, 8, ...
      x[i] = static_cast<float>(i % 2 * 8 * (1 + i / row_values % 2));
    }
    for (const bool per_row : {true, false}) {
      const ErrorBound bound{BoundKind::kRel, per_row, 0x1p-4};
      std::vector<float> y = x;
      const std::size_t last = (n_rows - 1) / 2 * 2 * row_values + row_values - 1;
      const float limit = row_values == 1 && per_row ? 0 : per_row ? 0.5F : 1;
      y[last] += limit;
      y[0] -= limit;
      EXPECT_TRUE(checked(bound, n_rows, x, y).kept()) << row_values << per_row;
      y[last] = std::nextafter(y[last], 100.0F);
      const BoundCheck broken = checked(bound, n_rows, x, y, 777);
      EXPECT_EQ(broken.n_beyond(), 1U) << row_values << per_row;
      EXPECT_EQ(broken.first_beyond(), last);
      EXPECT_EQ(broken.max_abs_error(), std::fabs(static_cast<double>(y[last]) - x[last]));
    }
  }
}

// Half of the values are mean + size, half mean - size.
void expect_deviation(double mean, double size) {
  std::vector<double> x(3000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? mean + size : mean - size;
  for (const double factor : {0.5, 4.0}) {
    for (const bool per_row : {true, false}) {
      const ErrorBound bound{BoundKind::kSigma, per_row, factor};
      std::vector<double> y = x;
      // Moves towards zero, where no number is too large.
      const double towards = x[500] > 0 ? -1 : 1;
      y[500] += towards * factor * size;
      EXPECT_TRUE(checked(bound, 2, x, y).kept()) << mean << " " << size;
      y[500] = x[500] + towards * factor * size * 1.125;
      EXPECT_EQ(checked(bound, 2, x, y).n_beyond(), 1U) << mean << " " << size;
    }
  }
}

TEST(BoundCheck, DeviationsOfAnySize) {
  expect_deviation(0, 1);
  expect_deviation(0x1p40, 0x1p-4);
  expect_deviation(-0x1p100, 0x1p60);
  expect_deviation(0, 0x1p-1060);
  expect_deviation(0x1p-1030, 0x1p-1060);
  expect_deviation(0, 0x1p1020);
  expect_deviation(0x1p1020, 0x1p1000);
}

TEST(BoundCheck, RowsOfVeryUnequalSize) {
  std::vector<double> x(4000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(i % 2 == 0 ? 1 : -1, i < 2000 ? 900 : -1040);
  }
  std::vector<double> y = x;
  y[0] += 0x1p899;
  y[3000] += 0x1p-1041;
  const ErrorBound bound{BoundKind::kSigma, true, 0.5};
  EXPECT_TRUE(checked(bound, 2, x, y).kept());
  y[3000] += 0x1p-1060;
  EXPECT_EQ(checked(bound, 2, x, y).first_beyond(), 3000U);
}

TEST(BoundCheck, SpecialValues) {
  const std::vector<double> x = {kNan, kInfinity, -kInfinity, 0.0, -0.0, 1, 2};
  for (const BoundKind kind : {BoundKind::kAbs, BoundKind::kRel, BoundKind::kSigma}) {
    const ErrorBound bound{kind, false, 0.25};
    std::vector<double> y = x;
    y[4] = 0.0;
    EXPECT_TRUE(checked(bound, 1, x, y).kept());
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (const double other :
           {kNan, -kNan, std::bit_cast<double>(0x7ff0000000000001U), kInfinity, -kInfinity}) {
        y = x;
        y[i] = other;
        const bool same = std::bit_cast<std::uint64_t>(other) == std::bit_cast<std::uint64_t>(x[i]);
        EXPECT_EQ(checked(bound, 1, x, y).kept(), same) << i << " " << other;
      }
    }
    y = x;
    y[0] = 1;
    EXPECT_EQ(checked(bound, 1, x, y).n_beyond(), 1U);
    EXPECT_EQ(checked(bound, 1, x, y).max_abs_error(), 0);
  }
}

TEST(BoundCheck, NothingMayBeLostWhereThereIsNoSpread) {
  for (const BoundKind kind : {BoundKind::kRel, BoundKind::kSigma}) {
    const ErrorBound bound{kind, false, 100};
    for (const double value : {0.0, 3.0, 0.1, -0x1p-1074, kGreatest}) {
      const std::vector<double> x(5000, value);
      std::vector<double> y = x;
      EXPECT_TRUE(checked(bound, 1, x, y).kept()) << value;
      y[7] = std::nextafter(value, 0.5);
      EXPECT_EQ(checked(bound, 1, x, y).first_beyond(), 7U) << value;
    }
    const std::vector<double> none(100, kNan);
    EXPECT_TRUE(checked(bound, 1, none, none).kept());
  }
}

TEST(BoundCheck, RowsAreThoseOfTheBase) {
  std::vector<Record> records(3);
  records[0].shape = {4, 6};
  records[0].n_elems = 24;
  records[1].kind = RecordKind::kAlias;
  records[1].shape = {24};
  records[1].n_elems = 24;
  records[2].shape = {24};
  records[2].n_elems = 24;
  EXPECT_EQ(bound_rows(records[0], records), 4U);
  EXPECT_EQ(bound_rows(records[1], records), 4U);
  EXPECT_EQ(bound_rows(records[2], records), 1U);
  records[1].base = 77;
  EXPECT_EQ(bound_rows(records[1], records), 1U);
  records[0].shape = {0, 6};
  records[0].n_elems = 0;
  EXPECT_EQ(bound_rows(records[0], records), 1U);
}

std::unique_ptr<TensorArchive> archive_of(const Bytes& bytes) {
  return test::take(TensorArchive::open(std::make_unique<OwnedMemorySource>(bytes)));
}

// A safetensors file with a lossy tensor between lossless ones, and its lossy
// copy.
class Comparing : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string json = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("w":{"dtype":"F32","shape":[64,64],"data_offsets":[3,16387]},)"
                             R"("z":{"dtype":"U8","shape":[5],"data_offsets":[16387,16392]}} )";
    const std::uint64_t length = json.size();
    const auto append = [&](const void* bytes, std::size_t count) {
      const auto* first = static_cast<const std::byte*>(bytes);
      plain.insert(plain.end(), first, first + count);
    };
    append(&length, 8);
    append(json.data(), json.size());
    begin = plain.size() + 3;
    append("abc", 3);
    const Bytes values = test::weights(3, 4096);
    append(values.data(), values.size());
    append("vwxyz", 5);
    const MemorySource source(plain);
    header = test::take(read_safetensors_header(source));
    EncodeOptions options;
    options.max_abs_error = 1e-3;
    const Bytes file = test::write_file(
        [&](Writer& writer) { expect_ok(add_safetensors(writer, source, header)); }, options);
    opened.emplace(file);
    MemorySink sink;
    expect_ok(write_safetensors(opened->reader(), sink));
    lossy = sink.take();
    ASSERT_NE(lossy, plain);
  }

  Result<void> compare(const Bytes& written, std::size_t piece) {
    const MemorySource source(plain);
    ComparingSink sink(source);
    sink.expect_losses(*archive_of(plain), *archive_of(opened->bytes()));
    for (std::size_t at = 0; at < written.size(); at += piece) {
      CFCK_TRY(sink.write(std::span(written).subspan(at, std::min(piece, written.size() - at))));
    }
    return sink.finish();
  }
  float value(std::size_t i) const {
    float number = 0;
    std::memcpy(&number, plain.data() + begin + 4 * i, 4);
    return number;
  }
  Bytes with(std::size_t i, float number) const {
    Bytes changed = lossy;
    std::memcpy(changed.data() + begin + 4 * i, &number, 4);
    return changed;
  }

  Bytes plain;
  Bytes lossy;
  std::size_t begin = 0;  // of the lossy tensor
  SafetensorsHeader header;
  std::optional<test::OpenFile> opened;
};

TEST_F(Comparing, TakesLossesInPiecesOfAnySize) {
  ASSERT_TRUE(opened->record("w").error);
  for (const std::size_t piece : {1U, 2U, 3U, 5U, 7U, 64U, 1001U, 4096U, 20000U}) {
    expect_ok(compare(lossy, piece));
  }
}

TEST_F(Comparing, NoticesWhatIsTooFarOff) {
  const Bytes broken = with(77, value(77) + 0.0011F);
  for (const std::size_t piece : {1U, 3U, 1001U, 20000U}) {
    const auto result = compare(broken, piece);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kChecksum);
    EXPECT_EQ(result.error().record, "w");
    EXPECT_EQ(result.error().byte_offset, begin + 4 * 77);
    EXPECT_NE(result.error().message.find("abs 1e-03"), std::string::npos);
  }
  EXPECT_FALSE(compare(with(4095, kNan), 1001));
  // The bound is kept, but the index reports a slightly smaller error.
  const auto more = compare(with(77, value(77) + 0.0009999F), 1001);
  if (std::fabs(static_cast<double>(value(77) + 0.0009999F) - value(77)) >
      opened->record("w").error->max_abs_error) {
    ASSERT_FALSE(more);
    EXPECT_NE(more.error().message.find("as recorded in the index"), std::string::npos);
  } else {
    expect_ok(more);
  }
}

TEST_F(Comparing, TargetsAreThoseOfTheValues) {
  for (const std::size_t piece : {3U, 1001U, 20000U}) {
    EncodeOptions options;
    options.nmse = 1e-4;
    const MemorySource source(plain);
    const test::OpenFile file(test::write_file(
        [&](Writer& writer) { expect_ok(add_safetensors(writer, source, header)); }, options));
    MemorySink decoded;
    expect_ok(write_safetensors(file.reader(), decoded));
    ComparingSink sink(source);
    sink.expect_losses(*archive_of(plain), *archive_of(file.bytes()));
    const Bytes bytes = decoded.take();
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      expect_ok(sink.write(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at))));
    }
    expect_ok(sink.finish());
    const TargetTotals& totals = sink.totals();
    EXPECT_EQ(totals.n_elems, 4096U);
    EXPECT_EQ(totals.n_finite, 4096U);
    EXPECT_EQ(totals.stored_bytes, file.record("w").stored_bytes);
    const RecordError& error = *file.record("w").error;
    EXPECT_NEAR(std::sqrt(totals.squared_errors / 4096) / error.rmse, 1, 1e-12);
    EXPECT_NEAR(std::sqrt(totals.squares / 4096) / error.quality->rms, 1, 1e-12);
    expect_ok(check_target({TargetKind::kNmse, true, 1e-4}, totals));
    EXPECT_FALSE(check_target({TargetKind::kNmse, true, 0.98e-4}, totals));
  }
}

TEST_F(Comparing, LosslessTensorsThatCount) {
  const MemorySource source(plain);
  const Bytes file =
      test::write_file([&](Writer& writer) { expect_ok(add_safetensors(writer, source, header)); });
  const test::OpenFile lossless(file);
  const KeptLossless kept[] = {{"w", LosslessReason::kNotSmaller, true},
                               {"a", LosslessReason::kNotFloat}};
  for (const bool is_changed : {false, true}) {
    Bytes written = plain;
    // The sign of a value changes: a comparison of numbers does not see that if it is 0.
    if (is_changed) written[begin + 3] ^= std::byte{0x80};
    ComparingSink sink(source);
    sink.expect_losses(*archive_of(plain), *archive_of(lossless.bytes()), kept);
    EXPECT_EQ(sink.write(written).has_value(), !is_changed);
    EXPECT_EQ(sink.totals().n_elems, is_changed ? 0U : 4096U);
    EXPECT_EQ(sink.totals().squared_errors, 0);
  }
}

TEST_F(Comparing, LosslessBytesMustBeTheSame) {
  for (const std::size_t at : {std::size_t{3}, std::size_t{20}, begin - 1, plain.size() - 5}) {
    Bytes changed = lossy;
    changed[at] ^= std::byte{1};
    for (const std::size_t piece : {1U, 1001U, 20000U}) EXPECT_FALSE(compare(changed, piece)) << at;
  }
  Bytes shorter = lossy;
  shorter.pop_back();
  EXPECT_FALSE(compare(shorter, 1000));
  Bytes longer = lossy;
  longer.push_back({});
  EXPECT_FALSE(compare(longer, 1000));
}

TEST(NearestNames, OfPatterns) {
  const std::vector<std::string_view> names = {"layer.0.weight", "layer.1.weight", "layer.1.bias",
                                               "head.weight"};
  using Names = std::vector<std::string>;
  EXPECT_EQ(nearest_to_pattern(names, "*.wieght"),
            (Names{"head.weight", "layer.0.weight", "layer.1.weight"}));
  EXPECT_EQ(nearest_to_pattern(names, "layr.?.bias"), Names{"layer.1.bias"});
  EXPECT_EQ(nearest_to_pattern(names, "*.basi"), Names{});
  EXPECT_EQ(nearest_to_pattern(names, "**"), Names{});
  EXPECT_EQ(nearest_to_pattern(names, "*x*"), Names{});
  EXPECT_EQ(nearest_to_pattern({}, "abc*"), Names{});
  EXPECT_EQ(nearest_to_pattern(names, ""), Names{});
}

}  // namespace
}  // namespace cfck::tools
