#include "tests/registry/codec_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace cfck::codec {
namespace {

std::uint64_t n_elems_of(const Shape& shape) {
  std::uint64_t n = 1;
  for (const std::uint64_t length : shape) {
    n *= length;
  }
  return n;
}

std::size_t bytes_of_elems(DType dtype, std::uint64_t n) {
  return (n * bits_per_element(dtype) + 7) / 8;
}

// Half the rows, where that is a whole number of them and of bytes.
std::uint64_t chunk_elems_of(DType dtype, const Shape& shape) {
  const std::uint64_t n = n_elems_of(shape);
  const bool halves =
      !shape.empty() && shape[0] % 2 == 0 && n / 2 * bits_per_element(dtype) % 8 == 0;
  return halves ? n / 2 : n;
}

// Values of which some are like those given, or far from them.
std::vector<std::byte> make_base(DType dtype, ByteView values) {
  std::vector<std::byte> base(values.begin(), values.end());
  const std::size_t width = std::max(1u, bits_per_element(dtype) / 8);
  Random random(7);
  for (std::size_t at = 0; at + width <= base.size(); at += width) {
    const std::uint64_t drawn = random.next() >> 32;
    if (drawn % 8 == 0) {
      base[at] ^= std::byte{1};
    }
    if (drawn % 61 == 0) {
      base[at + width - 1] ^= static_cast<std::byte>(drawn >> 8);
    }
  }
  return base;
}

void code_without_loss(CodedTensor& coded, CodecId codec, ByteView values, Scratch& scratch) {
  coded.codec = codec;
  coded.promised.assign(values.begin(), values.end());
  const Encoder* const encoder = find_encoder(coded.codec);
  for (std::size_t i = 0; i < coded.chunks.size(); ++i) {
    const ByteView part = values.subspan(coded.offset_bytes(i), coded.n_bytes(i));
    const auto done = encoder->encode(coded.info_of(i), part, scratch, coded.chunks[i]);
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_LE(coded.chunks[i].payload.size(), part.size() + encoder->max_overhead_bytes());
  }
}

void code_with_plan(CodedTensor& coded, const LossyPlan& plan, ByteView values, Scratch& scratch) {
  coded.entropy = plan.entropy();
  coded.preamble.assign(plan.preamble().begin(), plan.preamble().end());
  coded.promised.resize(values.size());
  for (std::size_t i = 0; i < coded.chunks.size(); ++i) {
    const std::size_t first = coded.offset_bytes(i);
    const std::size_t n = coded.n_bytes(i);
    ErrorTotals errors;
    const auto done =
        plan.encode(i * coded.chunk_elems, values.subspan(first, n), scratch,
                    MutableBytes(coded.promised).subspan(first, n), coded.chunks[i], errors);
    ASSERT_TRUE(done) << done.error().to_string();
  }
}

}  // namespace

std::span<const Pattern> row_patterns(const CodecRow& row) {
  static constexpr Pattern kLossy[] = {Pattern::kGaussian,   Pattern::kSpecials,
                                       Pattern::kSparse,     Pattern::kWideRange,
                                       Pattern::kZeroGroups, Pattern::kRepeating};
  return row.is_lossless() ? std::span<const Pattern>(kAllPatterns) : kLossy;
}

std::span<const Shape> row_shapes() {
  static const std::vector<Shape> shapes = {{1},      {7},          {128},        {129},   {1001},
                                            {40, 25}, {8, 4, 3, 3}, {3, 5, 5, 5}, {65, 66}};
  return shapes;
}

std::string name_of(const CodecCase& one) {
  return std::string(one.row->name) + "_" + std::string(dtype_name(one.dtype)) + "_" +
         std::string(entropy_name(one.entropy));
}

std::ostream& operator<<(std::ostream& out, const CodecCase& one) { return out << name_of(one); }

