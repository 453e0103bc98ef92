// Memory that the parts of a Scratch (codec/codec.hpp) are made of.
#pragma once

#include <cstddef>
#include <memory>

#include "codec/codec.hpp"

namespace cfck::codec {

// Memory that only grows and is never cleared.
template <class T>
class GrowingBuffer {
 public:
  // Returns space for n elements; what was there before is lost when it grows.
  T* reserve(std::size_t n) {
    if (n > capacity_) {
      memory_.reset();
      capacity_ = 0;
      memory_ = std::make_unique_for_overwrite<T[]>(n);
      capacity_ = n;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<T[]> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace cfck::codec
