// A packet gives back what went into it, within its error, and what is damaged is refused.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "cfck/gradients.hpp"
#include "gradients/layout.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Sparse {
  std::uint32_t n_elems;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;

  SparseTensor view() const { return {n_elems, indices, values}; }
};

// Values of a tensor with n_elems, one of about `every`, of magnitudes around `scale`.
Sparse sparse(std::uint32_t n_elems, std::uint32_t every, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Sparse made{n_elems, {}, {}};
  for (std::uint32_t i = 0; i < n_elems; ++i) {
    if (random() % every == 0) {
      const float value = normal(random);
      made.indices.push_back(i);
      made.values.push_back(scale * (value + std::copysign(2.0F, value)));
    }
  }
  return made;
}

struct Encoded {
  std::vector<std::byte> packet;
  std::vector<float> decoded;
};

Result<Encoded> encode(const std::vector<Sparse>& tensors, double value_error = 0.1) {
  std::vector<SparseTensor> views;
  std::size_t n_values = 0;
  for (const Sparse& tensor : tensors) {
    views.push_back(tensor.view());
    n_values += tensor.values.size();
  }
  CFCK_TRY_ASSIGN(const std::uint64_t most, max_gradient_packet_bytes(views));
  Encoded encoded{std::vector<std::byte>(most), std::vector<float>(n_values)};
  GradientPacketOptions options;
  options.value_error = value_error;
  GradientWorkspace workspace;
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes,
                  encode_gradients(views, options, encoded.packet, encoded.decoded, workspace));
  encoded.packet.resize(n_bytes);
  return encoded;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i])) << i;
  }
}

// Decodes, and compares with what encoding said; returns the values.
std::vector<float> expect_round_trip(const std::vector<Sparse>& tensors, double value_error) {
  const Encoded encoded = encode(tensors, value_error).value();
  std::vector<SparseShape> shapes;
  std::vector<std::uint32_t> indices;
  for (const Sparse& tensor : tensors) {
    shapes.push_back({tensor.n_elems, static_cast<std::uint32_t>(tensor.values.size())});
    indices.insert(indices.end(), tensor.indices.begin(), tensor.indices.end());
  }
  EXPECT_EQ(gradient_packet_shapes(encoded.packet).value(), shapes);
  std::vector<std::uint32_t> found_indices(indices.size());
  std::vector<float> found(indices.size());
  GradientWorkspace workspace;
  const GuardedBytes packet(encoded.packet);
  EXPECT_TRUE(decode_gradients(packet.bytes(), found_indices, found, workspace));
  EXPECT_EQ(found_indices, indices);
  expect_same_bits(found, encoded.decoded);
  return found;
}

void expect_within(const Sparse& tensor, const std::vector<float>& found, std::size_t at,
                   double value_error) {
  double squares = 0;
  for (const float value : tensor.values) {
    squares += double{value} * value;
  }
  const double rms = std::sqrt(squares / double(tensor.values.size()));
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    EXPECT_LE(std::abs(double{tensor.values[i]} - found[at + i]), value_error * rms * (1 + 1e-7));
  }
}

