# zstd and xxHash, by their own CMake files where they have some (zstd), else by
# header and library. Also used by the installed package.
if(NOT TARGET zstd::libzstd)
  find_path(CFCK_ZSTD_INCLUDE_DIR zstd.h)
  find_library(CFCK_ZSTD_LIBRARY zstd)
  if(NOT CFCK_ZSTD_INCLUDE_DIR OR NOT CFCK_ZSTD_LIBRARY)
    message(FATAL_ERROR "cfck needs zstd. On Debian or Ubuntu: apt-get install libzstd-dev")
  endif()
  add_library(zstd::libzstd UNKNOWN IMPORTED)
  set_target_properties(zstd::libzstd PROPERTIES IMPORTED_LOCATION ${CFCK_ZSTD_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CFCK_ZSTD_INCLUDE_DIR})
endif()
# xxHash is used as a header (XXH_INLINE_ALL), so that it is compiled with our flags.
if(NOT TARGET xxHash::headers)
  find_path(CFCK_XXHASH_INCLUDE_DIR xxhash.h)
  if(NOT CFCK_XXHASH_INCLUDE_DIR)
    message(FATAL_ERROR "cfck needs xxHash. On Debian or Ubuntu: apt-get install libxxhash-dev")
  endif()
  add_library(xxHash::headers INTERFACE IMPORTED)
  set_target_properties(xxHash::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${CFCK_XXHASH_INCLUDE_DIR})
endif()
