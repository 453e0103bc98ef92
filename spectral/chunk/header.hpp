// The header of a chunk of the spectral codec (spectral/spec.md, section 2).
#pragma once

#include <optional>

#include "spectral/chunk/spectral.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Modes 0 to 3 are those of the lossless codec.
inline constexpr std::uint8_t kSpectralInline = 4;
inline constexpr std::uint8_t kSpectralPreamble = 5;

enum SpectralChunkFlag : std::uint8_t {
  kSpectralExact = 1 << 0,
  kSpectralEscapes = 1 << 1,
  kSpectralBinEscapes = 1 << 2,
  kSpectralRaw = 1 << 3,
  kSpectralPath = 1 << 4,
};

// Fields that the flags declare absent are zero.
struct SpectralHeader {
  std::uint8_t flags = 0;
  std::uint32_t first_bin = 0;  // not in the order by bins
  std::uint32_t n_exact = 0;
  std::uint32_t gap_bytes = 0;
  std::uint32_t n_escapes = 0;
  std::uint32_t code_bytes = 0;
  std::uint32_t n_bin_escapes = 0;
  std::uint32_t path_bytes = 0;
  std::uint32_t coded_bytes = 0;  // with `rans`
  std::uint32_t split_bytes = 0;  // with `zstd`
  std::uint32_t raw_bytes = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t body_bytes = 0;
  std::optional<SpectralParameters> parameters;  // inline
};

// Requires: the first byte is mode 4 or 5. Errors: kTruncated, kCorrupt, kUnsupported.
Result<SpectralHeader> parse_spectral_header(const SpectralChunkInfo& info, ByteView payload);

// Appends mode byte, inline parameters if there are any, and header. Sets the flags from the
// fields.
void append_spectral_header(SpectralHeader& header, EntropyId entropy, bool has_bins,
                            const SpectralParameters* inline_parameters,
                            std::vector<std::byte>& out);

}  // namespace cfck::spectral
