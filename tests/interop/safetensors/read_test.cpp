// Tensors of safetensors files, whole and by parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cfck/safetensors.hpp"
#include "tests/interop/safetensors/safetensors_file.hpp"

namespace cfck {
namespace {

using test::entry;
using test::safetensors_file;
using Bounds = std::vector<std::uint64_t>;

// "c" [7,50,9] of U16 that count up, and "n" [3] of F4 pairs, "e" without elements.
std::vector<std::byte> sample() {
  std::string data(2 * 7 * 50 * 9, '\0');
  for (std::size_t i = 0; i < data.size() / 2; ++i) {
    const auto value = static_cast<std::uint16_t>(i);
    std::memcpy(data.data() + 2 * i, &value, 2);
  }
  return safetensors_file("{" + entry("c", "U16", "[7,50,9]", "[0,6300]") + "," +
                              entry("n", "F4", "[2,2]", "[6300,6302]") + "," +
                              entry("e", "F32", "[0,4]", "[6302,6302]") + "}",
                          data + "xy");
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ReadSafetensors, WholeTensorsOnAnyNumberOfThreads) {
  const auto file = sample();
  const MemorySource source(file);
  const auto header = read_safetensors_header(source);
  ASSERT_TRUE(header);
  for (const unsigned threads : {1U, 3U}) {
    std::vector<std::byte> c(6300);
    std::vector<std::byte> n(2);
    const SafetensorsRead reads[] = {
        {&header->entries[1], n}, {&header->entries[2], {}}, {&header->entries[0], c}};
    std::uint64_t done = 0;
    const auto progress = [&](std::uint64_t done_bytes, std::string_view) {
      done = std::max(done, done_bytes);
      return true;
    };
    ASSERT_TRUE(read_safetensors(source, reads, progress, threads));
    EXPECT_EQ(done, 6302U);
    EXPECT_EQ(text_of(c) + text_of(n), text_of(std::span(file).last(6302)));
    const auto stop = [](std::uint64_t, std::string_view) { return false; };
    EXPECT_FALSE(read_safetensors(source, reads, stop, threads));
  }
  std::vector<std::byte> small(6299);
  const SafetensorsRead wrong[] = {{&header->entries[0], small}};
  const auto refused = read_safetensors(source, wrong);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().record, "c");
}

TEST(ReadSafetensors, EveryBox) {
  const auto file = sample();
  const MemorySource source(file);
  const auto header = read_safetensors_header(source);
  ASSERT_TRUE(header);
  for (const Bounds& starts : {Bounds{0, 0, 0}, {2, 0, 0}, {0, 3, 0}, {0, 0, 4}, {6, 49, 8}}) {
    for (const Bounds& stops : {Bounds{7, 50, 9}, {6, 50, 9}, {7, 49, 9}, {7, 50, 5}, {2, 3, 4}}) {
      std::vector<std::uint16_t> expected;
      Bounds clipped = stops;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        clipped[axis] = std::max(starts[axis], stops[axis]);
      }
      for (auto i = starts[0]; i < clipped[0]; ++i) {
        for (auto j = starts[1]; j < clipped[1]; ++j) {
          for (auto k = starts[2]; k < clipped[2]; ++k) {
            expected.push_back(static_cast<std::uint16_t>((i * 50 + j) * 9 + k));
          }
        }
      }
      std::vector<std::uint16_t> actual(expected.size());
      const auto read = read_safetensors_slice(source, header->entries[0], starts, clipped,
                                               std::as_writable_bytes(std::span(actual)));
      ASSERT_TRUE(read) << read.error().to_string();
      EXPECT_EQ(actual, expected);
    }
  }
}

TEST(ReadSafetensors, BoxesThatAreRefused) {
  const auto file = sample();
  const MemorySource source(file);
  const auto header = read_safetensors_header(source);
  ASSERT_TRUE(header);
  std::vector<std::byte> out(18);
  const struct {
    Bounds starts;
    Bounds stops;
  } wrong[] = {{{0, 0}, {1, 1}},
               {{0, 0, 0}, {1, 1, 10}},
               {{1, 0, 0}, {0, 1, 9}},
               {{0, 0, 0}, {1, 2, 9}},
               {{0, 0, 0}, {8, 50, 9}}};
  for (const auto& box : wrong) {
    const auto read =
        read_safetensors_slice(source, header->entries[0], box.starts, box.stops, out);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
  const auto part = read_safetensors_slice(source, header->entries[1], Bounds{1, 0}, Bounds{2, 2},
                                           std::span(out).first(1));
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace cfck
