// Writes into a Python bytes object, without a copy at the end.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

#include "cfck/io.hpp"
#include "gil.hpp"

namespace cfck::python {

// Create, take and destroy it with the GIL; write() takes it where it must.
class BytesSink final : public ByteSink {
 public:
  // Reserves address space for `expected_bytes` at once; pages that stay untouched cost nothing and
  // are given back by take().
  explicit BytesSink(std::size_t expected_bytes);
  ~BytesSink() override;
  BytesSink(const BytesSink&) = delete;
  BytesSink& operator=(const BytesSink&) = delete;

  Result<void> write(ByteView bytes) override;
  // Returns the written bytes, and leaves nothing here.
  nb::bytes take();

 private:
  bool resize(std::size_t capacity);

  PyObject* object_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t n_bytes_ = 0;
  bool failed_ = false;
  const bool ends_interpreter_ = ends_interpreter();
};

}  // namespace cfck::python
