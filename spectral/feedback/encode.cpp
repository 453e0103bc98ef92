#include "spectral/feedback/encode.hpp"

#include <algorithm>
#include <cmath>

#include "spectral/kernels/trellis_steps.hpp"

namespace cfck::spectral {
namespace {

class BlockEncoder {
 public:
  BlockEncoder(const RowBlocks& blocks, const SpectralGeometry& geometry,
               const SpectralParameters& parameters, const SecondMoments& moments,
               const TrellisSearch& search, float* values, float* compensated)
      : blocks_(blocks),
        moments_(moments),
        sides_(transformed_sides(parameters)),
        trellis_(trellis_of(parameters.n_states)),
        found_(search),
        values_(values),
        compensated_(compensated),
        scales_(scales_of(geometry, parameters)),
        states_(blocks.n_lanes()) {}

  bool run() {
    for (const RowBlock& block : blocks_.blocks()) {
      if (!prepare(block)) {
        return false;
      }
      collect(block);
      spectral_kernels().search_feedback(search_);
      spread(block);
      if (compensated_ != nullptr) {
        tell_aims(block);
      }
    }
    return true;
  }

 private:
  // Scales of the steps by place in a row; what rows add is common to all places.
  static std::vector<float> scales_of(const SpectralGeometry& geometry,
                                      const SpectralParameters& parameters) {
    SpectralParameters relative = parameters;
    relative.step = 1;
    relative.steps.rows.clear();
    std::vector<float> scales(geometry.row_values());
    coefficient_steps(geometry, relative, 0, scales.size(), scales.data());
    return scales;
  }

  // Prepares what depends only on the number of rows.
  bool prepare(const RowBlock& block) {
    const unsigned n_folds = blocks_.n_lanes() / block.n_rows;
    if (search_.n_rows == block.n_rows) {
      return true;
    }
    const std::size_t n = blocks_.n_columns();
    turns_.clear();
    fold_begins_.clear();
    SecondMoments::Order order;
    for (unsigned fold = 0; fold < n_folds; ++fold) {
      fold_begins_.push_back(turns_.size());
      for (std::size_t j = fold; j < n; j += n_folds) {
        turns_.push_back(static_cast<std::uint32_t>(j));
        order.push_back(blocks_.columns()[j]);
      }
    }
    fold_begins_.push_back(n);
    feedback_ = moments_.feedback(sides_, order);
    if (feedback_->n != n) {
      return false;
    }
    columns_.resize(n);
    for (std::size_t k = 0; k < n; ++k) {
      columns_[k].scale = scales_[order[k]];
      columns_[k].inverse = 1 / columns_[k].scale;
    }
    targets_.resize(n * block.n_rows);
    indices_.resize(n * block.n_rows);
    errors_.resize(n * block.n_rows);
    workspace_.resize(n * 16);
    start_states_.resize(std::size_t{n_folds} * block.n_rows);
    search_ = {n,
               block.n_rows,
               found_.n_states,
               columns_.data(),
               feedback_->coefficients.data(),
               targets_.data(),
               n_folds,
               fold_begins_.data(),
               start_states_.data(),
               indices_.data(),
               errors_.data(),
               workspace_.data()};
    return true;
  }

  // Returns where the rows' coefficients of the k-th column searched begin in the order.
  std::size_t first_of(const RowBlock& block, std::size_t k) const {
    return block.first + std::size_t{turns_[k]} * block.n_rows;
  }

  void collect(const RowBlock& block) {
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const std::size_t first = first_of(block, k);
      columns_[k].scale_bin = found_.groups[first / kGroupSize].scale_bin;
      for (unsigned i = 0; i < block.n_rows; ++i) {
        targets_[k * block.n_rows + i] = values_[first + i];
      }
    }
    for (unsigned fold = 0; fold < search_.n_folds; ++fold) {
      for (unsigned i = 0; i < block.n_rows; ++i) {
        start_states_[fold * block.n_rows + i] =
            states_[(block.first + std::size_t{fold} * block.n_rows + i) % states_.size()];
      }
    }
  }

  void spread(const RowBlock& block) {
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const SymbolCode& code = kSymbolCodes.of[columns_[k].scale_bin];
      for (unsigned i = 0; i < block.n_rows; ++i) {
        put(first_of(block, k) + i, code.low_bits, k * block.n_rows + i, columns_[k].inverse);
      }
    }
  }

  void tell_aims(const RowBlock& block) {
    const std::size_t n_rows = block.n_rows;
    std::vector<float> sums(n_rows);
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      const float* const coefficients = search_.coefficients + k * columns_.size();
      for (std::size_t before = 0; before < k; ++before) {
        for (std::size_t i = 0; i < n_rows; ++i) {
          sums[i] += coefficients[before] * errors_[before * n_rows + i];
        }
      }
      for (std::size_t i = 0; i < n_rows; ++i) {
        compensated_[first_of(block, k) + i] =
            targets_[k * n_rows + i] + columns_[k].inverse * sums[i];
      }
    }
  }

  void put(std::size_t number, unsigned low_bits, std::size_t from, float inverse) {
    const bool escapes = indices_[from] == kEscapedIndex;
    const std::int32_t index = escapes ? 0 : indices_[from];
    if (escapes) {
      values_[number] = std::nearbyint(targets_[from] - errors_[from] * inverse);
    }
    found_.symbols[number] =
        static_cast<std::uint8_t>(escapes ? kSpectralEscape : symbol_of(index, low_bits));
    found_.indices[number] = index;
    std::uint8_t& state = states_[number % states_.size()];
    found_.quantisers[number] =
        static_cast<std::uint8_t>(trellis_ == nullptr ? 0 : trellis_->table(state));
    if (trellis_ != nullptr) {
      state = trellis_->next[state][index & 1];
    }
  }

  const RowBlocks& blocks_;
  const SecondMoments& moments_;
  const SecondMoments::Sides sides_;
  const Trellis* const trellis_;
  const TrellisSearch& found_;
  float* const values_;
  float* const compensated_;
  const std::vector<float> scales_;
  std::vector<std::uint8_t> states_;  // of the lanes
  std::vector<std::uint32_t> turns_;  // columns in the order of the search
  std::vector<std::size_t> fold_begins_;
  std::shared_ptr<const ErrorFeedback> feedback_;
  std::vector<FeedbackColumn> columns_;
  std::vector<float> targets_;
  std::vector<std::int32_t> indices_;
  std::vector<float> errors_;
  std::vector<float> workspace_;
  std::vector<std::uint8_t> start_states_;
  FeedbackSearch search_;
};

}  // namespace

SecondMoments::Sides transformed_sides(const SpectralParameters& parameters) {
  return parameters.transforms
             ? SecondMoments::Sides(parameters.sides.begin(), parameters.sides.end())
             : SecondMoments::Sides();
}

bool search_with_feedback(const RowBlocks& blocks, const SpectralGeometry& geometry,
                          const SpectralParameters& parameters, const SecondMoments& moments,
                          const TrellisSearch& search, float* values, float* compensated) {
  return BlockEncoder(blocks, geometry, parameters, moments, search, values, compensated).run();
}

}  // namespace cfck::spectral
