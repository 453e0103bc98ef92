// Chunks that are decoded, changed in part and encoded again, as libhdf5 does it, without HDF5:
// promises hold for what was written, however often that comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "hdf5/filter/chunk_choice.hpp"
#include "hdf5/filter/chunk_codec.hpp"
#include "hdf5/filter/rungs.hpp"
#include "tests/hdf5/filter/written_values.hpp"

namespace cfck::hdf5 {
namespace {

FilterRequest request_of(Mode mode, double value, double max_abs_error = 0) {
  FilterRequest request;
  request.mode = mode;
  request.value = value;
  request.max_abs_error = max_abs_error;
  return request;
}

// A chunk between two writes.
class Chunk {
 public:
  Chunk(DType dtype, const FilterRequest& request, double fill)
      : request_(request),
        described_{dtype, false, bits_of(dtype, fill), {kRows, kColumns}},
        bytes_(hdf5::bytes_of(dtype, std::vector<double>(kRows * kColumns, fill))) {}

  void write(const Part& part) {
    const std::vector<std::byte> fresh = bytes_of(described_.dtype, part.values);
    const std::size_t value_bytes = fresh.size() / part.values.size();
    for (std::size_t row = 0; row < part.n_rows; ++row) {
      std::memcpy(
          bytes_.data() + ((part.first_row + row) * kColumns + part.first_column) * value_bytes,
          fresh.data() + row * part.n_columns * value_bytes, part.n_columns * value_bytes);
    }
    encode_and_decode();
  }
  void encode_and_decode() {
    const auto stored = store_chunk(request_, described_, bytes_, memory_);
    ASSERT_TRUE(stored) << stored.error().message;
    std::vector<std::byte> chunk = stored->header;
    chunk.insert(chunk.end(), stored->payload.begin(), stored->payload.end());
    n_stored_ = chunk.size();
    ASSERT_TRUE(check_stored(described_, chunk));
    ASSERT_TRUE(load_chunk(described_, chunk, memory_, bytes_));
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<double> values() const { return values_of(described_.dtype, bytes_); }
  std::size_t n_stored() const { return n_stored_; }

 private:
  const FilterRequest request_;
  const ChunkValues described_;
  std::vector<std::byte> bytes_;
  std::size_t n_stored_ = 0;
  ChunkMemory memory_;
};

std::vector<FilterRequest> requests() {
  FilterRequest direct = request_of(Mode::kMaxRelError, 1e-2);
  direct.options.codec = CodecChoice::kDirect;
  FilterRequest archived = request_of(Mode::kMaxAbsError, 3e-3);
  archived.level = EncodeLevel::kArchive;
  FilterRequest spectral = request_of(Mode::kMaxAbsError, 1e-2);  // of an older plug-in
  spectral.options.codec = CodecChoice::kSpectral;
  return {request_of(Mode::kMaxAbsError, 1e-3),
          request_of(Mode::kMaxAbsError, 0.7),
          archived,
          spectral,
          request_of(Mode::kMaxRelError, 1e-3),
          request_of(Mode::kMaxRelError, 0.3),
          direct,
          request_of(Mode::kNmse, 1e-4),
          request_of(Mode::kNmse, 0.1),
          request_of(Mode::kNmse, 1e-3, 0.02),
          request_of(Mode::kBitsPerWeight, 3),
          request_of(Mode::kBitsPerWeight, 4, 0.5)};
}

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

TEST(Hdf5RewrittenChunk, PromisesAreKeptForWhatWasWrittenLast) {
  std::mt19937_64 random(1);
  for (const DType dtype : kTypes) {
    for (const FilterRequest& request : requests()) {
      for (const double fill : {0.0, -999.0, std::numeric_limits<double>::quiet_NaN()}) {
        const double rounded_fill = values_of(dtype, bytes_of(dtype, {fill})).front();
        WrittenValues written(dtype, request, rounded_fill);
        Chunk chunk(dtype, request, rounded_fill);
        for (int round = 0; round < 6; ++round) {
          const Part part = written.random_part(random);
          written.write(part);
          ASSERT_NO_FATAL_FAILURE(chunk.write(part));
          ASSERT_EQ(written.problem_of(chunk.values()), "")
              << dtype_name(dtype) << ", mode " << static_cast<int>(request.mode) << ", "
              << request.value << ", fill " << fill << ", round " << round;
        }
      }
    }
  }
}

TEST(Hdf5RewrittenChunk, NothingChangesWithoutAWrite) {
  std::mt19937_64 random(2);
  for (const DType dtype : kTypes) {
    for (const FilterRequest& request : requests()) {
      WrittenValues written(dtype, request, 0);
      Chunk chunk(dtype, request, 0);
      for (int round = 0; round < 3; ++round) {
        const Part part = written.random_part(random);
        written.write(part);
        ASSERT_NO_FATAL_FAILURE(chunk.write(part));
      }
      for (int i = 0; i < 4; ++i) {
        ASSERT_NO_FATAL_FAILURE(chunk.encode_and_decode());
        ASSERT_EQ(written.problem_of(chunk.values()), "");
      }
      if (request.mode == Mode::kMaxAbsError) {
        const auto before = chunk.bytes();
        chunk.encode_and_decode();
        EXPECT_EQ(chunk.bytes(), before);
      }
    }
  }
}

// Rows that are appended one by one lose what they lose when they are written at once.
TEST(Hdf5RewrittenChunk, RatesCostAppendedRowsNoMoreThanAllAtOnce) {
  for (const double rate : {2.0, 3.0, 5.0}) {
    const FilterRequest request = request_of(Mode::kBitsPerWeight, rate);
    std::mt19937_64 random(3);
    WrittenValues written(DType::kF32, request, 0);
    Chunk appended(DType::kF32, request, 0);
    for (std::size_t row = 0; row < kRows; row += 2) {
      const Part part = written.rows(random, row, 2);
      written.write(part);
      ASSERT_NO_FATAL_FAILURE(appended.write(part));
    }
    Chunk at_once(DType::kF32, request, 0);
    ASSERT_NO_FATAL_FAILURE(at_once.write({0, kRows, 0, kColumns, written.values()}));
    EXPECT_LE(appended.n_stored() * 8.0, rate * kRows * kColumns);
    double errors[2] = {};
    for (std::size_t i = 0; i < kRows * kColumns; ++i) {
      errors[0] += std::pow(appended.values()[i] - written.values()[i], 2);
      errors[1] += std::pow(at_once.values()[i] - written.values()[i], 2);
    }
    EXPECT_LE(errors[0], errors[1] * 1.0001) << rate;
  }
}

TEST(Hdf5RewrittenChunk, CodecSpectralIsRefusedUnlessChunksAreWrittenOnce) {
  const ChunkValues values{DType::kF32, false, 0, {64, 64}};
  FilterRequest spectral = request_of(Mode::kMaxAbsError, 1e-3);
  spectral.options.codec = CodecChoice::kSpectral;
  FilterRequest trellis = request_of(Mode::kNmse, 1e-3);
  trellis.options.trellis_states = 8;
  FilterRequest blocks = request_of(Mode::kNmse, 1e-3);
  blocks.options.block = {8, 8};
  for (FilterRequest& request : {std::ref(spectral), std::ref(trellis), std::ref(blocks)}) {
    EXPECT_TRUE(check_request(request, values));  // of an older plug-in
    const auto checked = check_new_request(request);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(checked.error().message.find("written_once"), std::string::npos);
    request.is_written_once = true;
    EXPECT_TRUE(check_new_request(request));
  }
  for (const FilterRequest& request : requests()) {
    EXPECT_EQ(check_new_request(request).has_value(),
              request.options.codec != CodecChoice::kSpectral);
  }
}

TEST(Hdf5Rungs, AreWithinTheBound) {
  for (const DType dtype : kTypes) {
    for (int exponent = -40; exponent < 40; ++exponent) {
      const double bound = std::ldexp(1.3, exponent);
      for (const double largest : {0.1, 1.0, 60000.0}) {
        const auto number = rung_within(dtype, bound, largest);
        if (number) {
          EXPECT_LT(rung(*number), bound);
          EXPECT_GE(*number, finest_rung(dtype, largest));
          EXPECT_GT(rung(coarsest_rung(largest)), largest);
        } else {
          EXPECT_LT(bound, 2 * std::ldexp(largest, -7));
        }
      }
    }
  }
  EXPECT_EQ(rung(0), 1.0);
  EXPECT_EQ(rung(2), 9.0);
  EXPECT_FALSE(rung_within(DType::kF32, 1e-9, 1));
}

}  // namespace
}  // namespace cfck::hdf5
