# The component `hdf5` of find_package(cfck): gives cfck::hdf5.
if(NOT TARGET cfck::libhdf5)
  find_package(HDF5 QUIET REQUIRED COMPONENTS C)
  add_library(cfck::libhdf5 INTERFACE IMPORTED)
  set_target_properties(cfck::libhdf5 PROPERTIES INTERFACE_LINK_LIBRARIES "${HDF5_C_LIBRARIES}")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/cfckHdf5Targets.cmake)
