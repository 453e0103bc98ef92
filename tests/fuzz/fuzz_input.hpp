// Reads the fields at the front of the input of targets that decode chunks.
#pragma once

#include <algorithm>

#include "cfck/tensor.hpp"

namespace cfck::test {

// The fields before the payload; zeros where the input has ended.
class FuzzInput {
 public:
  explicit FuzzInput(ByteView bytes) : bytes_(bytes) {}
  unsigned byte() { return take(1).empty() ? 0 : static_cast<unsigned>(bytes_[at_ - 1]); }
  unsigned two() {
    const unsigned low = byte();
    return low | byte() << 8;
  }
  ByteView take(std::size_t n) {
    n = std::min(n, bytes_.size() - at_);
    at_ += n;
    return bytes_.subspan(at_ - n, n);
  }
  ByteView rest() { return take(bytes_.size() - at_); }

 private:
  ByteView bytes_;
  std::size_t at_ = 0;
};

}  // namespace cfck::test
