// Working memory of one thread; see Scratch in codec.hpp.
#pragma once

#include <zstd.h>

#include <array>
#include <cstddef>
#include <memory>

#include "codec/codec.hpp"
#include "codec/direct/chunk/parameters.hpp"
#include "codec/entropy/rans/rans_section.hpp"
#include "codec/symboliser/symboliser.hpp"
#include "spectral/layout/spectral_parameters.hpp"

namespace cfck::codec {

// Memory that only grows and is never cleared.
template <class T>
class GrowingBuffer {
 public:
  // Room for n elements; what was there before is lost when it grows.
  T* reserve(std::size_t n) {
    if (n > capacity_) {
      memory_.reset();
      capacity_ = 0;
      memory_ = std::make_unique_for_overwrite<T[]>(n);
      capacity_ = n;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<T[]> memory_;
  std::size_t capacity_ = 0;
};

// A preamble and what it says.
struct DirectPreamble {
  Shape shape;
  std::vector<std::byte> bytes;
  DirectParameters parameters;
};

struct SpectralPreamble {
  Shape shape;
  std::vector<std::byte> bytes;
  SpectralParameters parameters;
};

// Encoding tables, and the frequencies of which they were made.
struct RansEncodeTables {
  std::array<Frequencies, kMaxPlaces> made_of{};
  std::array<RansEncodeTable, kMaxPlaces> tables;
};

// What the spectral encoder makes of a chunk; apart from what its decoder uses.
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

struct Scratch::Impl {
  GrowingBuffer<GroupCode> groups;
  GrowingBuffer<std::uint8_t> symbols;
  GrowingBuffer<std::byte> values;  // what a mask leaves
  GrowingBuffer<std::byte> raw;
  GrowingBuffer<std::byte> escapes;
  GrowingBuffer<std::byte> mask;
  GrowingBuffer<std::byte> planes;
  // Of the direct codec.
  GrowingBuffer<std::int32_t> indices;
  GrowingBuffer<std::int32_t> ordered_indices;
  GrowingBuffer<std::int32_t> escaped_indices;
  GrowingBuffer<std::uint8_t> predicted_classes;
  std::unique_ptr<DirectPreamble> preamble;  // the last one that was parsed
  // Of the spectral codec.
  GrowingBuffer<std::uint32_t> coefficient_places;
  GrowingBuffer<std::byte> coefficients;
  GrowingBuffer<std::byte> ordered_coefficients;
  GrowingBuffer<std::byte> coefficient_steps;
  std::unique_ptr<SpectralPreamble> spectral_preamble;
  SpectralWorkspace spectral_workspace;

  // Of the entropy stage `rans`.
  GrowingBuffer<std::uint8_t> places;
  GrowingBuffer<std::uint16_t> words;
  std::vector<std::byte> coded;  // the section of a chunk
  RansReader rans_reader;
  RansEncodeTables& encode_tables();

  // Created at first use; nullptr if there is no memory.
  ZSTD_CCtx* compressor();
  ZSTD_DCtx* decompressor();

 private:
  std::unique_ptr<RansEncodeTables> encode_tables_;
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> compressor_{nullptr, &ZSTD_freeCCtx};
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> decompressor_{nullptr, &ZSTD_freeDCtx};
};

// Decompresses `frame`, which must be exactly one Zstd frame, into exactly `out`.
// Errors: kTruncated, kCorrupt, kOutOfMemory; offsets count from the frame's start.
Result<void> decompress_frame(ByteView frame, Scratch& scratch, MutableBytes out);

}  // namespace cfck::codec
