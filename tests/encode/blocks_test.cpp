// Blocks of codec spectral, and the chunks that hold them.
#include <cmath>

#include "tests/support/file_quality.hpp"

namespace cfck::test {
namespace {

// Slow waves along axis 0: rows are alike.
std::vector<float> waves(std::size_t rows, std::size_t columns) {
  std::vector<float> values = bell(11, rows * columns, 0.02);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<double>(i / columns);
    const auto column = static_cast<double>(i % columns);
    values[i] += static_cast<float>(std::sin(row / (20 + column) + column));
  }
  return values;
}

TEST(Blocks, ChunksOfARecordHoldWholeOnes) {
  const std::vector<Named> tensors = {{"waves", {1000, 300}, bytes_from(waves(1000, 300))}};
  EncodeOptions options = small_chunks();  // of 218 rows
  options.nmse = 0.01;
  options.block = {1};
  const OpenFile plain(write_all(tensors, options).file);
  struct Case {
    std::vector<std::uint8_t> block;
    std::uint64_t chunk_rows;
  };
  for (const auto& [block, chunk_rows] :
       {Case{{}, 192}, {{64, 1}, 192}, {{50, 1}, 200}, {{8, 8}, 216}, {{16}, 218}}) {
    options.block = block;
    const OpenFile file(write_all(tensors, options).file);
    const Record& record = file.record("waves");
    EXPECT_EQ(record.codec, CodecId::kSpectral);
    EXPECT_EQ(record.chunk_elems, chunk_rows * 300);
    EXPECT_GT(record.n_chunks, 1u);
    const double nmse = quality_of(file, tensors, {"waves"}).nmse();
    EXPECT_LE(nmse, 0.01 * (1 + 1e-12));
    if (block.size() != 1) {
      EXPECT_LT(record.stored_bytes, plain.record("waves").stored_bytes * 3 / 4)
          << testing::PrintToString(block);
    }
    expect_sound(file.reader());
  }
}

TEST(Blocks, LongerThanAChunkMakeItLonger) {
  const std::vector<Named> tensors = {{"waves", {256, 2000}, bytes_from(waves(256, 2000))}};
  EncodeOptions options = small_chunks();  // of 32 rows
  options.nmse = 0.01;
  const OpenFile by_itself(write_all(tensors, options).file);
  EXPECT_EQ(by_itself.record("waves").chunk_elems, 32 * 2000u);
  options.block = {64, 1};
  const OpenFile file(write_all(tensors, options).file);
  EXPECT_EQ(file.record("waves").chunk_elems, 64 * 2000u);
  EXPECT_LT(file.record("waves").stored_bytes, by_itself.record("waves").stored_bytes);
  expect_sound(file.reader());
}

}  // namespace
}  // namespace cfck::test
