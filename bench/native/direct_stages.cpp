#include <cmath>
#include <cstring>
#include <memory>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "bench/native/stages.hpp"
#include "codec/common/bin_codes.hpp"
#include "codec/direct/chunk/parameters.hpp"
#include "codec/direct/kernels/kernels.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/rans/writer.hpp"
#include "codec/lossy.hpp"
#include "codec/symboliser/bin_stream.hpp"

namespace cfck::bench {
namespace {

using namespace cfck::codec;

// A tensor of F32 and its plan.
struct PlannedTensor {
  const Tensor* tensor = nullptr;
  double bound = 0;
  ValueSteps steps;
  std::vector<std::byte> out;
  std::unique_ptr<const LossyPlan> plan;
};

// Number of groups that are decoded before they are merged.
inline constexpr std::size_t kBatchGroups = 32;

// A coded chunk, with groups in storage order and without prediction.
struct CodedChunk {
  PlannedTensor* tensor = nullptr;
  std::uint64_t first = 0;
  std::size_t n = 0;
  std::vector<GroupCode> groups;
  BinStream bins;
  std::vector<std::byte> bin_escapes;
  std::array<std::size_t, 1 + kDirectStreams> lengths{};  // with rans the first two
  std::vector<std::int32_t> escapes;
  std::vector<std::byte> exact;  // values of the escapes that are exact
  std::vector<std::byte> coded;  // then the raw bits
  std::size_t coded_bytes = 0;
  EncodedChunk whole;

  ByteView values() const {
    return tensor->tensor->values.subspan(first * sizeof(float), n * sizeof(float));
  }
  MutableBytes out() const {
    return MutableBytes(tensor->out).subspan(first * sizeof(float), n * sizeof(float));
  }
};

class DirectStages {
 public:
  DirectStages(const StageOptions& options, StageClock& clock)
      : options_(options), clock_(clock), is_rans_(options.entropy == EntropyId::kRans) {}

  bool plan(PlannedTensor& planned) {
    LossyRecord record;
    record.dtype = DType::kF32;
    record.shape = planned.tensor->shape;
    record.chunk_elems = options_.chunk_values;
    record.bound = {BoundKind::kAbs, false, planned.bound};
    record.is_forced = true;
    record.entropy = options_.entropy;
    record.level = options_.level;
    const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
      return Result<ByteView>(
          planned.tensor->values.subspan(first * sizeof(float), n * sizeof(float)));
    };
    bool good = true;
    clock_.time("encode: plan", [&] {
      auto decision = find_lossy_encoder(CodecId::kDirect)->plan(record, read, scratch_);
      good = decision.has_value() && decision->plan != nullptr;
      planned.plan = good ? std::move(decision->plan) : nullptr;
    });
    return good;
  }

  void encode(CodedChunk& chunk) {
    const std::size_t n_groups = (chunk.n + kGroupSize - 1) / kGroupSize;
    groups_.resize(n_groups);
    indices_.resize(n_groups * kGroupSize + kGroupSize);
    decoded_.resize(chunk.n * sizeof(float));
    clock_.time("encode: quantise", [&] {
      direct_kernels().quantise(DType::kF32, chunk.values().data(), chunk.n, chunk.tensor->steps,
                                indices_.data(), decoded_.data());
    });
    std::fill(indices_.begin() + static_cast<std::ptrdiff_t>(chunk.n), indices_.end(), 0);
    clock_.time("encode: assign bins",
                [&] { direct_kernels().assign_bins(indices_.data(), chunk.n, groups_.data()); });
    symbols_.resize(n_groups + chunk.n + kDirectStreams * kGroupSize);
    chunk.bin_escapes.resize(2 * n_groups);
    clock_.time("encode: bins", [&] {
      chunk.bins =
          write_bin_stream(groups_.data(), n_groups, symbols_.data(), chunk.bin_escapes.data());
    });
    chunk.groups = groups_;
    is_rans_ ? prepare_run(chunk) : prepare_streams(chunk);
    clock_.time("encode: split", [&] { split(chunk.n); });
    chunk.escapes.assign(escapes_.begin(), escapes_.begin() + n_escapes_);
    gather_exact(chunk);
    clock_.time("encode: entropy", [&] {
      coded_.clear();
      write_symbols(chunk);
    });
    chunk.coded = coded_;
    chunk.coded_bytes = coded_.size();
    chunk.coded.insert(chunk.coded.end(), raw_.begin(), raw_.end());
    clock_.time("encode: hash of values", [&] {
      DigestBuilder digest(decoded_.size());
      digest.hash_whole_leaves(0, decoded_);
    });
    clock_.time("encode: hash of payload", [&] { use(tiled_hash64(chunk.coded)); });
  }

