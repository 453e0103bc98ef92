// Elements of strided boxes, compared with those that are picked one by one.
#include "interop/stored/gather.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "interop/stored/boxes.hpp"

namespace cfck::test {
namespace {

using interop::StridedBox;

// Notes the longest read.
class WatchedSource final : public ByteSource {
 public:
  explicit WatchedSource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    longest_bytes = std::max<std::uint64_t>(longest_bytes, out.size());
    return MemorySource(bytes_).read_at(offset_bytes, out);
  }
  ByteView bytes() const { return bytes_; }

  mutable std::uint64_t longest_bytes = 0;

 private:
  std::vector<std::byte> bytes_;
};

WatchedSource random_source(std::size_t n_bytes) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(n_bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return WatchedSource(std::move(bytes));
}

std::vector<std::byte> picked(const WatchedSource& source, const StridedBox& box) {
  std::uint64_t n_elems = 1;
  for (const std::uint64_t dim : box.shape) n_elems *= dim;
  std::vector<std::byte> out;
  for (std::uint64_t i = 0; i < n_elems; ++i) {
    std::uint64_t rest = i;
    std::uint64_t at = box.offset_bytes;
    for (std::size_t axis = box.shape.size(); axis-- > 0;) {
      at += rest % box.shape[axis] * box.strides[axis] * box.elem_bytes;
      rest /= box.shape[axis];
    }
    const ByteView elem = source.bytes().subspan(at, box.elem_bytes);
    out.insert(out.end(), elem.begin(), elem.end());
  }
  return out;
}

void expect_gathered(const WatchedSource& source, const StridedBox& box) {
  const std::vector<std::byte> expected = picked(source, box);
  std::vector<std::byte> out(expected.size());
  ASSERT_TRUE(gather(source, box, out));
  EXPECT_TRUE(out == expected);
}

TEST(Gather, BoxesOfManyForms) {
  const WatchedSource source = random_source(40'000'000);
  for (const std::uint64_t elem_bytes : {1, 2, 4, 8}) {
    expect_gathered(source, {3 * elem_bytes, {}, {}, elem_bytes});
    expect_gathered(source, {0, {5}, {0}, elem_bytes});
    expect_gathered(source, {16, {7, 9}, {1, 7}, elem_bytes});
    expect_gathered(source, {16, {7, 9, 4}, {1, 300, 7}, elem_bytes});
    expect_gathered(source, {8, {3, 1, 2}, {11, 5, 0}, elem_bytes});
    expect_gathered(source, {8, {2, 0, 2}, {11, 5, 0}, elem_bytes});
  }
  EXPECT_LE(source.longest_bytes, 1U << 20);
}

TEST(Gather, ReadsLittleAtATime) {
  // A matrix of 2000 x 4000 floats, column-major: all of it, a few rows, a few columns.
  const WatchedSource source = random_source(32'000'000);
  expect_gathered(source, {0, {2000, 4000}, {1, 2000}, 4});
  expect_gathered(source, {400, {30, 4000}, {1, 2000}, 4});
  expect_gathered(source, {8000, {2000, 3}, {1, 2000}, 4});
  // Single elements, far from each other.
  expect_gathered(source, {0, {4, 4}, {899'999, 1'499'999}, 4});
  EXPECT_LE(source.longest_bytes, 8U << 20);
}

TEST(Boxes, MakeUpRangesOfElements) {
  const std::vector<Shape> shapes = {{}, {9}, {3, 5}, {2, 3, 4}, {2, 1, 3, 2}};
  for (const Shape& shape : shapes) {
    std::uint64_t n_elems = 1;
    for (const std::uint64_t dim : shape) n_elems *= dim;
    for (std::uint64_t first = 0; first < n_elems; ++first) {
      for (std::uint64_t n = 1; first + n <= n_elems; ++n) {
        std::vector<std::uint64_t> found;
        const auto boxes = interop::boxes_of(shape, first, n);
        EXPECT_LE(boxes.size(), 2 * shape.size() + 1);
        for (const interop::Box& box : boxes) {
          for (std::uint64_t i = 0; i < n_elems; ++i) {
            std::uint64_t rest = i;
            bool inside = true;
            for (std::size_t axis = shape.size(); axis-- > 0;) {
              const std::uint64_t index = rest % shape[axis];
              rest /= shape[axis];
              inside = inside && index >= box.starts[axis] && index < box.stops[axis];
            }
            if (inside) found.push_back(i);
          }
        }
        ASSERT_EQ(found.size(), n);
        for (std::uint64_t i = 0; i < n; ++i) ASSERT_EQ(found[i], first + i);
      }
    }
  }
}

}  // namespace
}  // namespace cfck::test
