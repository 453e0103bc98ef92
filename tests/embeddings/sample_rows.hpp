// Batches of rows for the tests of packets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "cfck/embeddings.hpp"
#include "codec/common/float_values.hpp"

namespace cfck::test {

struct Rows {
  DType dtype = DType::kF32;
  std::uint32_t n_rows = 0;
  std::uint32_t row_elems = 0;
  std::vector<std::byte> values;
  double max_abs_error = 0;
  std::vector<std::int64_t> keys = {};

  RowBatch view() const { return {dtype, n_rows, row_elems, values, max_abs_error, keys}; }
};

inline std::size_t bytes_of_value(DType dtype) { return bits_per_element(dtype) / 8; }

// Rounds floats to a dtype.
inline std::vector<std::byte> as_dtype(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * bytes_of_value(dtype));
  const auto fill = [&](auto value) {
    using Value = decltype(value);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const typename Value::Word word = Value::from_double(values[i]);
      std::memcpy(bytes.data() + i * sizeof(word), &word, sizeof(word));
    }
  };
  dtype == DType::kF16    ? fill(codec::ValueF16())
  : dtype == DType::kBF16 ? fill(codec::ValueBf16())
                          : fill(codec::ValueF32());
  return bytes;
}

inline std::vector<double> as_doubles(std::span<const std::byte> bytes, DType dtype) {
  std::vector<double> values(bytes.size() / bytes_of_value(dtype));
  const auto fill = [&](auto value) {
    using Value = decltype(value);
    for (std::size_t i = 0; i < values.size(); ++i) {
      typename Value::Word word;
      std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
      values[i] = Value::to_double(word);
    }
  };
  dtype == DType::kF16    ? fill(codec::ValueF16())
  : dtype == DType::kBF16 ? fill(codec::ValueBf16())
                          : fill(codec::ValueF32());
  return values;
}

// Rows `ids` of a table of random values.
inline Rows looked_up(std::span<const std::uint32_t> ids, std::uint32_t row_elems, unsigned seed,
                      double max_abs_error = 0, DType dtype = DType::kF32) {
  std::uint32_t n_table = 0;
  for (const std::uint32_t id : ids) n_table = std::max(n_table, id + 1);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.1F);
  std::vector<float> table(std::size_t{n_table} * row_elems);
  for (float& value : table) value = normal(random);
  std::vector<float> values;
  for (const std::uint32_t id : ids) {
    const auto row = table.begin() + std::ptrdiff_t{id} * row_elems;
    values.insert(values.end(), row, row + row_elems);
  }
  return {dtype, static_cast<std::uint32_t>(ids.size()), row_elems, as_dtype(values, dtype),
          max_abs_error};
}

// Ids below n_ids, low ones more often.
inline std::vector<std::uint32_t> popular_ids(std::size_t n, std::uint32_t n_ids, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform;
  std::vector<std::uint32_t> ids(n);
  for (std::uint32_t& id : ids) {
    id = static_cast<std::uint32_t>(n_ids * std::pow(uniform(random), 3.0));
  }
  return ids;
}

inline std::vector<RowBatch> views_of(std::span<const Rows> batches) {
  std::vector<RowBatch> views;
  for (const Rows& batch : batches) views.push_back(batch.view());
  return views;
}

inline Result<std::vector<std::byte>> encode(std::span<const Rows> batches,
                                             const RowPacketOptions& options = {}) {
  const std::vector<RowBatch> views = views_of(batches);
  CFCK_TRY_ASSIGN(const std::uint64_t most, max_row_packet_bytes(views));
  std::vector<std::byte> packet(most);
  RowWorkspace workspace;
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, encode_rows(views, options, packet, workspace));
  packet.resize(n_bytes);
  return packet;
}

// Every byte that is saved counts.
inline RowPacketOptions slow_network() {
  RowPacketOptions options;
  options.bytes_per_second = 1e6;
  return options;
}

using Decoded = std::vector<std::vector<std::byte>>;

// Decodes into memory of the sizes that the packet says, with the keys of `batches`.
inline Result<Decoded> decode(ByteView packet, std::span<const Rows> batches) {
  Decoded decoded;
  std::vector<DecodedRows> rooms;
  for (const Rows& batch : batches) {
    decoded.emplace_back(batch.values.size(), std::byte{0xa5});
    rooms.push_back({decoded.back(), batch.keys});
  }
  RowWorkspace workspace;
  CFCK_TRY(decode_rows(packet, rooms, workspace));
  return decoded;
}

// Encodes and decodes; all bits of batches without an error, and of rows with values that are not
// finite, stay, and all other values are within it. Returns the packet.
inline std::vector<std::byte> expect_round_trip(std::span<const Rows> batches,
                                                const RowPacketOptions& options = {}) {
  const auto packet = encode(batches, options);
  EXPECT_TRUE(packet) << packet.error().message;
  const auto decoded = decode(*packet, batches);
  EXPECT_TRUE(decoded) << decoded.error().message;
  if (!decoded) return {};
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const Rows& batch = batches[b];
    if (batch.max_abs_error == 0) {
      EXPECT_EQ((*decoded)[b], batch.values) << b;
      continue;
    }
    const auto expected = as_doubles(batch.values, batch.dtype);
    const auto found = as_doubles((*decoded)[b], batch.dtype);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isfinite(expected[i])) {
        EXPECT_LE(std::abs(found[i] - expected[i]), batch.max_abs_error) << b << ' ' << i;
      } else {
        const std::size_t n = bytes_of_value(batch.dtype);
        EXPECT_EQ(std::memcmp((*decoded)[b].data() + i * n, batch.values.data() + i * n, n), 0);
      }
    }
  }
  return *packet;
}

}  // namespace cfck::test