std::vector<CodecCase> all_codec_cases() {
  std::vector<CodecCase> cases;
  for (const CodecRow& row : codec_rows()) {
    for (const DType dtype : row.dtypes) {
      for (const EntropyId entropy : kAllStages) {
        cases.push_back({&row, dtype, entropy});
      }
    }
  }
  return cases;
}

std::uint64_t CodedTensor::n_elems() const { return n_elems_of(shape); }

ChunkInfo CodedTensor::info_of(std::size_t chunk) const {
  ChunkInfo info;
  info.dtype = dtype;
  info.entropy = entropy;
  info.first_elem = chunk * chunk_elems;
  info.n_elems = std::min(chunk_elems, n_elems() - info.first_elem);
  info.preamble = preamble;
  info.shape = shape;
  if (!base.empty()) {
    info.base = ByteView(base).subspan(offset_bytes(chunk), bytes_of_elems(dtype, info.n_elems));
  }
  return info;
}

std::size_t CodedTensor::offset_bytes(std::size_t chunk) const {
  return bytes_of_elems(dtype, chunk * chunk_elems);
}

std::size_t CodedTensor::n_bytes(std::size_t chunk) const {
  return bytes_of_elems(dtype, info_of(chunk).n_elems);
}

bool CodedTensor::operator==(const CodedTensor& other) const {
  return codec == other.codec && entropy == other.entropy && preamble == other.preamble &&
         promised == other.promised &&
         std::ranges::equal(chunks, other.chunks, [](const auto& a, const auto& b) {
           return a.body_bytes == b.body_bytes && a.payload == b.payload;
         });
}

CodedTensor code_tensor(const CodecCase& one, const Shape& shape, ByteView values,
                        Scratch& scratch) {
  CodedTensor coded;
  coded.entropy = one.entropy;
  coded.dtype = one.dtype;
  coded.shape = shape;
  coded.chunk_elems = chunk_elems_of(one.dtype, shape);
  coded.chunks.resize(coded.n_elems() / coded.chunk_elems);
  if (one.row->codec == CodecId::kDelta) {
    coded.base = make_base(one.dtype, values);
  }
  if (one.row->is_lossless()) {
    code_without_loss(coded, one.row->codec, values, scratch);
    return coded;
  }
  LossyRecord record;
  record.dtype = one.dtype;
  record.shape = shape;
  record.chunk_elems = coded.chunk_elems;
  record.entropy = one.entropy;
  record.is_forced = true;
  one.row->ask(record);
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    const std::size_t width = bits_per_element(one.dtype) / 8;
    return Result<ByteView>(values.subspan(first * width, n * width));
  };
  const auto decision = find_lossy_encoder(one.row->codec)->plan(record, read, scratch);
  EXPECT_TRUE(decision) << decision.error().to_string();
  if (decision && decision->plan != nullptr) {
    coded.codec = one.row->codec;
    code_with_plan(coded, *decision->plan, values, scratch);
  } else {
    code_without_loss(coded, CodecId::kLossless, values, scratch);
  }
  return coded;
}

void decode_tensor(const CodedTensor& coded, Scratch& scratch, MutableBytes values) {
  const Decoder* const decoder = find_decoder(coded.codec);
  for (std::size_t i = 0; i < coded.chunks.size(); ++i) {
    const ByteView payload = coded.chunks[i].payload;
    const auto body = decoder->body_bytes(coded.info_of(i), payload);
    EXPECT_TRUE(body && *body == coded.chunks[i].body_bytes);
    const auto done = decoder->decode(coded.info_of(i), payload, scratch,
                                      values.subspan(coded.offset_bytes(i), coded.n_bytes(i)));
    EXPECT_TRUE(done) << done.error().to_string();
  }
}

std::vector<std::byte> decode_tensor(const CodedTensor& coded, Scratch& scratch) {
  std::vector<std::byte> values(coded.promised.size(), std::byte{0xee});
  decode_tensor(coded, scratch, values);
  return values;
}

}  // namespace cfck::codec
