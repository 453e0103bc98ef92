// Values for the tests of the codecs, from a seeded integer generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cfck/dtype.hpp"
#include "codec/codec.hpp"

namespace cfck::codec {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t next();
  // Sum of sixteen uniform numbers, moved to mean 0: close to a Gaussian of
  // deviation about 1.15 * 2^30.
  std::int64_t gaussian();

 private:
  std::uint64_t state_;
};

enum class Pattern {
  kRandomBits,
  kGaussian,
  kConstant,
  kZeros,
  kSpecials,      // infinities, NaN with payloads, subnormals, both zeros
  kSparse,        // three quarters +0
  kSparseSigned,  // three quarters zero, half of them -0
  kCleanBits,     // low mantissa bits zero in some groups
  kPositive,
  kWideRange,  // exponents all over
  kZeroGroups,
  kCounter,
  kSortedIds,
  kAlternating,
  kRepeating,  // every 75 values again, so that rows of 3, 5, 15 or 25 repeat
};
inline constexpr Pattern kAllPatterns[] = {
    Pattern::kRandomBits, Pattern::kGaussian,    Pattern::kConstant,     Pattern::kZeros,
    Pattern::kSpecials,   Pattern::kSparse,      Pattern::kSparseSigned, Pattern::kCleanBits,
    Pattern::kPositive,   Pattern::kWideRange,   Pattern::kZeroGroups,   Pattern::kCounter,
    Pattern::kSortedIds,  Pattern::kAlternating, Pattern::kRepeating};
const char* pattern_name(Pattern pattern);

inline constexpr DType kAllDTypes[] = {
    DType::kBool,       DType::kF4,     DType::kF6E2M3, DType::kF6E3M2, DType::kU8,
    DType::kI8,         DType::kF8E5M2, DType::kF8E4M3, DType::kF8E8M0, DType::kF8E4M3Fnuz,
    DType::kF8E5M2Fnuz, DType::kI16,    DType::kU16,    DType::kF16,    DType::kBF16,
    DType::kI32,        DType::kU32,    DType::kF32,    DType::kC64,    DType::kF64,
    DType::kI64,        DType::kU64};

// The bytes of n_elems values.
std::vector<std::byte> make_values(DType dtype, Pattern pattern, std::uint64_t n_elems,
                                   std::uint64_t seed = 1);

inline constexpr EntropyId kAllStages[] = {EntropyId::kZstd, EntropyId::kRans};

inline ChunkInfo chunk_info(DType dtype, std::uint64_t n_elems,
                            EntropyId entropy = EntropyId::kZstd) {
  return {dtype, entropy, ScanId::kStorageOrder, n_elems, {}};
}

// Encodes with the lossless codec; fails the test where that fails.
EncodedChunk encode_lossless(DType dtype, std::uint64_t n_elems,
                             const std::vector<std::byte>& values,
                             EntropyId entropy = EntropyId::kZstd);

// "F32 gaussian 129", for messages.
std::string describe(DType dtype, Pattern pattern, std::uint64_t n_elems);

}  // namespace cfck::codec
