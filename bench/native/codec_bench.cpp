// Speed of the lossless codec and of its parts, one thread, on Gaussian weights.
//
//   build/bench/codec_bench [--benchmark_filter=...]
//   CFCK_CPU=v3 build/bench/codec_bench     another CPU level
//
// Bytes per second always refer to the values, not to their stored form.
#include <benchmark/benchmark.h>

#include <cstring>

#include "codec/codec.hpp"
#include "codec/entropy/zstd/frame.hpp"
#include "codec/entropy/zstd/huffman.hpp"
#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/kernel_levels.hpp"
#include "codec/symboliser/packed_bits.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;

constexpr std::size_t kValues = std::size_t{1} << 18;

// Sums of uniform numbers, deviation about 0.04, as F32 or cut to its upper half.
std::vector<std::byte> make_weights(DType dtype) {
  const std::size_t value_bytes = bits_per_element(dtype) / 8;
  std::vector<std::byte> bytes(kValues * value_bytes);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < kValues; ++i) {
    std::int64_t sum = 0;
    for (unsigned k = 0; k < 12; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<std::int64_t>(state >> 34);
    }
    const auto weight = static_cast<float>(sum - (std::int64_t{6} << 30)) * 0x1p-35f;
    std::uint32_t word;
    std::memcpy(&word, &weight, sizeof(word));
    word = dtype == DType::kBF16 ? word >> 16 : word;
    std::memcpy(bytes.data() + i * value_bytes, &word, value_bytes);
  }
  return bytes;
}

void count_bytes(benchmark::State& state, std::size_t n_bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(n_bytes * state.iterations()));
}

ChunkInfo chunk_of(DType dtype, EntropyId entropy) {
  return {dtype, entropy, ScanId::kStorageOrder, kValues, {}};
}

void encode_chunk(benchmark::State& state, DType dtype, EntropyId entropy) {
  const ChunkInfo info = chunk_of(dtype, entropy);
  const std::vector<std::byte> values = make_weights(dtype);
  Scratch scratch;
  EncodedChunk encoded;
  for (auto _ : state) {
    if (!find_encoder(CodecId::kLossless)->encode(info, values, scratch, encoded)) {
      state.SkipWithError("encoding failed");
    }
  }
  count_bytes(state, values.size());
  state.counters["bits_per_weight"] = 8.0 * static_cast<double>(encoded.payload.size()) / kValues;
}

void decode_chunk(benchmark::State& state, DType dtype, EntropyId entropy) {
  const ChunkInfo info = chunk_of(dtype, entropy);
  std::vector<std::byte> values = make_weights(dtype);
  Scratch scratch;
  EncodedChunk encoded;
  bool done{find_encoder(CodecId::kLossless)->encode(info, values, scratch, encoded)};
  for (auto _ : state) {
    done = done && find_decoder(CodecId::kLossless)->decode(info, encoded.payload, scratch, values);
  }
  if (!done) {
    state.SkipWithError("decoding failed");
  }
  count_bytes(state, values.size());
}

// The parts into which split() divides a chunk, for the benchmarks of the parts.
template <class Format>
struct SplitChunk {
  SplitChunk() {
    layout.has_signs =
        chunk_kernels<Format>().analyse(values.data(), kValues, groups.data()).has_signs;
    std::vector<std::uint8_t> bin_symbols(groups.size());
    std::vector<std::byte> bin_escapes(2 * groups.size());
    write_bin_stream(groups.data(), groups.size(), bin_symbols.data(), bin_escapes.data());
    split();
  }

  void split() {
    SplitCursors to;
    to.streams[0] = symbols.data();
    to.raw = raw.data();
    to.escapes = escapes.data();
    chunk_kernels<Format>().split(values.data(), kValues, groups.data(), layout, to);
    n_escapes =
        static_cast<std::size_t>(to.escapes - escapes.data()) / sizeof(typename Format::Word);
  }

  bool merge() {
    MergeCursors from;
    from.streams[0] = symbols.data();
    from.raw = raw.data();
    from.escapes = escapes.data();
    from.n_escapes = n_escapes;
    return chunk_kernels<Format>().merge(values.data(), kValues, groups.data(), layout, from);
  }

  std::vector<std::byte> values =
      make_weights(sizeof(typename Format::Word) == 2 ? DType::kBF16 : DType::kF32);
  std::vector<GroupCode> groups = std::vector<GroupCode>(kValues / kGroupSize);
  SymbolLayout layout;
  std::vector<std::uint8_t> symbols = std::vector<std::uint8_t>(kValues + kGroupSize);
  std::vector<std::byte> raw = std::vector<std::byte>(kValues * sizeof(typename Format::Word));
  std::vector<std::byte> escapes = raw;
  std::size_t n_escapes = 0;
};

