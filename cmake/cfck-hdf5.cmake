# The component `hdf5` of find_package(cfck): gives cfck::hdf5.
if(NOT TARGET cfck::libhdf5)
  # CMake finds libhdf5 by compiling a program in C.
  enable_language(C)
  find_package(HDF5 QUIET COMPONENTS C)
  if(NOT HDF5_FOUND)
    set(cfck_hdf5_FOUND FALSE)
    set(cfck_NOT_FOUND_MESSAGE
      "the component hdf5 needs libhdf5. On Debian or Ubuntu: apt-get install libhdf5-dev")
    return()
  endif()
  add_library(cfck::libhdf5 INTERFACE IMPORTED)
  set_target_properties(cfck::libhdf5 PROPERTIES INTERFACE_LINK_LIBRARIES "${HDF5_C_LIBRARIES}")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/cfckHdf5Targets.cmake)
