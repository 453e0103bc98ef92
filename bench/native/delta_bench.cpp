// Sizes and speeds of codec delta on two files of the same tensors, one thread, against what is
// sent today: XOR and libzstd, byte planes of it, and index with value. Prints one JSON object;
// bytes per second are those of the dense values, the best of all repetitions.
//
//   build/bench/delta_bench [--repetitions N] [--chunk ELEMENTS] [--peers 0|1|19] BASE NEW
//
// Both are safetensors files. Levels of --peers: 0 none, 1 libzstd at level 1, 19 at level 19 too.
// Times with digests have the digests of base and new values in them, as a patch that is proven by
// them needs both; the peers compute none.
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "bench/native/weights.hpp"
#include "codec/chunk_geometry.hpp"
#include "codec/decode_job.hpp"
#include "codec/encode_job.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;

struct Options {
  unsigned repetitions = 5;
  std::uint64_t chunk_elems = kDefaultChunkElems;
  int peers = 19;
};

template <class Action>
double best_seconds(unsigned repetitions, Action&& action) {
  double best = 1e9;
  for (unsigned i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    action();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "delta_bench: %s\n", what);
  std::exit(EXIT_FAILURE);
}

// A chunk of some tensor, with its place in the bytes of all.
struct Chunk {
  ChunkInfo info;
  ByteView base;
  ByteView values;
  std::size_t at = 0;
  EncodedChunk coded;
};

class Measurement {
 public:
  Measurement(const bench::Weights& base, const bench::Weights& values, const Options& options)
      : options_(options) {
    for (std::size_t t = 0; t < values.tensors.size(); ++t) {
      const bench::Tensor& a = base.tensors[t];
      const bench::Tensor& b = values.tensors[t];
      if (a.name != b.name || a.dtype != b.dtype || a.values.size() != b.values.size()) {
        fail("the files have other tensors");
      }
      add(a, b);
    }
    out_.resize(base_.size());
  }

  void report() {
    std::size_t n_coded = 0;
    const double encode = best_seconds(options_.repetitions, [&] { n_coded = encode_all(false); });
    const double make = best_seconds(options_.repetitions, [&] { encode_all(true); });
    const double decode = best_seconds(options_.repetitions, [&] { decode_all(false); });
    const double apply = best_seconds(options_.repetitions, [&] { decode_all(true); });
    if (out_ != values_) {
      fail("decoding gave other values");
    }
    std::printf("{\"n_values\": %zu, \"dense_bytes\": %zu, \"changed\": %.6f, \"delta_bytes\": %zu",
                n_values_, values_.size(), count_changed(), n_coded);
    say("encode", encode);
    say("make_with_digests", make);
    say("decode", decode);
    say("apply_with_digests", apply);
    if (options_.peers != 0) {
      report_peers();
    }
    std::printf("}\n");
  }

 private:
  void add(const bench::Tensor& a, const bench::Tensor& b) {
    const unsigned bits = bits_per_element(b.dtype);
    const std::uint64_t n = b.values.size() * 8 / bits;
    const ChunkGeometry geometry =
        chunk_geometry(b.dtype, n, b.values.size(), options_.chunk_elems);
    for (std::uint64_t i = 0; i < geometry.n_chunks; ++i) {
      Chunk chunk;
      chunk.info.dtype = b.dtype;
      chunk.info.entropy = EntropyId::kRans;
      chunk.info.n_elems = geometry.elems_of(i);
      const std::size_t first = i * geometry.chunk_bytes;
      chunk.base = a.values.subspan(first, geometry.bytes_of(i));
      chunk.values = b.values.subspan(first, geometry.bytes_of(i));
      chunk.info.base = chunk.base;
      chunk.at = base_.size() + first;
      chunks_.push_back(std::move(chunk));
    }
    value_bytes_ = std::max<std::size_t>(1, bits / 8);
    n_values_ += n;
    base_.insert(base_.end(), a.values.begin(), a.values.end());
    values_.insert(values_.end(), b.values.begin(), b.values.end());
  }

  void digest(ByteView bytes) { digests_ += detail::digest_of(bytes)[0] != 0 ? 1 : 0; }