template <class Format>
void analyse(benchmark::State& state) {
  SplitChunk<Format> chunk;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        chunk_kernels<Format>().analyse(chunk.values.data(), kValues, chunk.groups.data()));
  }
  count_bytes(state, chunk.values.size());
}

template <class Format>
void split(benchmark::State& state) {
  SplitChunk<Format> chunk;
  for (auto _ : state) {
    chunk.split();
  }
  count_bytes(state, chunk.values.size());
}

template <class Format>
void merge(benchmark::State& state) {
  SplitChunk<Format> chunk;
  for (auto _ : state) {
    if (!chunk.merge()) {
      state.SkipWithError("merging failed");
    }
  }
  count_bytes(state, chunk.values.size());
}

// Writes symbols, one byte each.
void write_frame(benchmark::State& state) {
  const SplitChunk<FormatBf16> chunk;
  const SymbolStream symbols(chunk.symbols.data(), kValues);
  std::vector<std::byte> frame;
  for (auto _ : state) {
    frame.clear();
    write_literals_frame({&symbols, 1}, frame);
    benchmark::DoNotOptimize(frame.data());
  }
  count_bytes(state, kValues);
}

// The comparison that justifies packed_bits_x86.hpp: eight values at a time, without vectors.
constexpr unsigned kWidth = 7;

void pack_bits_plain(benchmark::State& state) {
  const SplitChunk<FormatBf16> chunk;
  std::uint8_t packed[kGroupSize];
  for (auto _ : state) {
    for (unsigned i = 0; i < kGroupSize / 8; ++i) {
      std::uint64_t some;
      std::memcpy(&some, chunk.symbols.data() + 8 * i, sizeof(some));
      some = gather_eight(some, kWidth);
      std::memcpy(packed + kWidth * i, &some, kWidth);
    }
    benchmark::DoNotOptimize(packed);
  }
  count_bytes(state, kGroupSize);
}

void pack_bits_tuned(benchmark::State& state) {
  const SplitChunk<FormatBf16> chunk;
  std::uint8_t packed[kGroupSize];
  for (auto _ : state) {
    pack_bits(chunk.symbols.data(), kWidth, packed);
    benchmark::DoNotOptimize(packed);
  }
  count_bytes(state, kGroupSize);
}

void unpack_bits_plain(benchmark::State& state) {
  const SplitChunk<FormatBf16> chunk;
  std::uint8_t bytes[kGroupSize];
  for (auto _ : state) {
    for (unsigned i = 0; i < kGroupSize / 8; ++i) {
      std::uint64_t some;
      std::memcpy(&some, chunk.symbols.data() + kWidth * i, sizeof(some));
      some = spread_eight(some, kWidth);
      std::memcpy(bytes + 8 * i, &some, sizeof(some));
    }
    benchmark::DoNotOptimize(bytes);
  }
  count_bytes(state, kGroupSize);
}

void unpack_bits_tuned(benchmark::State& state) {
  const SplitChunk<FormatBf16> chunk;
  std::uint8_t bytes[kGroupSize];
  for (auto _ : state) {
    unpack_bits(chunk.symbols.data(), kWidth, bytes);
    benchmark::DoNotOptimize(bytes);
  }
  count_bytes(state, kGroupSize);
}

BENCHMARK_CAPTURE(encode_chunk, bf16_zstd, DType::kBF16, EntropyId::kZstd);
BENCHMARK_CAPTURE(encode_chunk, bf16_rans, DType::kBF16, EntropyId::kRans);
BENCHMARK_CAPTURE(encode_chunk, f32_zstd, DType::kF32, EntropyId::kZstd);
BENCHMARK_CAPTURE(encode_chunk, f32_rans, DType::kF32, EntropyId::kRans);
BENCHMARK_CAPTURE(decode_chunk, bf16_zstd, DType::kBF16, EntropyId::kZstd);
BENCHMARK_CAPTURE(decode_chunk, bf16_rans, DType::kBF16, EntropyId::kRans);
BENCHMARK_CAPTURE(decode_chunk, f32_zstd, DType::kF32, EntropyId::kZstd);
BENCHMARK_CAPTURE(decode_chunk, f32_rans, DType::kF32, EntropyId::kRans);
BENCHMARK_TEMPLATE(analyse, FormatBf16);
BENCHMARK_TEMPLATE(analyse, FormatF32);
BENCHMARK_TEMPLATE(split, FormatBf16);
BENCHMARK_TEMPLATE(split, FormatF32);
BENCHMARK_TEMPLATE(merge, FormatBf16);
BENCHMARK_TEMPLATE(merge, FormatF32);
BENCHMARK(write_frame);
BENCHMARK(pack_bits_plain);
BENCHMARK(pack_bits_tuned);
BENCHMARK(unpack_bits_plain);
BENCHMARK(unpack_bits_tuned);

}  // namespace

BENCHMARK_MAIN();
