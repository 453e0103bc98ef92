// The libhdf5 that calls the plug-in. The plug-in links none: a process may have several, such as
// one in h5py and another of the system, and each loads this same library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"
#include "hdf5/filter/abi.hpp"

namespace cfck::hdf5 {

// The functions of one libhdf5; nullptr for those that it lacks. None of them owns anything.
struct Hdf5Functions {
  int (*H5Tget_class)(Id);
  std::size_t (*H5Tget_size)(Id);
  int (*H5Tget_order)(Id);
  int (*H5Tget_sign)(Id);
  std::size_t (*H5Tget_precision)(Id);
  int (*H5Tget_fields)(Id, std::size_t*, std::size_t*, std::size_t*, std::size_t*, std::size_t*);
  std::size_t (*H5Tget_ebias)(Id);
  Id (*H5Tget_super)(Id);
  int (*H5Tget_nmembers)(Id);
  Id (*H5Tget_member_type)(Id, unsigned);
  int (*H5Tclose)(Id);
  int (*H5Pget_chunk)(Id, int, std::uint64_t*);
  int (*H5Pget_filter_by_id2)(Id, int, unsigned*, std::size_t*, unsigned*, std::size_t, char*,
                              unsigned*);
  int (*H5Pget_filter2)(Id, unsigned, unsigned*, std::size_t*, unsigned*, std::size_t, char*,
                        unsigned*);
  int (*H5Pmodify_filter)(Id, int, unsigned, std::size_t, const unsigned*);
  int (*H5Pfill_value_defined)(Id, int*);
  int (*H5Pget_fill_value)(Id, Id, void*);
  int (*H5Epush2)(Id, const char*, const char*, unsigned, Id, Id, Id, const char*, ...);
  std::ptrdiff_t (*H5Eget_num)(Id);
  Id (*H5Ecreate_stack)();
  int (*H5Eset_current_stack)(Id);
  void* (*H5allocate_memory)(std::size_t, bool);
  int (*H5free_memory)(void*);
  // The numbers of error classes, which a library makes when it starts.
  const Id* H5E_ERR_CLS_g;
  const Id* H5E_PLINE_g;
  const Id* H5E_CANTFILTER_g;

  // Whether datasets can be described; chunks are read without that.
  bool can_describe() const noexcept;
  // Puts the error on the library's stack; nothing where the library does not show how.
  void push(const char* function, const Error& error) const noexcept;
  // Memory that the library may free, and the other way round.
  void* allocate(std::size_t n_bytes) const noexcept;
  void release(void* memory) const noexcept;
};

// Returns the library that `return_address` lies in: that of the function that called the plug-in.
// Lives as long as the process, and so does the library. Thread-safe.
const Hdf5Functions& calling_library(void* return_address) noexcept;

}  // namespace cfck::hdf5
