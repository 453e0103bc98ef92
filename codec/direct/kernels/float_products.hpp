// Small indices times a step, rounded to F32 as codec/direct/spec.md, section 4, says, but with
// vectors of floats: twice as many to a register as doubles. CFCK_HAS_FLOAT_PRODUCTS says which CPU
// levels have them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/common/float_values.hpp"

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#define CFCK_HAS_FLOAT_PRODUCTS

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512F__)

struct WideFloats {
  static constexpr unsigned kCount = 16;
  __m512 v;

  static WideFloats all(float value) { return {_mm512_set1_ps(value)}; }
  static WideFloats of_indices(const std::int8_t* indices) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(indices));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(some))};
  }
  void store(void* to) const { _mm512_storeu_ps(to, v); }
  WideFloats operator+(WideFloats other) const { return {_mm512_add_ps(v, other.v)}; }
  WideFloats operator*(WideFloats other) const { return {_mm512_mul_ps(v, other.v)}; }
  // Returns v * a + b, v * a - b, rounded once.
  WideFloats times_plus(WideFloats a, WideFloats b) const { return {_mm512_fmadd_ps(v, a.v, b.v)}; }
  WideFloats times_minus(WideFloats a, WideFloats b) const {
    return {_mm512_fmsub_ps(v, a.v, b.v)};
  }
};

#else

struct WideFloats {
  static constexpr unsigned kCount = 8;
  __m256 v;

  static WideFloats all(float value) { return {_mm256_set1_ps(value)}; }
  static WideFloats of_indices(const std::int8_t* indices) {
    const __m128i some = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(indices));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(some))};
  }
  void store(void* to) const { _mm256_storeu_ps(static_cast<float*>(to), v); }
  WideFloats operator+(WideFloats other) const { return {_mm256_add_ps(v, other.v)}; }
  WideFloats operator*(WideFloats other) const { return {_mm256_mul_ps(v, other.v)}; }
  WideFloats times_plus(WideFloats a, WideFloats b) const { return {_mm256_fmadd_ps(v, a.v, b.v)}; }
  WideFloats times_minus(WideFloats a, WideFloats b) const {
    return {_mm256_fmsub_ps(v, a.v, b.v)};
  }
};

#endif

// A step as the sum of two floats. Products with it equal those in binary64 except near ties and at
// the ends of the range; so all of them are compared first.
class FloatStep {
 public:
  explicit FloatStep(double step)
      : high_(WideFloats::all(static_cast<float>(step))),
        low_(WideFloats::all(static_cast<float>(step - static_cast<float>(step)))) {}

  // True if times() gives the right products for indices from -kMaxByteIndex to kMaxByteIndex.
  static bool is_exact(double step) {
    const FloatStep float_step(step);
    bool is_exact = true;
    for (int first = -kMaxByteIndex - 1; first <= kMaxByteIndex; first += int{WideFloats::kCount}) {
      std::int8_t indices[WideFloats::kCount];
      for (unsigned i = 0; i < WideFloats::kCount; ++i) {
        indices[i] = static_cast<std::int8_t>(first + static_cast<int>(i));
      }
      float products[WideFloats::kCount];
      float_step.times(indices).store(products);
      for (unsigned i = 0; i < WideFloats::kCount; ++i) {
        is_exact = is_exact && same_bits<std::uint32_t>(products[i]) ==
                                   ValueF32::from_double(indices[i] * step);
      }
    }
    return is_exact;
  }

  WideFloats times(const std::int8_t* indices) const {
    const WideFloats index = WideFloats::of_indices(indices);
    const WideFloats product = index * high_;
    const WideFloats rest = index.times_minus(high_, product);
    return product + index.times_plus(low_, rest);
  }

  static constexpr int kMaxByteIndex = 127;

 private:
  WideFloats high_;
  WideFloats low_;
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

#endif
