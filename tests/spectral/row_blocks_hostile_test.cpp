// Chunks that say that they are blocks of rows, and are made to do harm.
#include "tests/spectral/spectral_hostile_parts.hpp"

namespace cfck::spectral {
namespace {

TEST(SpectralHostile, RowBlocksInChunksThatAreNotWholeRows) {
  const std::uint64_t matrix[] = {4, 5};
  const std::uint64_t kernels[] = {4, 2, 3};
  const std::uint64_t line[] = {20};
  const auto decodes = [](std::span<const std::uint64_t> shape, const Bytes& sides,
                          std::uint64_t first, std::uint64_t n) {
    Chunk chunk = chunk_of(shape, n);
    chunk.info.first_elem = first;
    const Bytes payload = row_blocks(sides, n).payload();
    largest_allocation = 0;
    const auto done = decode(chunk, payload);
    EXPECT_LE(largest_allocation, std::size_t{4} << 20);
    if (!done) {
      EXPECT_EQ(done.error().code, ErrorCode::kCorrupt);
      EXPECT_EQ(done.error().message,
                "blocks of rows in a chunk that is not whole rows of kernels");
      EXPECT_TRUE(done.error().byte_offset.has_value());
    }
    return static_cast<bool>(done);
  };
  EXPECT_TRUE(decodes(matrix, {}, 0, 20));
  EXPECT_TRUE(decodes(matrix, {}, 5, 15));
  EXPECT_TRUE(decodes(kernels, list({3}), 6, 12));
  EXPECT_FALSE(decodes(line, {}, 0, 20));  // it has no rows
  for (const auto& [first, n] : {std::pair(0u, 4u), {0u, 19u}, {1u, 5u}, {3u, 4u}, {19u, 1u}}) {
    EXPECT_FALSE(decodes(matrix, {}, first, n));
    EXPECT_FALSE(decodes(line, {}, first, n));
  }
  EXPECT_FALSE(decodes(kernels, list({3}), 0, 9));
  EXPECT_FALSE(decodes(kernels, list({3}), 3, 6));
}

TEST(SpectralHostile, RowBlocksOfBlocksThatAreNoKernels) {
  const std::uint64_t matrix[] = {8, 4};
  for (const Bytes& sides : {list({4, 4}), list({1, 4}), list({8, 1}), list({2})}) {
    Chunk chunk = chunk_of(matrix, 32);
    Parts parts = row_blocks(sides, 32);
    unsigned n_bands = 1;
    for (const std::byte side : sides) {
      n_bands *= static_cast<unsigned>(side);
    }
    parts.parameters =  // a column each, all of one bin
        parameters(kRowBlocks, 0.5, sides, joined({list({2, 70, 0, 1, 0})}));
    expect_refused(chunk, parts.payload(), kEither);
    parts.parameters =
        parameters(kRowBlocks | kTransforms, 0.5, sides,
                   joined({list({1, 70, 0}), number((n_bands + 7) / 8), Bytes((n_bands + 7) / 8)}));
    expect_refused(chunk, parts.payload());
  }
  const std::uint64_t deep[] = {2, 2, 3, 3};  // blocks that are part of a kernel
  expect_refused(chunk_of(deep, 36), row_blocks(list({3}), 36).payload());
}

TEST(SpectralHostile, RowBlocksOfNothing) {
  const std::uint64_t shapes[][2] = {{0, 3}, {3, 0}, {0, 0}};
  for (const auto& shape : shapes) {
    Chunk chunk = chunk_of(shape, 3);
    const auto done = decode(chunk, row_blocks({}, 3).payload());
    ASSERT_FALSE(done);
    EXPECT_FALSE(done.error().message.empty());
  }
}

// Without a scale field, or with bins of its own.
TEST(SpectralHostile, RowBlocksWithoutScales) {
  expect_parameters_refused(24, 0.5, list({3}), list({1, 70, 0, 1, 0}));
  Parts bins = row_blocks(list({3}), 3);
  bins.first_bin = number(35);
  expect_refused(bins, kEither);
  Parts escapes = row_blocks(list({3}), 3);
  escapes.flags = 4;
  escapes.counts = number(1);
  escapes.sections = list({35, 0});
  expect_refused(escapes);
  // Scales beyond all bins are those of the ends.
  for (const unsigned high : {0x07u, 0xf8u}) {
    Parts far = row_blocks(list({3}), 3);
    far.parameters = parameters(kRowBlocks, 0.5, list({3}), list({1, 0xff, high, 1, 0}));
    Chunk chunk = chunk_of();
    const auto done = decode(chunk, far.payload());
    EXPECT_TRUE(done || done.error().code == ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace cfck::spectral
