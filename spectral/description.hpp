// The parameters of a record of the spectral codec, and where its bits and errors are: for programs
// that show it. docs/inspecting.md explains the numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.hpp"
#include "spectral/layout/geometry.hpp"
#include "spectral/layout/parameters.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Sums over the coefficients of a band; squares are in units of the squared base step.
struct BandTotals {
  std::uint64_t n_values = 0;
  double coefficient_bits = 0;  // of symbols, low bits and escapes (coefficient_bits.hpp)
  double bits = 0;              // with the band's share of all other bytes
  double squared_steps = 0;
  double min_step = 0;  // in base steps
  double max_step = 0;
  double squared_values = 0;  // of the original
  double squared_errors = 0;
};

// Chunks with the same parameters.
struct SpectralCoding {
  SpectralParameters parameters;
  SpectralGeometry geometry;
  bool is_inline = false;  // the parameters are stored in the chunks
  std::uint64_t n_chunks = 0;
  std::uint64_t n_values = 0;
  std::uint64_t n_escapes = 0;
  std::uint64_t n_exact = 0;  // values kept bit for bit
  std::vector<BandTotals> bands;
};

struct LosslessChunks {
  std::uint64_t n_chunks = 0;
  std::uint64_t n_values = 0;
  double bits = 0;
};

class SpectralDescription {
 public:
  // More codings in a record are an error: encoders write one.
  static constexpr std::size_t kMaxCodings = 16;

  // Adds a chunk that has `stored_bytes` of the file: bytes that are not its coefficients' own are
  // shared evenly. `original` is empty, or the original values of the chunk: they are compared with
  // the decoded values, as coefficients; values that are not finite are taken as 0. Errors: those
  // of Decoder::decode; kLimitExceeded.
  Result<void> add_chunk(const ChunkInfo& info, ByteView payload, std::uint64_t stored_bytes,
                         ByteView original, Scratch& scratch);
  // Spreads bytes that belong to no chunk evenly over the values.
  void add_shared_bytes(std::uint64_t n_bytes);

  // Codings in the order of their first chunks.
  const std::vector<SpectralCoding>& codings() const { return codings_; }
  const LosslessChunks& lossless() const { return lossless_; }

 private:
  Result<SpectralCoding*> coding_of(const ChunkInfo& info, SpectralParameters parameters,
                                    bool is_inline);
  Result<void> add_coefficients(const ChunkInfo& info, ByteView payload, std::uint64_t stored_bytes,
                                ByteView original, Scratch& scratch);

  std::vector<SpectralCoding> codings_;
  LosslessChunks lossless_;
  std::vector<std::byte> decoded_;  // of the last chunk
};

}  // namespace cfck::spectral
