// Values of a float type as vectors of doubles, at the CPU levels that have them wide
// enough to pay. CFCK_HAS_DOUBLE_LANES says which do.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/common/float_values.hpp"

#if defined(__AVX2__)
#define CFCK_HAS_DOUBLE_LANES
#endif

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512F__)

inline constexpr unsigned kDoubleLanes = 8;

struct DoubleLanes {
  __m512d v;

  static DoubleLanes all(double value) { return {_mm512_set1_pd(value)}; }
  static DoubleLanes load(const void* doubles) { return {_mm512_loadu_pd(doubles)}; }
  static DoubleLanes of_indices(const std::int32_t* from) {
    return {_mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
  }
  static DoubleLanes of_indices(const std::int16_t* from) {
    return {_mm512_cvtepi32_pd(
        _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))))};
  }
  static DoubleLanes of_indices(const std::int8_t* from) {
    return {_mm512_cvtepi32_pd(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))))};
  }
  void store(void* to) const { _mm512_storeu_pd(to, v); }
  // Requires: whole numbers that fit.
  void store_indices(std::int32_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvttpd_epi32(v));
  }
  DoubleLanes operator+(DoubleLanes other) const { return {_mm512_add_pd(v, other.v)}; }
  DoubleLanes operator-(DoubleLanes other) const { return {_mm512_sub_pd(v, other.v)}; }
  DoubleLanes operator*(DoubleLanes other) const { return {_mm512_mul_pd(v, other.v)}; }
  DoubleLanes magnitude() const { return {_mm512_abs_pd(v)}; }
  DoubleLanes above(DoubleLanes other) const { return {_mm512_max_pd(v, other.v)}; }
  // Comparisons with NaN are false.
  bool are_at_most(DoubleLanes limit) const {
    return _mm512_cmp_pd_mask(v, limit.v, _CMP_LE_OQ) == 0xff;
  }
  // Returns *this where its magnitude is at most `limit`, else 0. One bit for each lane.
  DoubleLanes within(DoubleLanes limit, unsigned& which) const {
    const __mmask8 mask = _mm512_cmp_pd_mask(magnitude().v, limit.v, _CMP_LE_OQ);
    which = mask;
    return {_mm512_maskz_mov_pd(mask, v)};
  }
};

// Collects whether the lanes of several vectors are below limits.
class AllBelow {
 public:
  void add(DoubleLanes lanes, DoubleLanes limit) {
    good_ = _mm512_mask_cmp_pd_mask(good_, lanes.v, limit.v, _CMP_LT_OQ);
  }
  bool holds() const { return good_ == 0xff; }

 private:
  __mmask8 good_ = 0xff;
};

class AnyZero {
 public:
  void add(DoubleLanes lanes) {
    found_ = static_cast<__mmask8>(found_ |
                                   _mm512_cmp_pd_mask(lanes.v, _mm512_setzero_pd(), _CMP_EQ_OQ));
  }
  bool holds() const { return found_ != 0; }

 private:
  __mmask8 found_ = 0;
};

using FloatLanes = __m256;
using HalfLanes = __m128i;  // 16 bits each
using WordLanes [[gnu::vector_size(32)]] = std::uint32_t;
inline WordLanes widen(HalfLanes halves) {
  return reinterpret_cast<WordLanes>(_mm256_cvtepu16_epi32(halves));
}
inline HalfLanes low_halves(WordLanes words) {
  return _mm256_cvtepi32_epi16(reinterpret_cast<__m256i>(words));
}
inline FloatLanes float_of_f16(HalfLanes halves) { return _mm256_cvtph_ps(halves); }
inline HalfLanes f16_of_float(FloatLanes lanes) {
  return _mm256_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT);
}
inline DoubleLanes widen(FloatLanes lanes) { return {_mm512_cvtps_pd(lanes)}; }
inline FloatLanes narrow(DoubleLanes lanes) { return _mm512_cvtpd_ps(lanes.v); }

#elif defined(__AVX2__)

inline constexpr unsigned kDoubleLanes = 4;

struct DoubleLanes {
  __m256d v;

  static DoubleLanes all(double value) { return {_mm256_set1_pd(value)}; }
  static DoubleLanes load(const void* doubles) {
    return {_mm256_loadu_pd(static_cast<const double*>(doubles))};
  }
  static DoubleLanes of_indices(const std::int32_t* from) {
    return {_mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
  }
  static DoubleLanes of_indices(const std::int16_t* from) {
    return {_mm256_cvtepi32_pd(
        _mm_cvtepi16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))))};
  }
  static DoubleLanes of_indices(const std::int8_t* from) {
    int four;
    __builtin_memcpy(&four, from, sizeof(four));
    return {_mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)))};
  }
  void store(void* to) const { _mm256_storeu_pd(static_cast<double*>(to), v); }
  // Requires: whole numbers that fit.
  void store_indices(std::int32_t* to) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvttpd_epi32(v));
  }
  DoubleLanes operator+(DoubleLanes other) const { return {_mm256_add_pd(v, other.v)}; }
  DoubleLanes operator-(DoubleLanes other) const { return {_mm256_sub_pd(v, other.v)}; }
  DoubleLanes operator*(DoubleLanes other) const { return {_mm256_mul_pd(v, other.v)}; }
  DoubleLanes magnitude() const { return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), v)}; }
  DoubleLanes above(DoubleLanes other) const { return {_mm256_max_pd(v, other.v)}; }
  // Comparisons with NaN are false.
  bool are_at_most(DoubleLanes limit) const {
    return bits(_mm256_cmp_pd(v, limit.v, _CMP_LE_OQ)) == 0xf;
  }
  // Returns *this where its magnitude is at most `limit`, else 0. One bit for each lane.
  DoubleLanes within(DoubleLanes limit, unsigned& which) const {
    const __m256d mask = _mm256_cmp_pd(magnitude().v, limit.v, _CMP_LE_OQ);
    which = bits(mask);
    return {_mm256_and_pd(mask, v)};
  }

 private:
  static unsigned bits(__m256d mask) { return static_cast<unsigned>(_mm256_movemask_pd(mask)); }
};

