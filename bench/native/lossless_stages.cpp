#include <cstring>
#include <memory>

#include "base/hashing/hashing.hpp"
#include "bench/native/stages.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/rans/writer.hpp"
#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/float_format.hpp"

namespace cfck::bench {
namespace {

using namespace cfck::codec;

// A coded chunk, as compact as in a payload.
struct StoredChunk {
  ByteView values;
  MutableBytes out;
  std::vector<GroupCode> groups;
  SymbolLayout layout;
  BinStream bins;
  std::vector<std::byte> bin_escapes;
  std::array<std::size_t, 2 + kPhases> lengths{};
  std::vector<std::byte> escapes;
  std::vector<std::byte> coded;  // then the raw bits
  std::size_t coded_bytes = 0;
  EncodedChunk whole;
};

template <class Format>
class LosslessStages {
  using Word = typename Format::Word;
  static constexpr bool kIsRans = Format::kSymbolMantissaBits == 1;

 public:
  LosslessStages(const StageOptions& options, StageClock& clock)
      : options_(options), clock_(clock) {}

  void encode(StoredChunk& chunk) {
    const std::size_t n = chunk.values.size() / sizeof(Word);
    const std::size_t n_groups = (n + kGroupSize - 1) / kGroupSize;
    groups_.resize(n_groups);
    clock_.time("encode: analyse", [&] {
      chunk.layout.has_signs =
          chunk_kernels<Format>().analyse(chunk.values.data(), n, groups_.data()).has_signs;
    });
    chunk.layout.n_tables = kIsRans || n < 4096 ? 1 : kPhases;
    symbols_.resize(2 * n_groups + n + (kPhases + 1) * kGroupSize);
    places_.resize(n_groups);
    chunk.bin_escapes.resize(2 * n_groups);
    clock_.time("encode: bins", [&] { write_bins(chunk); });
    chunk.groups = groups_;
    prepare_streams(chunk, n);
    if constexpr (kIsRans) {
      // The codec does both at once; each alone is timed for comparison, and for what is left to
      // do.
      clock_.time("encode: analyse and split", [&] {
        SplitCursors to = split_cursors();
        chunk_kernels<Format>().analyse_and_split(chunk.values.data(), n, groups_.data(), to);
      });
      groups_ = chunk.groups;
    }
    clock_.time("encode: split", [&] { split(chunk, n); });
    chunk.escapes.assign(escapes_.begin(), escapes_.begin() + escape_bytes_);
    clock_.time("encode: entropy", [&] {
      coded_.clear();
      write_symbols(chunk);
    });
    chunk.coded = coded_;
    chunk.coded_bytes = coded_.size();
    chunk.coded.insert(chunk.coded.end(), raw_.begin(),
                       raw_.begin() + static_cast<std::ptrdiff_t>(raw_bytes_));
    clock_.time("encode: hash of values", [&] {
      DigestBuilder digest(chunk.values.size());
      digest.hash_whole_leaves(0, chunk.values);
    });
    clock_.time("encode: hash of payload", [&] { use(tiled_hash64(chunk.coded)); });
  }

  bool decode(const StoredChunk& chunk) {
    clock_.time("decode: hash of payload", [&] { use(tiled_hash64(chunk.coded)); });
    groups_.resize(chunk.groups.size());
    bool good = true;
    if constexpr (kIsRans) {
      good = decode_lanes(chunk);
    } else {
      good = decode_streams(chunk);
    }
    return good && std::memcmp(chunk.out.data(), chunk.values.data(), chunk.out.size()) == 0;
  }

  bool encode_whole(DType dtype, StoredChunk& chunk) {
    bool good = true;
    clock_.time("encode: whole", [&] {
      good &= find_encoder(CodecId::kLossless)
                  ->encode(info(dtype, chunk), chunk.values, scratch_, whole_)
                  .has_value();
    });
    chunk.whole = whole_;
    return good;
  }

  bool decode_whole(DType dtype, const StoredChunk& chunk) {
    bool good = true;
    clock_.time("decode: whole", [&] {
      good &= find_decoder(CodecId::kLossless)
                  ->decode(info(dtype, chunk), chunk.whole.payload, scratch_, chunk.out)
                  .has_value();
    });
    return good && std::memcmp(chunk.out.data(), chunk.values.data(), chunk.out.size()) == 0;
  }

 private:
  ChunkInfo info(DType dtype, const StoredChunk& chunk) const {
    ChunkInfo found;
    found.dtype = dtype;
    found.entropy = options_.entropy;
    found.n_elems = chunk.values.size() / sizeof(Word);
    found.level = options_.level;
    return found;
  }

