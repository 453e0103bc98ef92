// Tensors through the spectral codec: encoded chunk by chunk, and decoded again.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "codec/lossy.hpp"
#include "tests/spectral/edited_request.hpp"

namespace cfck::spectral {

struct Coded {
  std::vector<std::byte> preamble;
  std::vector<EncodedChunk> chunks;
  std::vector<std::byte> decoded;
  double sum_of_squares = 0;
  double max_error = 0;
  bool has_plan = false;

  std::size_t n_bytes() const {
    std::size_t n = preamble.size();
    for (const EncodedChunk& chunk : chunks) {
      n += chunk.payload.size();
    }
    return n;
  }
};

inline LossyRecord record_of(const Shape& shape, double step, unsigned n_states = 8) {
  LossyRecord record;
  record.dtype = DType::kF32;
  record.shape = shape;
  record.chunk_elems = 4096;
  record.entropy = EntropyId::kRans;
  record.is_forced = true;
  SpectralRequest& request = edited_request(record);
  request.step = step;
  request.n_states = n_states;
  return record;
}

// Encodes every chunk, and checks that decoding gives what the encoder reported.
inline Coded code(const LossyRecord& record, ByteView values) {
  const std::size_t width = bits_per_element(record.dtype) / 8;
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(values.subspan(first * width, n * width));
  };
  Scratch scratch;
  Coded coded;
  const LossyEncoder* const encoder = find_lossy_encoder(CodecId::kSpectral);
  Result<LossyDecision> decision = encoder->plan(record, read, scratch);
  EXPECT_TRUE(decision) << decision.error().message;
  coded.has_plan = decision && decision->plan != nullptr;
  if (!coded.has_plan) {
    return coded;
  }
  const LossyPlan& plan = *decision->plan;
  coded.preamble.assign(plan.preamble().begin(), plan.preamble().end());
  coded.decoded.resize(values.size());
  const std::uint64_t n_values = values.size() / width;
  for (std::uint64_t first = 0; first < n_values; first += record.chunk_elems) {
    const std::uint64_t n = std::min<std::uint64_t>(record.chunk_elems, n_values - first);
    const MutableBytes told = MutableBytes(coded.decoded).subspan(first * width, n * width);
    EncodedChunk chunk;
    ErrorTotals errors;
    const auto done =
        plan.encode(first, values.subspan(first * width, n * width), scratch, told, chunk, errors);
    EXPECT_TRUE(done) << done.error().message;
    ChunkInfo info;
    info.dtype = record.dtype;
    info.entropy = plan.entropy();
    info.n_elems = n;
    info.first_elem = first;
    info.shape = record.shape;
    info.preamble = plan.preamble();
    std::vector<std::byte> back(told.size());
    const Decoder* const decoder = find_decoder(CodecId::kSpectral);
    const auto body = decoder->body_bytes(info, chunk.payload);
    EXPECT_TRUE(body && *body == chunk.body_bytes);
    const auto decoded = decoder->decode(info, chunk.payload, scratch, back);
    EXPECT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(std::memcmp(back.data(), told.data(), told.size()), 0);
    coded.sum_of_squares += errors.sum_of_squares;
    coded.max_error = std::max(coded.max_error, errors.max_error);
    coded.chunks.push_back(std::move(chunk));
  }
  return coded;
}

template <class T>
ByteView bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

inline std::vector<float> normal_values(std::size_t n, float deviation, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

inline std::size_t n_values_of(const Shape& shape) {
  std::size_t n = 1;
  for (const std::uint64_t length : shape) {
    n *= length;
  }
  return n;
}

}  // namespace cfck::spectral