TEST(GradientPacket, ValuesAreWithinTheError) {
  const std::vector<Sparse> tensors = {sparse(100'000, 100, 1e-3F, 1), sparse(5000, 7, 40, 2),
                                       sparse(1 << 20, 900, 1e-30F, 3)};
  for (const double error : {0.001, 0.1, 0.5}) {
    const std::vector<float> found = expect_round_trip(tensors, error);
    std::size_t at = 0;
    for (const Sparse& tensor : tensors) {
      expect_within(tensor, found, at, error);
      at += tensor.values.size();
    }
  }
}

TEST(GradientPacket, WithoutAnErrorNoBitIsLost) {
  Sparse tensor = sparse(50'000, 20, 0.1F, 4);
  tensor.values[3] = -0.0F;
  tensor.values[4] = 1e-42F;
  expect_same_bits(expect_round_trip({tensor}, 0), tensor.values);
}

TEST(GradientPacket, TinyAndHugeValuesKeepTheBound) {
  for (const float scale : {1e-44F, 1e-38F, 1e-20F, 1e20F, 1e37F}) {
    const Sparse tensor = sparse(20'000, 10, scale, 5);
    expect_within(tensor, expect_round_trip({tensor}, 0.1), 0, 0.1);
  }
}

TEST(GradientPacket, ValuesThatAreNotFiniteComeBack) {
  Sparse tensor = sparse(20'000, 10, 1, 6);
  tensor.values[0] = kInf;
  tensor.values[7] = -kInf;
  tensor.values[9] = std::bit_cast<float>(0x7fa12345U);
  tensor.values[11] = std::bit_cast<float>(0xffc00001U);
  const std::vector<float> found = expect_round_trip({tensor}, 0.1);
  for (const std::size_t i : {0, 7, 9, 11}) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(found[i]),
              std::bit_cast<std::uint32_t>(tensor.values[i]));
  }
}

TEST(GradientPacket, ExtremeSelections) {
  Sparse all{1000, {}, std::vector<float>(1000, 0.5F)};
  for (std::uint32_t i = 0; i < 1000; ++i) all.indices.push_back(i);
  const Sparse none{1000, {}, {}};
  const Sparse empty{0, {}, {}};
  const Sparse zeros{10, {2, 9}, {0.0F, -0.0F}};
  const Sparse far{0xffffffffU, {0, 0xfffffffeU}, {1.0F, 2.0F}};
  const Sparse at_limit{1U << 25, {(1U << 24) - 1, (1U << 25) - 1}, {1.0F, 2.0F}};
  (void)expect_round_trip({}, 0.1);
  (void)expect_round_trip({none, empty}, 0.1);
  (void)expect_round_trip({all, none, zeros, empty}, 0.1);
  (void)expect_round_trip({far, all}, 0.1);
  (void)expect_round_trip({at_limit}, 0.1);
}

TEST(GradientPacket, IsShort) {
  // Gaps of a geometric distribution have 8.08 bits, values about 3.
  const Sparse tensor = sparse(1 << 20, 100, 1, 7);
  const std::size_t n_bytes = encode({tensor}).value().packet.size();
  EXPECT_LT(8.0 * double(n_bytes) / double(tensor.values.size()), 12.5);
}

TEST(GradientPacket, AddsToTensors) {
  const std::vector<Sparse> tensors = {sparse(3000, 10, 1, 8), sparse(40, 3, 1, 9)};
  const Encoded encoded = encode(tensors).value();
  std::vector<float> first(3000, 1.0F);
  std::vector<float> second(40, 1.0F);
  const std::vector<std::span<float>> sums = {first, second};
  GradientWorkspace workspace;
  ASSERT_TRUE(add_gradients(encoded.packet, 0.5F, sums, workspace));
  std::size_t at = 0;
  for (std::size_t t = 0; t < 2; ++t) {
    std::vector<float> expected(tensors[t].n_elems, 1.0F);
    for (const std::uint32_t index : tensors[t].indices) {
      expected[index] += 0.5F * encoded.decoded[at++];
    }
    expect_same_bits(std::vector<float>(sums[t].begin(), sums[t].end()), expected);
  }
  const auto wrong = add_gradients(encoded.packet, 1, std::span(sums).first(1), workspace);
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  const std::vector<std::span<float>> other = {second, first};
  EXPECT_EQ(add_gradients(encoded.packet, 1, other, workspace).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(GradientPacket, WrongCalls) {
  const auto code = [](const Sparse& tensor, double error) {
    const auto found = encode({tensor}, error);
    return found ? ErrorCode::kInternal : found.error().code;
  };
  EXPECT_EQ(code({10, {3, 3}, {1, 1}}, 0.1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({10, {4, 3}, {1, 1}}, 0.1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({10, {10}, {1}}, 0.1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({10, {1}, {1, 2}}, 0.1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({10, {1}, {1}}, -1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({10, {1}, {1}}, kInf), ErrorCode::kInvalidArgument);
  const Sparse tensor{10, {1}, {1}};
  const SparseTensor view = tensor.view();
  GradientWorkspace workspace;
  std::vector<std::byte> out(8);
  std::vector<float> decoded(1);
  EXPECT_EQ(encode_gradients({&view, 1}, {}, out, decoded, workspace).error().code,
            ErrorCode::kInvalidArgument);
  out.resize(1000);
  EXPECT_EQ(encode_gradients({&view, 1}, {}, out, {}, workspace).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(GradientPacket, ResultsMustNotOverlapWhatIsRead) {
  std::vector<float> memory(1000, 1.0F);
  const std::vector<std::uint32_t> indices = {1};
  const SparseTensor tensor{10, indices, std::span(memory).first(1)};
  GradientWorkspace workspace;
  std::vector<float> decoded(1);
  const MutableBytes out = std::as_writable_bytes(std::span(memory));
  EXPECT_EQ(encode_gradients({&tensor, 1}, {}, out, decoded, workspace).error().code,
            ErrorCode::kInvalidArgument);
  const MutableBytes apart = out.subspan(sizeof(float));
  for (const std::size_t at : {0, 1, 5}) {  // in the values, and in the packet
    EXPECT_EQ(encode_gradients({&tensor, 1}, {}, apart, std::span(memory).subspan(at, 1), workspace)
                  .error()
                  .code,
              ErrorCode::kInvalidArgument);
  }
  const std::uint64_t n_bytes =
      encode_gradients({&tensor, 1}, {}, apart, decoded, workspace).value();
  const ByteView packet = apart.first(n_bytes);
  std::vector<std::uint32_t> found(1);
  EXPECT_EQ(
      decode_gradients(packet, found, std::span(memory).subspan(1, 1), workspace).error().code,
      ErrorCode::kInvalidArgument);
  const std::span<float> target = std::span(memory).subspan(1, 10);
  EXPECT_EQ(add_gradients(packet, 1, {&target, 1}, workspace).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(decode_gradients(packet, found, std::span(memory).first(1), workspace));
}

Result<void> decode_any(ByteView packet) {
  const GuardedBytes bytes(std::vector<std::byte>(packet.begin(), packet.end()));
  CFCK_TRY_ASSIGN(const std::vector<SparseShape> shapes, gradient_packet_shapes(bytes.bytes()));
  std::size_t n = 0;
  for (const SparseShape& shape : shapes) n += shape.n_values;
  if (n > 100'000) return limit_exceeded("more than the test has");
  std::vector<std::uint32_t> indices(n);
  std::vector<float> values(n);
  GradientWorkspace workspace;
  CFCK_TRY(decode_gradients(bytes.bytes(), indices, values, workspace));
  std::size_t at = 0;
  for (const SparseShape& shape : shapes) {
    std::uint64_t lowest = 0;
    for (std::uint32_t i = 0; i < shape.n_values; ++i, ++at) {
      EXPECT_GE(indices[at], lowest);
      EXPECT_LT(indices[at], shape.n_elems);
      lowest = std::uint64_t{indices[at]} + 1;
    }
  }
  return {};
}

TEST(GradientPacket, EveryDamagedByteIsFound) {
  const std::vector<std::byte> packet =
      encode({sparse(3000, 20, 1, 10), sparse(500, 9, 1, 11)}).value().packet;
  for (std::size_t at = 0; at < packet.size(); ++at) {
    std::vector<std::byte> bad = packet;
    bad[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_any(bad)) << at;
    EXPECT_FALSE(decode_any(std::span(packet).first(at))) << at;
  }
  std::vector<std::byte> longer = packet;
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode_any(longer).error().code, ErrorCode::kCorrupt);
}

// With hashes that are right again, any bytes are refused or decoded to indices in range.
TEST(GradientPacket, HostileBytesAreRefusedOrInRange) {
  const std::vector<std::byte> packet =
      encode({sparse(3000, 20, 1, 10), sparse(500, 9, 1, 11)}).value().packet;
  const std::size_t end = packet.size() - 8;
  const gradients::Packet parts = gradients::read_packet(packet).value();
  for (std::size_t at = 0; at < end; ++at) {
    for (const std::uint8_t flip : {1, 0x40, 0x80, 0xff}) {
      std::vector<std::byte> bad = packet;
      bad[at] ^= std::byte{flip};
      for (const auto& [begin, size] : {std::pair(parts.gaps_at(), parts.gaps.size()),
                                        std::pair(parts.values_at(), parts.values.size())}) {
        store<std::uint64_t>(bad.data() + begin + size - 8,
                             tiled_hash64(std::span(bad).subspan(begin, size - 8)));
      }
      store<std::uint64_t>(bad.data() + end, tiled_hash64(std::span(bad).first(end)));
      (void)decode_any(bad);
    }
  }
}

}  // namespace
}  // namespace cfck::test