  std::size_t encode_all(bool with_digests) {
    std::size_t n = 0;
    for (Chunk& chunk : chunks_) {
      EncodeJob job;
      job.encoder = find_encoder(CodecId::kDelta);
      job.info = chunk.info;
      job.values = chunk.values;
      if (!codec::encode(job, scratch_, decoded_, chunk.coded)) {
        fail("encoding failed");
      }
      n += chunk.coded.payload.size();
      if (with_digests) {
        digest(chunk.base);
        digest(chunk.values);
      }
    }
    return n;
  }

  void decode_all(bool with_digests) {
    for (const Chunk& chunk : chunks_) {
      const MutableBytes out = MutableBytes(out_).subspan(chunk.at, chunk.values.size());
      if (with_digests) {
        digest(chunk.base);
      }
      if (!codec::decode({find_decoder(CodecId::kDelta), chunk.info, chunk.coded.payload, {}, out},
                         scratch_)) {
        fail("decoding failed");
      }
      if (with_digests) {
        digest(out);
      }
    }
  }

  double count_changed() const {
    std::size_t n = 0;
    for (std::size_t at = 0; at < values_.size(); at += value_bytes_) {
      n += std::memcmp(base_.data() + at, values_.data() + at, value_bytes_) != 0;
    }
    return static_cast<double>(n * value_bytes_) / static_cast<double>(values_.size());
  }

  void say(const char* what, double took) const {
    std::printf(", \"%s_gb_s\": %.3f", what, static_cast<double>(values_.size()) / took / 1e9);
  }

  static void xor_into(ByteView a, ByteView b, std::byte* out) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      out[i] = a[i] ^ b[i];
    }
  }

  void report_peers() {
    std::vector<std::byte> differing(values_.size());
    std::vector<std::byte> frame(ZSTD_compressBound(values_.size()));
    std::size_t n = 0;
    const double make = best_seconds(options_.repetitions, [&] {
      xor_into(base_, values_, differing.data());
      n = ZSTD_compress(frame.data(), frame.size(), differing.data(), differing.size(), 1);
    });
    const double apply = best_seconds(options_.repetitions, [&] {
      ZSTD_decompress(out_.data(), out_.size(), frame.data(), n);
      xor_into(base_, out_, out_.data());
    });
    std::printf(", \"xor_zstd1_bytes\": %zu", n);
    say("xor_zstd1_make", make);
    say("xor_zstd1_apply", apply);
    std::vector<std::byte> planes(differing.size());
    const std::size_t n_all = differing.size() / value_bytes_;
    for (std::size_t i = 0; i < n_all * value_bytes_; ++i) {
      planes[i % value_bytes_ * n_all + i / value_bytes_] = differing[i];
    }
    const auto compressed = [&](const std::vector<std::byte>& from, int level) {
      return ZSTD_compress(frame.data(), frame.size(), from.data(), from.size(), level);
    };
    std::printf(", \"planes_zstd1_bytes\": %zu", compressed(planes, 1));
    std::printf(", \"index_value_bytes\": %zu",
                static_cast<std::size_t>(count_changed() * static_cast<double>(n_all) + 0.5) *
                    (4 + value_bytes_));
    if (options_.peers >= 19) {
      std::printf(", \"xor_zstd19_bytes\": %zu, \"planes_zstd19_bytes\": %zu",
                  compressed(differing, 19), compressed(planes, 19));
    }
  }

  const Options options_;
  std::vector<std::byte> base_, values_, out_, decoded_;
  std::vector<Chunk> chunks_;
  std::size_t n_values_ = 0;
  std::size_t value_bytes_ = 1;
  std::size_t digests_ = 0;
  Scratch scratch_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int i = 1;
  for (; i + 3 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--repetitions") {
      options.repetitions = static_cast<unsigned>(std::max(1, std::atoi(argv[i + 1])));
    } else if (name == "--chunk") {
      options.chunk_elems = static_cast<std::uint64_t>(std::max(64LL, std::atoll(argv[i + 1])));
    } else if (name == "--peers") {
      options.peers = std::atoi(argv[i + 1]);
    } else {
      fail("unknown option; there are --repetitions, --chunk and --peers");
    }
  }
  if (argc - i != 2) {
    fail("give two safetensors files: the base, and the new values");
  }
  const auto base = bench::read_weights(argv[i]);
  const auto values = bench::read_weights(argv[i + 1]);
  if (!base || !values || base->tensors.size() != values->tensors.size()) {
    fail("the files cannot be read, or have other tensors");
  }
  Measurement(*base, *values, options).report();
}
