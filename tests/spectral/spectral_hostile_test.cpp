// Hostile chunks of the spectral codec: each gives an error that says where, and no more is
// allocated for it than its size and that of its values justify.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

#include "tests/spectral/spectral_hostile_parts.hpp"

std::atomic<std::size_t> largest_allocation{0};

namespace {

void* allocate(std::size_t n) {
  for (std::size_t most = largest_allocation; n > most;) {
    if (largest_allocation.compare_exchange_weak(most, n)) {
      break;
    }
  }
  void* const memory = std::malloc(n == 0 ? 1 : n);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

// This program has a file of its own, so that these replace the operators of no other test.
void* operator new(std::size_t n) { return allocate(n); }
void* operator new[](std::size_t n) { return allocate(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace cfck::spectral {
namespace {

TEST(SpectralHostile, TheSoundOnesDecode) {
  const auto values_of = [](const Parts& parts) {
    Chunk chunk = chunk_of();
    const auto done = decode(chunk, parts.payload());
    EXPECT_TRUE(done) << done.error().to_string();
    return chunk.values;
  };
  EXPECT_EQ(values_of(Parts()), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(values_of(low_bits()), (std::vector<float>{4, 7, 1}));
  EXPECT_EQ(values_of(escape_and_exact()), (std::vector<float>{50, 7, -2}));
  EXPECT_EQ(values_of(by_bin()), (std::vector<float>{0, 0.5, 1}));
}

TEST(SpectralHostile, Modes) {
  expect_refused(chunk_of(), {}, ErrorCode::kTruncated);
  for (const unsigned mode : {6u, 7u, 128u, 255u}) {
    Parts parts;
    parts.mode = mode;
    expect_refused(parts);
  }
  Parts preamble;  // that is not there
  preamble.mode = 5;
  preamble.parameters = {};
  expect_refused(preamble);
}

TEST(SpectralHostile, DtypesAndStages) {
  Chunk chunk = chunk_of();
  chunk.info.entropy = EntropyId::kNone;
  expect_refused(chunk, Parts().payload(), ErrorCode::kUnsupported);
  chunk.info.entropy = static_cast<EntropyId>(77);
  expect_refused(chunk, Parts().payload(), ErrorCode::kUnsupported);
  Chunk integers = chunk_of();
  integers.info.dtype = DType::kI32;
  const auto done = decode(integers, Parts().payload());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kUnsupported);
}

TEST(SpectralHostile, Parameters) {
  for (const unsigned flags : {3u, 24u, 32u, 16u, 40u, 128u, 255u}) {
    expect_parameters_refused(flags, 0.5, list({3}), list({1, 0, 0, 1, 0}));
  }
  for (const double step :
       {0.0, -0.0, -1.0, -5e-324, std::numeric_limits<double>::infinity(), std::nan(""),
        -std::numeric_limits<double>::infinity(), -std::nan("")}) {
    expect_parameters_refused(0, step, list({3}));
  }
  expect_parameters_refused(0, 0.5, list({0}));
  expect_parameters_refused(0, 0.5, list({65}));
  expect_parameters_refused(0, 0.5, list({255}));
  expect_parameters_refused(0, 0.5, list({1, 1, 1, 3}));
  expect_parameters_refused(0, 0.5, list({2, 64, 64}));
  expect_parameters_refused(0, 0.5, Bytes(255, std::byte{64}));
  Parts cut;
  cut.parameters = list({0, 0, 0, 0, 0, 0, 0, 0, 0x3f, 255, 1});
  expect_refused(chunk_of(), joined({list({4}), cut.parameters}), ErrorCode::kTruncated);
}

TEST(SpectralHostile, Fields) {
  for (const unsigned flag : {0u, 8u, 128u, 255u}) {
    expect_parameters_refused(kByBin, 0.5, list({3}), list({flag, 0, 0, 1, 0}));
  }
  expect_parameters_refused(kByBin, 0.5, list({3}), list({1, 0, 16, 1, 0}));
  expect_parameters_refused(kByBin, 0.5, list({3}), list({1, 0, 0, 1, 0x08}));
  expect_parameters_refused(kByBin, 0.5, list({3}), list({1, 0, 0, 1, 0xff}));
  expect_parameters_refused(kByBin, 0.5, list({3}), list({1, 0, 0, 0}));
  expect_parameters_refused(kByBin, 0.5, list({3}), list({1, 0, 0, 2, 0, 0}));
  expect_parameters_refused(kSteps, 0.5, list({3}), list({1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}),
                            ErrorCode::kTruncated);
  expect_parameters_refused(kSteps, 0.5, list({3}),
                            list({1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 1, 0}));
}

// Rows and columns by the trillion in a tensor that a file may well declare.
TEST(SpectralHostile, FieldsOfLargeTensors) {
  const std::uint64_t tall[] = {std::uint64_t{1} << 58, 1, 3};
  const std::uint64_t wide[] = {1, std::uint64_t{1} << 58, 3};
  const std::uint64_t line[] = {(std::uint64_t{1} << 62) - 1};
  for (const unsigned part : {2u, 4u, 6u, 7u}) {
    Parts parts;
    parts.parameters = parameters(kByBin, 0.5, list({3}), list({part, 0, 0, 1, 0}));
    expect_refused(chunk_of(part == 4 ? wide : tall), parts.payload());
  }
  Parts columns;
  columns.parameters = parameters(kSteps, 0.5, {}, list({4, 0, 0, 1, 0}));
  expect_refused(chunk_of(line), columns.payload());
  // Without them such a tensor is as good as any.
  for (const std::span<const std::uint64_t> shape :
       {std::span<const std::uint64_t>(tall), std::span<const std::uint64_t>(wide)}) {
    Chunk chunk = chunk_of(shape);
    largest_allocation = 0;
    EXPECT_TRUE(decode(chunk, by_bin().payload()));
    EXPECT_LE(largest_allocation, std::size_t{4} << 20);
  }
  const std::uint64_t blocks[] = {64, 64, 3};
  Parts bands;  // 4096 of them, a bit each
  Bytes vector = joined({list({1, 70, 0}), number(512), Bytes(512)});
  bands.parameters = parameters(kByBin, 0.5, list({64, 64, 1}), vector);
  bands.first_bin = {};
  bands.length = number(0);
  bands.splits = {};
  bands.symbols = frame(list({16, 17, 18}));
  Chunk chunk = chunk_of(blocks);
  EXPECT_TRUE(decode(chunk, bands.payload()));
}

TEST(SpectralHostile, HeaderCounts) {
  for (const unsigned flags : {32u, 64u, 128u, 0xe0u}) {
    Parts parts;
    parts.flags = flags;
    expect_refused(parts);
  }
  for (const std::uint32_t first_bin : {126u, 154u, 1000u, kMax}) {
    Parts parts;
    parts.first_bin = number(first_bin);
    expect_refused(parts);
  }
  for (const std::uint32_t count : {0u, 4u, 100u, kMax}) {
    for (const unsigned flag : {0u, 1u, 2u, 3u, 4u}) {
      Parts parts;
      parts.flags = 1u << flag;
      const bool is_pair = flag < 2;
      parts.counts = is_pair ? joined({number(count), number(count)}) : number(count);
      expect_refused(parts, count == 0 || count == kMax ? ErrorCode::kCorrupt : kEither);
      if (is_pair) {
        parts.counts = joined({number(1), number(count)});
        expect_refused(parts, count == 0 || count == kMax ? ErrorCode::kCorrupt : kEither);
        parts.counts = joined({number(count), number(1)});
        expect_refused(parts, count == 0 || count == kMax ? ErrorCode::kCorrupt : kEither);
      }
    }
  }
  for (const std::uint32_t length : {196u, 1000u, kMax}) {
    Parts parts;
    parts.length = number(length);
    expect_refused(parts);
  }
  Parts long_number;
  long_number.length = list({0x81, 0});
  expect_refused(long_number);
  Parts longer_number;
  longer_number.length = list({0xff, 0xff, 0xff, 0xff, 0x7f});
  expect_refused(longer_number);
  Parts escapes_of_bins = by_bin();
  escapes_of_bins.flags = 4;
  escapes_of_bins.counts = number(1);
  escapes_of_bins.sections = list({35, 0});
  expect_refused(escapes_of_bins);
}

TEST(SpectralHostile, PathAndRawBits) {
  for (const auto& [flags, counts, sections, raw] :
       {std::tuple<unsigned, Bytes, Bytes, Bytes>{8, list({1}), {}, list({2})},  // no parity bits
        {16, list({1}), list({6}), {}},                                          // no raw bits
        {24, list({1, 2}), list({6}), list({2, 0})},
        {24, list({2, 1}), list({6, 0}), list({2})}}) {
    Parts parts = low_bits();
    parts.flags = flags;
    parts.counts = counts;
    parts.sections = sections;
    parts.raw = raw;
    expect_refused(parts);
  }
  Parts unneeded;  // bin 35 has neither
  unneeded.flags = 16;
  unneeded.counts = number(1);
  unneeded.sections = list({0});
  expect_refused(unneeded);
}

TEST(SpectralHostile, EscapesAndExactValues) {
  for (const auto& symbols : {list({0, 0, 0, 14}), list({0, 16, 16, 14})}) {
    Parts parts = escape_and_exact();
    parts.symbols = frame(symbols);
    expect_refused(parts);  // two escapes, and none
  }
  const Bytes exact = list({0, 0, 0xe0, 0x40});
  for (const unsigned gap : {3u, 4u, 127u}) {
    Parts parts = escape_and_exact();
    parts.sections = joined({number(200), number(gap), exact});
    expect_refused(parts);
  }
  Parts gaps = escape_and_exact();  // two of them, beyond 64 bits' wildest dreams
  gaps.counts = joined({number(2), number(10), number(1), number(2)});
  gaps.sections = joined({number(200), number(kMax), number(kMax), exact, exact});
  expect_refused(gaps);
  Parts second = escape_and_exact();  // the second one past the chunk
  second.counts = joined({number(2), number(2), number(1), number(2)});
  second.sections = joined({number(200), number(2), number(0), exact, exact});
  expect_refused(second);
  Parts left_over = escape_and_exact();
  left_over.counts = list({1, 2, 1, 2});
  left_over.sections = joined({number(200), number(1), number(0), exact});
  expect_refused(left_over);
  Parts indices_left_over = escape_and_exact();
  indices_left_over.counts = list({1, 1, 1, 3});
  indices_left_over.sections = joined({number(200), number(0), number(1), exact});
  expect_refused(indices_left_over);
  Parts long_code = escape_and_exact();
  long_code.counts = list({1, 1, 1, 5});
  long_code.sections = joined({list({0xff, 0xff, 0xff, 0xff, 0x1f}), number(1), exact});
  expect_refused(long_code);
  Parts largest = escape_and_exact();  // a level of -2^31 is one
  largest.counts = list({1, 1, 1, 5});
  largest.sections = joined({number(kMax), number(1), exact});
  Chunk chunk = chunk_of();
  EXPECT_TRUE(decode(chunk, largest.payload()));
  EXPECT_EQ(chunk.values[0], -0x1p30f);
}

TEST(SpectralHostile, BinsAndSymbols) {
  for (const Bytes& symbols :
       {list({32, 16, 17, 18}), list({255, 16, 17, 18}), list({31, 16, 17, 18}),
        list({0, 32, 16, 16}), list({0, 16, 255, 16}), list({0, 16, 17}), list({0}), Bytes(),
        list({0, 16, 17, 18, 16}), list({30, 16, 17, 18})}) {
    Parts parts;
    parts.symbols = frame(symbols);
    expect_refused(parts);
  }
  for (const unsigned first_bin : {0u, 125u}) {  // out of range by the symbol
    Parts parts;
    parts.first_bin = number(first_bin);
    parts.symbols = frame(list({first_bin == 0 ? 0u : 2u, 16, 17, 18}));
    expect_refused(parts);
  }
  for (const unsigned value : {0u, 126u, 0xffffu}) {
    Parts parts;
    parts.flags = 4;
    parts.counts = number(1);
    parts.sections = list({value & 255, value >> 8});
    parts.symbols = frame(list({31, 16, 17, 18}));
    expect_refused(parts);
  }
}

TEST(SpectralHostile, SplitsAndFrames) {
  for (const Bytes& splits :
       {number(4), number(2), number(kMax), joined({number(3), number(0)}), Bytes()}) {
    Parts parts;
    parts.length = number(static_cast<std::uint32_t>(splits.size()));
    parts.splits = splits;
    expect_refused(parts, splits.empty() ? ErrorCode::kTruncated : ErrorCode::kCorrupt);
  }
  Parts sound;
  for (const std::uint32_t stated : {3u, 5u, 0x7fffffffu, kMax}) {
    sound.symbols = frame(list({0, 16, 17, 18}), stated);
    expect_refused(sound);
  }
  sound.symbols = {};
  Chunk chunk = chunk_of();
  EXPECT_FALSE(decode(chunk, sound.payload()));
  sound.symbols = list({0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 0, 16, 17, 18});  // skippable
  expect_refused(sound);
  sound.symbols = joined({frame(list({0, 16, 17, 18})), frame({})});
  expect_refused(sound);
}

TEST(SpectralHostile, ChunksThatCutBlocks) {
  const std::uint64_t shape[] = {9, 5};
  Parts parts = by_bin();
  parts.parameters = parameters(kByBin | kTransforms, 0.5, list({4, 4}), list({1, 70, 0, 2, 0, 0}));
  const auto refuses = [&](std::uint64_t first, std::uint64_t n) {
    Chunk chunk = chunk_of(shape, n);
    chunk.info.first_elem = first;
    parts.symbols = frame(Bytes(n, std::byte{16}));
    const auto done = decode(chunk, parts.payload());
    EXPECT_TRUE(done || (done.error().code == ErrorCode::kCorrupt && done.error().byte_offset));
    return !done;
  };
  EXPECT_FALSE(refuses(0, 45));
  EXPECT_FALSE(refuses(20, 25));
  EXPECT_TRUE(refuses(0, 25));  // part of a block along axis 0
  EXPECT_TRUE(refuses(5, 20));  // begins within one
  EXPECT_TRUE(refuses(0, 19));  // part of a row
  EXPECT_TRUE(refuses(1, 20));
  EXPECT_TRUE(refuses(44, 1));
}

TEST(SpectralHostile, LanesThatEndTooSoon) {
  Chunk chunk = chunk_of();
  chunk.info.entropy = EntropyId::kRans;
  Parts parts;
  parts.splits = {};
  parts.symbols = {};
  for (const unsigned n : {0u, 1u, 2u, 3u, 40u}) {
    parts.length = number(n);
    for (const unsigned fill : {0u, 1u, 0x0fu, 0xffu}) {
      parts.sections = Bytes(n, static_cast<std::byte>(fill));
      const auto done = decode(chunk, parts.payload());
      ASSERT_FALSE(done);
      EXPECT_TRUE(done.error().byte_offset.has_value());
    }
  }
  parts.length = number(50);
  parts.sections = Bytes(49);
  expect_refused(chunk, parts.payload(), ErrorCode::kTruncated);
  parts.sections = Bytes(51);
  expect_refused(chunk, parts.payload());
  parts.length = number(kMax);
  expect_refused(chunk, parts.payload());
}

TEST(SpectralHostile, EveryPrefix) {
  for (const Parts& parts :
       {Parts(), low_bits(), escape_and_exact(), by_bin(), row_blocks(list({3}), 3)}) {
    const Bytes payload = parts.payload();
    for (std::size_t n = 0; n < payload.size(); ++n) {
      Chunk chunk = chunk_of();
      const auto done =
          decode(chunk, Bytes(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(n)));
      ASSERT_FALSE(done) << n;
      EXPECT_TRUE(done.error().byte_offset.has_value()) << n << done.error().to_string();
    }
  }
}

}  // namespace
}  // namespace cfck::spectral