  void write_bins(StoredChunk& chunk) {
    const std::size_t n_groups = groups_.size();
    for (std::size_t g = 0; g < n_groups; ++g) {
      groups_[g].trailing_zero_bits =
          groups_[g].kind == GroupKind::kAllZero ? 0 : groups_[g].trailing_zero_bits;
      symbols_[n_groups + g] = groups_[g].trailing_zero_bits;
    }
    chunk.bins =
        write_bin_stream(groups_.data(), n_groups, symbols_.data(), chunk.bin_escapes.data());
    if (kIsRans) {
      place_groups();
    }
  }

  // Places of the tables of the groups that have symbols.
  void place_groups() {
    std::uint8_t* next = places_.data();
    for (const GroupCode& group : groups_) {
      if (group.kind != GroupKind::kAllZero) {
        *next++ = static_cast<std::uint8_t>(kFirstValuePlace + group.scale_bin % kPhases);
      }
    }
  }

  void write_symbols(const StoredChunk& chunk) {
    if constexpr (kIsRans) {
      RansSymbols symbols;
      symbols.bins = run_of(streams_[0], nullptr, kBinPlace);
      symbols.trailing_zero_bits = run_of(streams_[1], nullptr, kCleanPlace);
      symbols.values = run_of(streams_[2], places_.data(), 0);
      symbols.tables = kLosslessValueTables;
      symbols.n_sets = lane_sets_for(chunk.values.size() / sizeof(Word));
      append_rans_section(symbols, scratch_, coded_);
    } else {
      find_entropy_encoder(EntropyId::kZstd)->encode(streams_, coded_);
    }
  }

  bool decode_streams(const StoredChunk& chunk) {
    std::size_t total = 0;
    for (const std::size_t length : chunk.lengths) {
      total += length;
    }
    symbols_.resize(total + kGroupSize);
    bool good = true;
    clock_.time("decode: entropy", [&] {
      good &= find_entropy_decoder(EntropyId::kZstd)
                  ->decode(ByteView(chunk.coded).first(chunk.coded_bytes), chunk.lengths, scratch_,
                           {symbols_.data(), total})
                  .has_value();
    });
    const std::size_t n_groups = groups_.size();
    clock_.time("decode: bins",
                [&] { good &= read_bins(chunk, symbols_.data(), symbols_.data() + n_groups); });
    clock_.time("decode: merge", [&] {
      good &= merge(chunk, symbols_.data() + chunk.lengths[0] + chunk.lengths[1]);
    });
    return good;
  }

  // The codec merges groups as it decodes them; each alone is timed for comparison.
  bool decode_lanes(const StoredChunk& chunk) {
    const std::size_t n_groups = groups_.size();
    const std::size_t workspace = n_groups + kGroupSize;
    symbols_.resize(2 * workspace + chunk.lengths[2] + kGroupSize);
    std::uint8_t* const clean = symbols_.data() + workspace;
    std::uint8_t* const values = clean + workspace;
    bool good = true;
    clock_.time("decode: bins", [&] {
      good &= reader_
                  .open(ByteView(chunk.coded).first(chunk.coded_bytes),
                        chunk.coded.data() + chunk.coded.size(), kLosslessValueTables)
                  .has_value() &&
              reader_.decode({symbols_.data(), n_groups, nullptr, kBinPlace}) &&
              reader_.decode({clean, n_groups, nullptr, kCleanPlace}) &&
              read_bins(chunk, symbols_.data(), clean);
    });
    places_.resize(n_groups);
    place_groups();
    const RansLanes lanes = reader_.lanes();
    clock_.time("decode: entropy alone", [&] {
      reader_.lanes() = lanes;
      good &= reader_.decode({values, chunk.lengths[2], places_.data(), 0});
    });
    clock_.time("decode: merge alone", [&] { good &= merge(chunk, values); });
    std::memset(chunk.out.data(), 0, chunk.out.size());
    clock_.time("decode: entropy and merge", [&] {
      reader_.lanes() = lanes;
      MergeCursors from = cursors(chunk);
      good &= chunk_kernels<Format>().merge_coded(
          chunk.out.data(), chunk.values.size() / sizeof(Word), groups_.data(), chunk.layout,
          reader_.lanes(), reader_.tables() + kFirstValuePlace, from);
    });
    return good;
  }

  void prepare_streams(StoredChunk& chunk, std::size_t n) {
    const std::size_t n_groups = groups_.size();
    chunk.lengths = {n_groups, n_groups};
    raw_bytes_ = 0;
    for (std::size_t g = 0; g < n_groups; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        const unsigned table = chunk.layout.n_tables == 1 ? 0 : groups_[g].scale_bin % kPhases;
        chunk.lengths[2 + table] += group_size(g, n);
        raw_bytes_ += raw_group_bytes<Format>(chunk.layout.has_signs, groups_[g].trailing_zero_bits,
                                              group_size(g, n));
      }
    }
    // The maximum that analyse_and_split() may write.
    raw_.resize(groups_.size() * raw_group_bytes<Format>(true, 0, kGroupSize));
    escapes_.resize(n * sizeof(Word));
    std::uint8_t* next = symbols_.data();
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      streams_[s] = {next, chunk.lengths[s]};
      next += chunk.lengths[s] + (s < 2 ? 0 : kGroupSize);
    }
  }