  bool decode(const CodedChunk& chunk) {
    clock_.time("decode: hash of payload", [&] { use(tiled_hash64(chunk.coded)); });
    groups_.resize(chunk.groups.size());
    indices_.resize(groups_.size() * kGroupSize + kGroupSize);
    return (is_rans_ ? decode_lanes(chunk) : decode_streams(chunk)) && keeps_bound(chunk);
  }

  bool encode_whole(CodedChunk& chunk) {
    bool good = true;
    decoded_.resize(chunk.n * sizeof(float));
    ErrorTotals errors;
    clock_.time("encode: whole chunk", [&] {
      good &= chunk.tensor->plan
                  ->encode(chunk.first, chunk.values(), scratch_, decoded_, whole_, errors)
                  .has_value();
    });
    chunk.whole = whole_;
    return good;
  }

  bool decode_whole(const CodedChunk& chunk) {
    ChunkInfo info;
    info.dtype = DType::kF32;
    info.entropy = chunk.tensor->plan->entropy();
    info.n_elems = chunk.n;
    info.preamble = chunk.tensor->plan->preamble();
    info.shape = chunk.tensor->tensor->shape;
    info.first_elem = chunk.first;
    bool good = true;
    clock_.time("decode: whole chunk", [&] {
      good &= find_decoder(CodecId::kDirect)
                  ->decode(info, chunk.whole.payload, scratch_, chunk.out())
                  .has_value();
    });
    return good && keeps_bound(chunk);
  }

