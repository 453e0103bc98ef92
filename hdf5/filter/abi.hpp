// What HDF5 1.10 and later ask of a filter plug-in, declared here so that the plug-in is built
// without HDF5's headers and is loaded by any libhdf5. The layout is HDF5's stable plug-in
// interface (H5Zpublic.h, H5PLextern.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace cfck::hdf5 {

using Id = std::int64_t;  // hid_t since HDF5 1.10; 32 bits wide before, which is not supported

inline constexpr int kFilterClassVersion = 1;     // H5Z_CLASS_T_VERS
inline constexpr int kPluginTypeFilter = 0;       // H5PL_TYPE_FILTER
inline constexpr unsigned kFlagReverse = 0x0100;  // H5Z_FLAG_REVERSE: decode
inline constexpr int kFirstTestingFilter = 256;   // H5Z_FILTER_RESERVED; 256 to 511 are for testing

// H5Z_class2_t
struct FilterClass {
  int version;
  int id;
  unsigned encoder_present;
  unsigned decoder_present;
  const char* name;
  int (*can_apply)(Id creation, Id type, Id space);
  int (*set_local)(Id creation, Id type, Id space);
  std::size_t (*filter)(unsigned flags, std::size_t value_count, const unsigned* values,
                        std::size_t bytes, std::size_t* capacity, void** buffer);
};

}  // namespace cfck::hdf5
