// Working memory of the spectral codec.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codec/common/groups.hpp"
#include "codec/scratch.hpp"
#include "spectral/layout/parameters.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// A preamble and its parameters.
struct SpectralPreamble {
  Shape shape;
  std::vector<std::byte> bytes;
  SpectralParameters parameters;
};

// Buffers of the encoder, which decodes every chunk it has encoded; so it shares none with the
// decoder.
struct SpectralWorkspace {
  GrowingBuffer<float> in_steps;
  GrowingBuffer<float> ordered;
  GrowingBuffer<GroupCode> groups;
  GrowingBuffer<std::uint8_t> symbols;
  GrowingBuffer<std::uint8_t> quantisers;
  GrowingBuffer<std::uint8_t> decisions;
  GrowingBuffer<std::uint8_t> tables;
  GrowingBuffer<std::int32_t> indices;
  GrowingBuffer<std::byte> path;
  GrowingBuffer<std::byte> raw;
};

struct SpectralScratch {
  GrowingBuffer<std::uint32_t> coefficient_places;
  GrowingBuffer<std::byte> coefficients;
  GrowingBuffer<std::byte> ordered_coefficients;
  GrowingBuffer<std::byte> coefficient_steps;
  std::unique_ptr<SpectralPreamble> preamble;  // the last one that was parsed
  SpectralWorkspace workspace;
};

}  // namespace cfck::spectral
