// Times of the stages of a codec on real values, one pass over them after another.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "bench/native/weights.hpp"
#include "cfck/options.hpp"
#include "codec/entropy/rans/kernels/kernels.hpp"

namespace cfck::bench {

// Keeps a compiler from removing what computes `value`.
inline void use(std::uint64_t value) { asm volatile("" : : "r"(value)); }

// Symbols that a writer takes as a run; it only reads them.
inline codec::SymbolRun run_of(std::span<const std::uint8_t> symbols, const std::uint8_t* places,
                               std::uint8_t place) {
  return {const_cast<std::uint8_t*>(symbols.data()), symbols.size(), places, place};
}

// Values of group g of n values.
inline std::size_t group_size(std::size_t g, std::size_t n) {
  return std::min<std::size_t>(codec::kGroupSize, n - g * codec::kGroupSize);
}

struct StageOptions {
  EntropyId entropy = kDefaultEntropy;
  EncodeLevel level = EncodeLevel::kDefault;
  double rel_bound = 0;  // of each tensor's range; for the direct codec
  std::size_t chunk_values = 0;
  // Every stage runs twice on a chunk and the second run is timed: its input and output are in the
  // cache if the chunk is small.
  bool warm = false;
};

// Seconds of every call, in order; calls of all passes over the same values pair up.
struct Stage {
  std::string name;
  std::vector<double> calls;

  double seconds() const { return std::accumulate(calls.begin(), calls.end(), 0.0); }
};

// Stages in the order in which they were first timed. "whole" contains others.
class StageClock {
 public:
  explicit StageClock(bool warm) : warm_(warm) {}

  // `action` must be able to run twice.
  template <class Action>
  void time(const char* name, Action&& action) {
    if (warm_) {
      action();
    }
    const auto start = std::chrono::steady_clock::now();
    action();
    const auto end = std::chrono::steady_clock::now();
    stage(name).calls.push_back(std::chrono::duration<double>(end - start).count());
  }

  const std::vector<Stage>& stages() const { return stages_; }

  // Keeps the shorter time of each call: others use the machine too.
  void keep_best(const StageClock& other) {
    for (const Stage& theirs : other.stages_) {
      Stage& own = stage(theirs.name.c_str());
      if (own.calls.empty()) {
        own.calls = theirs.calls;
      }
      for (std::size_t i = 0; i < own.calls.size(); ++i) {
        own.calls[i] = std::min(own.calls[i], theirs.calls[i]);
      }
    }
  }

 private:
  Stage& stage(const char* name) {
    const auto found = std::find_if(stages_.begin(), stages_.end(),
                                    [&](const Stage& s) { return s.name == name; });
    return found != stages_.end() ? *found : stages_.emplace_back(Stage{name, {}});
  }

  bool warm_;
  std::vector<Stage> stages_;
};

// Does one pass over all chunks that encodes, one that decodes, and one that copies. False where
// the decoded values are not the encoded ones, or break the bound.
bool time_lossless_stages(const std::vector<Tensor>& tensors, const StageOptions& options,
                          StageClock& clock);
bool time_direct_stages(const std::vector<Tensor>& tensors, const StageOptions& options,
                        StageClock& clock);

}  // namespace cfck::bench