 private:
  void prepare_streams(CodedChunk& chunk) {
    chunk.lengths = {groups_.size()};
    std::size_t raw_bytes = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        const BinCode code = kBinCodes.of[groups_[g].scale_bin];
        chunk.lengths[1 + code.stream] += group_symbols(code, group_size(g, chunk.n));
        raw_bytes += group_raw_bytes(code, group_size(g, chunk.n));
      }
    }
    raw_.resize(raw_bytes);
    escapes_.resize(chunk.n);
    std::uint8_t* next = symbols_.data();
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      streams_[s] = {next, chunk.lengths[s]};
      next += chunk.lengths[s] + (s == 0 ? 0 : kGroupSize);
    }
  }

  void prepare_run(CodedChunk& chunk) {
    chunk.lengths = {groups_.size()};
    place_groups();
    std::size_t raw_bytes = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        const SymbolCode code = kSymbolCodes.of[groups_[g].scale_bin];
        chunk.lengths[1] += group_size(g, chunk.n);
        raw_bytes += group_raw_bytes(code, group_size(g, chunk.n));
      }
    }
    raw_.resize(raw_bytes);
    escapes_.resize(chunk.n);
    streams_[0] = {symbols_.data(), groups_.size()};
    streams_[1] = {symbols_.data() + groups_.size(), chunk.lengths[1]};
  }

  // Places of the tables of the groups that have symbols.
  void place_groups() {
    places_.clear();
    for (const GroupCode& group : groups_) {
      if (group.kind != GroupKind::kAllZero) {
        places_.push_back(
            static_cast<std::uint8_t>(kFirstValuePlace + kSymbolCodes.of[group.scale_bin].table));
      }
    }
  }

  void split(std::size_t n) {
    DirectSplit to;
    for (unsigned s = 0; s < kDirectStreams; ++s) {
      to.streams[s] = const_cast<std::uint8_t*>(streams_[1 + s].data());
    }
    to.raw = raw_.data();
    to.escapes = escapes_.data();
    const DirectKernels& kernels = direct_kernels();
    (is_rans_ ? kernels.split_symbols : kernels.split)(indices_.data(), n, groups_.data(), to);
    n_escapes_ = to.escapes - escapes_.data();
  }

  void gather_exact(CodedChunk& chunk) const {
    chunk.exact.clear();
    const ByteView values = chunk.values();
    for (std::size_t i = 0; i < chunk.n; ++i) {
      if (indices_[i] == kExact) {
        const auto at = values.begin() + static_cast<std::ptrdiff_t>(i * sizeof(float));
        chunk.exact.insert(chunk.exact.end(), at, at + sizeof(float));
      }
    }
  }

  void write_symbols(const CodedChunk& chunk) {
    if (!is_rans_) {
      find_entropy_encoder(EntropyId::kZstd)->encode(streams_, coded_);
      return;
    }
    RansSymbols symbols;
    symbols.bins = run_of(streams_[0], nullptr, kBinPlace);
    symbols.values = run_of(streams_[1], places_.data(), 0);
    symbols.tables = kDirectValueTables;
    symbols.n_sets = lane_sets_for(chunk.n);
    append_rans_section(symbols, scratch_, coded_);
  }

  bool read_bins(const CodedChunk& chunk, const std::uint8_t* symbols) {
    return read_bin_stream({symbols, groups_.size()}, chunk.bins.first_bin, kMaxDirectBin,
                           ByteView(chunk.bin_escapes).first(2 * chunk.bins.n_escapes),
                           groups_.data());
  }

  bool decode_streams(const CodedChunk& chunk) {
    const std::size_t total =
        std::accumulate(chunk.lengths.begin(), chunk.lengths.end(), std::size_t{0});
    symbols_.resize(total + kGroupSize);
    bool good = true;
    clock_.time("decode: entropy", [&] {
      good &= find_entropy_decoder(EntropyId::kZstd)
                  ->decode(ByteView(chunk.coded).first(chunk.coded_bytes), chunk.lengths, scratch_,
                           {symbols_.data(), total})
                  .has_value();
    });
    clock_.time("decode: bins", [&] { good &= read_bins(chunk, symbols_.data()); });
    clock_.time("decode: merge", [&] {
      DirectMerge from = cursors(chunk);
      const std::uint8_t* next = symbols_.data() + chunk.lengths[0];
      for (unsigned s = 0; s < kDirectStreams; ++s) {
        from.streams[s] = next;
        next += chunk.lengths[1 + s];
      }
      good &= direct_kernels().merge(indices_.data(), chunk.n, groups_.data(), from);
    });
    clock_.time("decode: dequantise", [&] {
      direct_kernels().dequantise(DType::kF32, indices_.data(), chunk.n, chunk.tensor->steps,
                                  chunk.out().data());
    });
    return good;
  }

  // The codec decodes some groups and merges them before it continues; each alone is timed for
  // comparison.
  bool decode_lanes(const CodedChunk& chunk) {
    const std::size_t workspace = groups_.size() + kGroupSize;
    symbols_.resize(workspace + chunk.n + 2 * kGroupSize);
    std::uint8_t* const values = symbols_.data() + workspace;
    bool good = true;
    clock_.time("decode: bins", [&] {
      good &= reader_
                  .open(ByteView(chunk.coded).first(chunk.coded_bytes),
                        chunk.coded.data() + chunk.coded.size(), kDirectValueTables)
                  .has_value() &&
              reader_.decode({symbols_.data(), groups_.size(), nullptr, kBinPlace}) &&
              read_bins(chunk, symbols_.data());
    });
    place_groups();
    const RansLanes lanes = reader_.lanes();
    clock_.time("decode: entropy alone", [&] {
      reader_.lanes() = lanes;
      good &= reader_.decode({values, chunk.lengths[1], places_.data(), 0});
    });
    clock_.time("decode: merge alone", [&] {
      DirectMerge from = cursors(chunk);
      from.streams[0] = values;
      good &= merge_values(chunk, 0, groups_.size(), from);
    });
    clock_.time("decode: entropy and merge", [&] {
      reader_.lanes() = lanes;
      good &= decode_in_batches(chunk, values);
    });
    return good;
  }

  bool decode_in_batches(const CodedChunk& chunk, std::uint8_t* symbols) {
    DirectMerge from = cursors(chunk);
    const std::uint8_t* places = places_.data();
    bool good = true;
    for (std::size_t first = 0; good && first < groups_.size(); first += kBatchGroups) {
      const std::size_t last = std::min(first + kBatchGroups, groups_.size());
      std::size_t n_symbols = 0;
      std::size_t n_places = 0;
      for (std::size_t g = first; g < last; ++g) {
        if (groups_[g].kind != GroupKind::kAllZero) {
          n_symbols += group_size(g, chunk.n);
          ++n_places;
        }
      }
      good = reader_.decode({symbols, n_symbols, places, 0});
      places += n_places;
      from.streams[0] = symbols;
      good = good && merge_values(chunk, first, last, from);
    }
    return good;
  }

  bool merge_values(const CodedChunk& chunk, std::size_t first, std::size_t last,
                    DirectMerge& from) const {
    const std::size_t at = first * kGroupSize;
    return direct_kernels().merge_values(DType::kF32, std::min(chunk.n, last * kGroupSize) - at,
                                         groups_.data() + first, chunk.tensor->steps, from,
                                         chunk.out().data() + at * sizeof(float));
  }

  DirectMerge cursors(const CodedChunk& chunk) const {
    DirectMerge from;
    from.raw = chunk.coded.data() + chunk.coded_bytes;
    from.escapes = chunk.escapes.data();
    from.n_escapes = chunk.escapes.size();
    from.exact = chunk.exact.data();
    return from;
  }

  // Values that quantising kept exactly are left out: kernels alone lose them.
  bool keeps_bound(const CodedChunk& chunk) const {
    const ByteView values = chunk.values();
    const MutableBytes out = chunk.out();
    std::size_t n_beyond = 0;
    for (std::size_t i = 0; i < values.size(); i += sizeof(float)) {
      const double x = load<float>(values.data() + i);
      n_beyond += std::fabs(x - load<float>(out.data() + i)) > chunk.tensor->bound ? 1 : 0;
    }
    return n_beyond * 1000 <= chunk.n;
  }

  const StageOptions& options_;
  StageClock& clock_;
  const bool is_rans_;
  Scratch scratch_;
  RansReader reader_;
  std::vector<GroupCode> groups_;
  std::vector<std::int32_t> indices_;
  std::vector<std::uint8_t> symbols_;
  std::vector<std::uint8_t> places_;
  std::array<SymbolStream, 1 + kDirectStreams> streams_{};
  std::vector<std::byte> raw_;
  std::vector<std::int32_t> escapes_;
  std::ptrdiff_t n_escapes_ = 0;
  std::vector<std::byte> coded_;
  std::vector<std::byte> decoded_;
  EncodedChunk whole_;
};