  SplitCursors split_cursors() {
    SplitCursors to;
    for (unsigned t = 0; t < kPhases; ++t) {
      to.streams[t] = const_cast<std::uint8_t*>(streams_[2 + t].data());
    }
    to.raw = raw_.data();
    to.escapes = escapes_.data();
    return to;
  }

  void split(const StoredChunk& chunk, std::size_t n) {
    SplitCursors to = split_cursors();
    chunk_kernels<Format>().split(chunk.values.data(), n, groups_.data(), chunk.layout, to);
    escape_bytes_ = to.escapes - escapes_.data();
  }

  bool read_bins(const StoredChunk& chunk, const std::uint8_t* bins, const std::uint8_t* clean) {
    const std::size_t n_groups = groups_.size();
    const bool good = read_bin_stream({bins, n_groups}, chunk.bins.first_bin, max_bin<Format>(),
                                      ByteView(chunk.bin_escapes).first(2 * chunk.bins.n_escapes),
                                      groups_.data());
    for (std::size_t g = 0; g < n_groups; ++g) {
      groups_[g].trailing_zero_bits = clean[g];
    }
    return good;
  }

  MergeCursors cursors(const StoredChunk& chunk) const {
    MergeCursors from;
    from.raw = chunk.coded.data() + chunk.coded_bytes;
    from.escapes = chunk.escapes.data();
    from.n_escapes = chunk.escapes.size() / sizeof(Word);
    return from;
  }

  bool merge(const StoredChunk& chunk, const std::uint8_t* symbols) {
    MergeCursors from = cursors(chunk);
    for (unsigned t = 0; t < kPhases; ++t) {
      from.streams[t] = symbols;
      symbols += chunk.lengths[2 + t];
    }
    return chunk_kernels<Format>().merge(chunk.out.data(), chunk.values.size() / sizeof(Word),
                                         groups_.data(), chunk.layout, from);
  }

  const StageOptions& options_;
  StageClock& clock_;
  Scratch scratch_;
  std::vector<GroupCode> groups_;
  std::vector<std::uint8_t> symbols_;
  std::vector<std::uint8_t> places_;
  RansReader reader_;
  std::array<SymbolStream, 2 + kPhases> streams_{};
  std::size_t raw_bytes_ = 0;
  std::ptrdiff_t escape_bytes_ = 0;
  std::vector<std::byte> raw_;
  std::vector<std::byte> escapes_;
  std::vector<std::byte> coded_;
  EncodedChunk whole_;
};

template <class Format>
bool time_format(const std::vector<Tensor>& tensors, const StageOptions& options,
                 StageClock& clock) {
  const std::size_t chunk_bytes = options.chunk_values * sizeof(typename Format::Word);
  std::vector<std::vector<std::byte>> outputs;
  std::vector<StoredChunk> chunks;
  for (const Tensor& tensor : tensors) {
    MutableBytes out = outputs.emplace_back(tensor.values.size());
    for (std::size_t at = 0; at < tensor.values.size(); at += chunk_bytes) {
      const std::size_t n = std::min(chunk_bytes, tensor.values.size() - at);
      StoredChunk& chunk = chunks.emplace_back();
      chunk.values = tensor.values.subspan(at, n);
      chunk.out = out.subspan(at, n);
    }
  }
  LosslessStages<Format> stages(options, clock);
  const DType dtype = tensors.front().dtype;
  bool good = true;
  for (StoredChunk& chunk : chunks) {
    clock.time("memcpy",
               [&] { std::memcpy(chunk.out.data(), chunk.values.data(), chunk.out.size()); });
  }
  for (StoredChunk& chunk : chunks) {
    stages.encode(chunk);
  }
  for (StoredChunk& chunk : chunks) {
    good &= stages.encode_whole(dtype, chunk);
  }
  for (StoredChunk& chunk : chunks) {
    std::fill(chunk.out.begin(), chunk.out.end(), std::byte{0});
  }
  for (const StoredChunk& chunk : chunks) {
    good &= stages.decode(chunk);
  }
  for (const StoredChunk& chunk : chunks) {
    good &= stages.decode_whole(dtype, chunk);
  }
  return good;
}

}  // namespace

bool time_lossless_stages(const std::vector<Tensor>& tensors, const StageOptions& options,
                          StageClock& clock) {
  return visit_format(
      tensors.front().dtype,
      [&](auto tag) {
        using Format = typename decltype(tag)::type;
        return options.entropy == EntropyId::kRans
                   ? time_format<With32Symbols<Format>>(tensors, options, clock)
                   : time_format<Format>(tensors, options, clock);
      },
      [] { return false; });
}

}  // namespace cfck::bench
