#include "bytes_sink.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "huge_pages.hpp"

namespace cfck::python {
namespace {

constexpr std::size_t kHugeBytes = std::size_t{4} << 20;
// The allocation itself refuses more than a bytes object may have.
constexpr auto kMaxBytes = static_cast<std::size_t>(PY_SSIZE_T_MAX);

Error out_of_memory() {
  return Error{ErrorCode::kOutOfMemory, "no memory for the compressed bytes", {}, {}};
}

}  // namespace

BytesSink::BytesSink(std::size_t expected_bytes) {
  // A poor guess is not an error: write() asks for the space it needs.
  resize(std::max<std::size_t>(1, expected_bytes));
}

BytesSink::~BytesSink() { Py_XDECREF(object_); }

// Requires the GIL. Returns false, without a Python error, if there is no memory.
bool BytesSink::resize(std::size_t capacity) {
  if (capacity > kMaxBytes) return false;
  PyObject* resized = nullptr;
  if (object_ == nullptr) {
    resized = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(capacity));
  } else {
    resized = std::exchange(object_, nullptr);
    _PyBytes_Resize(&resized, static_cast<Py_ssize_t>(capacity));
  }
  const bool grows = capacity > capacity_;
  object_ = resized;
  if (resized == nullptr) {
    PyErr_Clear();
    data_ = nullptr;
    capacity_ = 0;
    return false;
  }
  data_ = reinterpret_cast<std::byte*>(PyBytes_AsString(object_));
  capacity_ = capacity;
  if (grows && capacity >= kHugeBytes) {
    advise_huge_pages(reinterpret_cast<std::uintptr_t>(data_), capacity);
  }
  return true;
}

Result<void> BytesSink::write(ByteView bytes) {
  if (failed_) return out_of_memory();
  if (bytes.size() > capacity_ - n_bytes_) {
    const GilAcquire gil(ends_interpreter_);
    const std::size_t needed = n_bytes_ + bytes.size();
    if (!resize(needed + needed / 2)) {
      failed_ = true;
      return out_of_memory();
    }
  }
  if (!bytes.empty()) {
    std::memcpy(data_ + n_bytes_, bytes.data(), bytes.size());
  }
  n_bytes_ += bytes.size();
  return {};
}

nb::bytes BytesSink::take() {
  if (!resize(n_bytes_)) throw std::bad_alloc();
  capacity_ = n_bytes_ = 0;
  data_ = nullptr;
  return nb::steal<nb::bytes>(std::exchange(object_, nullptr));
}

}  // namespace cfck::python
