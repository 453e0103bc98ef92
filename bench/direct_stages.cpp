#include <cmath>
#include <cstring>
#include <memory>

#include "base/bytes.hpp"
#include "base/hashing.hpp"
#include "bench/stages.hpp"
#include "codec/direct/class_codes.hpp"
#include "codec/direct/direct_kernels.hpp"
#include "codec/direct/parameters.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/lossy.hpp"
#include "codec/symboliser/class_stream.hpp"

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

// What the stages make of a chunk, groups in storage order and nothing predicted.
struct CodedChunk {
  PlannedTensor* tensor = nullptr;
  std::uint64_t first = 0;
  std::size_t n = 0;
  std::vector<GroupCode> groups;
  ClassStream classes;
  std::vector<std::byte> class_escapes;
  std::array<std::size_t, 1 + kDirectStreams> lengths{};
  std::vector<std::byte> raw;
  std::vector<std::int32_t> escapes;
  std::vector<std::byte> coded;
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
  DirectStages(const StageOptions& options, StageClock& clock) : options_(options), clock_(clock) {}

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
    codes_.resize(n_groups * kGroupSize + kGroupSize);
    decoded_.resize(chunk.n * sizeof(float));
    clock_.time("encode: quantise", [&] {
      direct_kernels().quantise(DType::kF32, chunk.values().data(), chunk.n, chunk.tensor->steps,
                                codes_.data(), decoded_.data());
    });
    std::fill(codes_.begin() + static_cast<std::ptrdiff_t>(chunk.n), codes_.end(), 0);
    clock_.time("encode: classify",
                [&] { direct_kernels().classify(codes_.data(), chunk.n, groups_.data()); });
    symbols_.resize(n_groups + chunk.n + kDirectStreams * kGroupSize);
    chunk.class_escapes.resize(2 * n_groups);
    clock_.time("encode: classes", [&] {
      chunk.classes =
          write_class_stream(groups_.data(), n_groups, symbols_.data(), chunk.class_escapes.data());
    });
    chunk.groups = groups_;
    prepare_streams(chunk);
    clock_.time("encode: split", [&] { split(chunk.n); });
    chunk.raw = raw_;
    chunk.escapes.assign(escapes_.begin(), escapes_.begin() + n_escapes_);
    const EntropyEncoder* const stage = find_entropy_encoder(options_.entropy);
    clock_.time("encode: entropy", [&] {
      coded_.clear();
      stage->encode(streams_, coded_);
    });
    chunk.coded = coded_;
    clock_.time("encode: hash of values", [&] {
      DigestBuilder digest(decoded_.size());
      digest.hash_whole_leaves(0, decoded_);
    });
    clock_.time("encode: hash of payload", [&] { use(hash64(raw_) + hash64(coded_)); });
  }

  bool decode(const CodedChunk& chunk) {
    clock_.time("decode: hash of payload", [&] { use(hash64(chunk.raw) + hash64(chunk.coded)); });
    std::size_t total = 0;
    for (const std::size_t length : chunk.lengths) {
      total += length;
    }
    symbols_.resize(total + kGroupSize);
    bool good = true;
    const EntropyDecoder* const stage = find_entropy_decoder(options_.entropy);
    clock_.time("decode: entropy", [&] {
      good &=
          stage->decode(chunk.coded, chunk.lengths, scratch_, {symbols_.data(), total}).has_value();
    });
    groups_.resize(chunk.groups.size());
    codes_.resize(groups_.size() * kGroupSize + kGroupSize);
    clock_.time("decode: classes", [&] {
      good &= read_class_stream(
          {symbols_.data(), groups_.size()}, chunk.classes.first_class, kMaxDirectClass,
          ByteView(chunk.class_escapes).first(2 * chunk.classes.n_escapes), groups_.data());
    });
    clock_.time("decode: merge", [&] { good &= merge(chunk); });
    clock_.time("decode: dequantise", [&] {
      direct_kernels().dequantise(DType::kF32, codes_.data(), chunk.n, chunk.tensor->steps,
                                  chunk.out().data());
    });
    return good && keeps_bound(chunk);
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
        const ClassCode code = kClassCodes.of[groups_[g].scale_class];
        const std::size_t n = std::min<std::size_t>(kGroupSize, chunk.n - g * kGroupSize);
        chunk.lengths[1 + code.stream] += group_symbols(code, n);
        raw_bytes += group_raw_bytes(code, n);
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

  void split(std::size_t n) {
    DirectSplit to;
    for (unsigned s = 0; s < kDirectStreams; ++s) {
      to.streams[s] = const_cast<std::uint8_t*>(streams_[1 + s].data());
    }
    to.raw = raw_.data();
    to.escapes = escapes_.data();
    direct_kernels().split(codes_.data(), n, groups_.data(), to);
    n_escapes_ = to.escapes - escapes_.data();
  }

  bool merge(const CodedChunk& chunk) {
    DirectMerge from;
    const std::uint8_t* next = symbols_.data() + chunk.lengths[0];
    for (unsigned s = 0; s < kDirectStreams; ++s) {
      from.streams[s] = next;
      next += chunk.lengths[1 + s];
    }
    from.raw = chunk.raw.data();
    from.escapes = chunk.escapes.data();
    from.n_escapes = chunk.escapes.size();
    return direct_kernels().merge(codes_.data(), chunk.n, groups_.data(), from);
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
  Scratch scratch_;
  std::vector<GroupCode> groups_;
  std::vector<std::int32_t> codes_;
  std::vector<std::uint8_t> symbols_;
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
