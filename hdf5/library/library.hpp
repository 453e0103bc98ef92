// libhdf5 as cfck uses it: one caller at a time, errors as values, objects closed by their owner.
#pragma once

#include <hdf5.h>
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"

namespace cfck::hdf5 {

// The right to call libhdf5, which is not thread-safe: one for the whole process, held by one
// thread at a time. While it exists, libhdf5 prints no errors; a program's own settings come back.
class Library {
 public:
  Library();
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

// Owns an object of libhdf5. Everything but construction and moves needs a Library.
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) H5Idec_ref(id_);
  }

  explicit operator bool() const { return id_ >= 0; }
  hid_t get() const { return id_; }
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

// Returns kCorrupt with `what` and the innermost message of libhdf5 about its last error;
// kLimitExceeded where that is about memory.
Error library_error(std::string what);
// Owns `id`, or returns library_error(what).
Result<Handle> checked(hid_t id, const char* what);
// Returns library_error(what) for a negative status.
Result<void> checked_status(herr_t status, const char* what);

// Where an object is in its file: equal for two names of one object.
using Address = std::array<unsigned char, 16>;

struct ObjectInfo {
  Address address = {};
  H5O_type_t type = H5O_TYPE_UNKNOWN;
  unsigned n_links = 0;
  hsize_t n_attributes = 0;
};
Result<ObjectInfo> object_info(hid_t object);

struct Link {
  std::string name;
  H5L_type_t type = H5L_TYPE_ERROR;
};
// Lists the links of a group, in their order of creation if it is kept, else by name. Errors:
// kLimitExceeded for more than `max_links`.
Result<std::vector<Link>> links_of(hid_t group, bool by_creation, std::size_t max_links);

// Returns the target of a soft link.
Result<std::string> soft_target(hid_t group, const std::string& name);

}  // namespace cfck::hdf5
