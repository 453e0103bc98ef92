// A tensor that owns its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "cfck/export.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

// Contiguous, row-major, in host memory that is aligned for vectors of the CPU. Can be moved; a
// tensor that was moved from has no bytes.
class CFCK_API OwnedTensor {
 public:
  static constexpr std::size_t kAlignmentBytes = 64;

  // Allocates memory without initialising it. Errors: those of n_bytes(); kOutOfMemory.
  static Result<OwnedTensor> allocate(DType dtype, Shape shape);

  OwnedTensor() noexcept = default;
  OwnedTensor(OwnedTensor&& other) noexcept
      : dtype_(other.dtype_),
        shape_(std::move(other.shape_)),
        memory_(std::move(other.memory_)),
        n_bytes_(std::exchange(other.n_bytes_, 0)) {}
  OwnedTensor& operator=(OwnedTensor&& other) noexcept {
    OwnedTensor moved(std::move(other));
    std::swap(dtype_, moved.dtype_);
    shape_.swap(moved.shape_);
    memory_.swap(moved.memory_);
    std::swap(n_bytes_, moved.n_bytes_);
    return *this;
  }

  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  MutableBytes bytes() noexcept { return {memory_.get(), n_bytes_}; }
  ByteView bytes() const noexcept { return {memory_.get(), n_bytes_}; }

  // The elements as values of `T`, which must be the C++ type of the dtype: float for kF32.
  template <class T>
  std::span<const T> values() const noexcept {
    return {reinterpret_cast<const T*>(memory_.get()), n_bytes_ / sizeof(T)};
  }
  template <class T>
  std::span<T> values() noexcept {
    return {reinterpret_cast<T*>(memory_.get()), n_bytes_ / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  DType dtype_ = DType::kU8;
  Shape shape_;
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t n_bytes_ = 0;
};

}  // namespace cfck
