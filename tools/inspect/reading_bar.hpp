// The progress of commands that read every value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tools/inspect/tensor_set.hpp"
#include "tools/output/progress_bar.hpp"

namespace cfck::tools {

// Shows the progress of reading tensors several times, within large tensors too.
class ReadingBar {
 public:
  // `n_passes`: approximately how often a tensor is read.
  ReadingBar(ProgressBar& bar, std::uint64_t n_passes) : bar_(bar), n_passes_(n_passes) {}

  void begin(const StoredTensor& tensor) {
    tensor_bytes_ = tensor.n_bytes;
    read_bytes_ = 0;
  }
  void add_read(std::uint64_t n_bytes) {
    read_bytes_ += n_bytes;
    bar_.update(done_bytes_ + std::min(tensor_bytes_, read_bytes_ / n_passes_), 0);
  }
  void end() {
    done_bytes_ += std::exchange(tensor_bytes_, 0);
    bar_.update(done_bytes_, 0);
  }

 private:
  ProgressBar& bar_;
  const std::uint64_t n_passes_;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t tensor_bytes_ = 0;
  std::uint64_t read_bytes_ = 0;
};

}  // namespace cfck::tools
