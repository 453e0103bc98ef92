#include "base/hashing/hashing.hpp"

#include "base/bytes.hpp"
#include "base/cpu/level.hpp"
#include "base/forks/forks.hpp"
#include "base/hashing/hashing_kernel.hpp"

namespace cfck::detail {
namespace {

struct Kernel {
  std::uint64_t (*hash64)(const void*, std::size_t) noexcept = hash64_baseline;
  std::uint64_t (*hash64_of_two)(const void*, std::size_t, const void*,
                                 std::size_t) noexcept = hash64_of_two_baseline;
  HashPair (*hash128)(const void*, std::size_t) noexcept = hash128_baseline;
};

Kernel choose() noexcept {
#if defined(__x86_64__)
  if (cpu_level() >= CpuLevel::kV4) {
    return {hash64_v4, hash64_of_two_v4, hash128_v4};
  }
  if (cpu_level() >= CpuLevel::kV3) {
    return {hash64_v3, hash64_of_two_v3, hash128_v3};
  }
#endif
  return {};
}

const Kernel& kernel() noexcept {
  static constinit MadeOnce<Kernel> chosen;
  return chosen.get(&choose);
}

}  // namespace

std::uint64_t hash64(ByteView bytes) noexcept {
  return kernel().hash64(bytes.data(), bytes.size());
}

std::uint64_t hash64(ByteView first, ByteView second) noexcept {
  return kernel().hash64_of_two(first.data(), first.size(), second.data(), second.size());
}

Digest hash128(ByteView bytes) noexcept {
  const HashPair pair = kernel().hash128(bytes.data(), bytes.size());
  Digest digest;
  std::memcpy(digest.data(), &pair.low, 8);
  std::memcpy(digest.data() + 8, &pair.high, 8);
  return digest;
}

}  // namespace cfck::detail