// Collects whether the lanes of several vectors are below limits.
class AllBelow {
 public:
  void add(DoubleLanes lanes, DoubleLanes limit) {
    good_ = _mm256_and_pd(good_, _mm256_cmp_pd(lanes.v, limit.v, _CMP_LT_OQ));
  }
  bool holds() const { return _mm256_movemask_pd(good_) == 0xf; }

 private:
  __m256d good_ = _mm256_castsi256_pd(_mm256_set1_epi32(-1));
};

class AnyZero {
 public:
  void add(DoubleLanes lanes) {
    found_ = _mm256_or_pd(found_, _mm256_cmp_pd(lanes.v, _mm256_setzero_pd(), _CMP_EQ_OQ));
  }
  bool holds() const { return _mm256_movemask_pd(found_) != 0; }

 private:
  __m256d found_ = _mm256_setzero_pd();
};

using FloatLanes = __m128;
using HalfLanes = std::uint64_t;  // 16 bits each
using WordLanes [[gnu::vector_size(16)]] = std::uint32_t;
inline __m128i in_register(HalfLanes halves) {
  return _mm_cvtsi64_si128(static_cast<long long>(halves));
}
inline HalfLanes from_register(__m128i halves) {
  return static_cast<HalfLanes>(_mm_cvtsi128_si64(halves));
}
inline WordLanes widen(HalfLanes halves) {
  return reinterpret_cast<WordLanes>(_mm_cvtepu16_epi32(in_register(halves)));
}
inline HalfLanes low_halves(WordLanes words) {
  const __m128i lanes = reinterpret_cast<__m128i>(words & 0xffffu);
  return from_register(_mm_packus_epi32(lanes, lanes));
}
inline FloatLanes float_of_f16(HalfLanes halves) { return _mm_cvtph_ps(in_register(halves)); }
inline HalfLanes f16_of_float(FloatLanes lanes) {
  return from_register(_mm_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT));
}
inline DoubleLanes widen(FloatLanes lanes) { return {_mm256_cvtps_pd(lanes)}; }
inline FloatLanes narrow(DoubleLanes lanes) { return _mm256_cvtpd_ps(lanes.v); }

#endif

#if defined(CFCK_HAS_DOUBLE_LANES)

// Loads values as doubles; rounds doubles, stores them, and returns them as doubles again. It is
// the vector form of ValueF64 and so on.
template <class Value>
struct ValueLanes;

template <>
struct ValueLanes<ValueF64> {
  static DoubleLanes load(const std::byte* from) { return DoubleLanes::load(from); }
  static DoubleLanes store(DoubleLanes lanes, std::byte* to) {
    lanes.store(to);
    return lanes;
  }
};

template <>
struct ValueLanes<ValueF32> {
  static DoubleLanes load(const std::byte* from) {
    FloatLanes lanes;
    __builtin_memcpy(&lanes, from, sizeof(lanes));
    return widen(lanes);
  }
  static DoubleLanes store(DoubleLanes lanes, std::byte* to) {
    const FloatLanes rounded = narrow(lanes);
    __builtin_memcpy(to, &rounded, sizeof(rounded));
    return widen(rounded);
  }
};

template <>
struct ValueLanes<ValueBf16> {
  static FloatLanes float_of(HalfLanes halves) {
    return reinterpret_cast<FloatLanes>(widen(halves) << 16);
  }
  static DoubleLanes load(const std::byte* from) {
    HalfLanes halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return widen(float_of(halves));
  }
  static DoubleLanes store(DoubleLanes lanes, std::byte* to) {
    const WordLanes bits = reinterpret_cast<WordLanes>(narrow(lanes));
    const HalfLanes halves = low_halves((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    __builtin_memcpy(to, &halves, sizeof(halves));
    return widen(float_of(halves));
  }
};

template <>
struct ValueLanes<ValueF16> {
  static DoubleLanes load(const std::byte* from) {
    HalfLanes halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return widen(float_of_f16(halves));
  }
  static DoubleLanes store(DoubleLanes lanes, std::byte* to) {
    const HalfLanes halves = f16_of_float(narrow(lanes));
    __builtin_memcpy(to, &halves, sizeof(halves));
    return widen(float_of_f16(halves));
  }
};

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