std::vector<PlannedTensor> planned_tensors(const std::vector<Tensor>& tensors, double rel_bound) {
  std::vector<PlannedTensor> planned(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    planned[i].tensor = &tensors[i];
    planned[i].bound = rel_bound * value_range(tensors[i]);
    planned[i].steps.step = *step_of(planned[i].bound);
    planned[i].steps.bound = planned[i].bound;
    planned[i].out.resize(tensors[i].values.size());
  }
  return planned;
}

}  // namespace

bool time_direct_stages(const std::vector<Tensor>& tensors, const StageOptions& options,
                        StageClock& clock) {
  std::vector<PlannedTensor> planned = planned_tensors(tensors, options.rel_bound);
  DirectStages stages(options, clock);
  std::vector<CodedChunk> chunks;
  bool good = true;
  for (PlannedTensor& tensor : planned) {
    const std::size_t n_values = tensor.out.size() / sizeof(float);
    for (std::size_t first = 0; first < n_values; first += options.chunk_values) {
      CodedChunk& chunk = chunks.emplace_back();
      chunk.tensor = &tensor;
      chunk.first = first;
      chunk.n = std::min(options.chunk_values, n_values - first);
    }
    clock.time("memcpy", [&] {
      std::memcpy(tensor.out.data(), tensor.tensor->values.data(), tensor.out.size());
    });
    good = good && stages.plan(tensor);
  }
  for (std::size_t i = 0; good && i < chunks.size(); ++i) {
    stages.encode(chunks[i]);
  }
  for (std::size_t i = 0; good && i < chunks.size(); ++i) {
    good = stages.encode_whole(chunks[i]);
  }
  for (std::size_t i = 0; good && i < chunks.size(); ++i) {
    good = stages.decode(chunks[i]);
  }
  for (std::size_t i = 0; good && i < chunks.size(); ++i) {
    good = stages.decode_whole(chunks[i]);
  }
  return good;
}

}  // namespace cfck::bench
