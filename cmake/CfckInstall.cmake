# What `cmake --install` copies: libraries, public headers, and the files that
# make find_package(cfck) and pkg-config work.
include(CMakePackageConfigHelpers)

set(cfck_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cfck)
set(cfck_component COMPONENT cfck_development)

install(TARGETS cfck cfck_decode EXPORT cfckTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${cfck_component}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${cfck_component}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} ${cfck_component})
install(EXPORT cfckTargets NAMESPACE cfck:: DESTINATION ${cfck_package_dir} ${cfck_component})
install(DIRECTORY include/cfck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${cfck_component}
  FILES_MATCHING PATTERN "*.hpp")

configure_package_config_file(cmake/cfckConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/cfckConfig.cmake
  INSTALL_DESTINATION ${cfck_package_dir} NO_SET_AND_CHECK_MACRO)
# Until 1.0 a minor version may change anything.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/cfckConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cfckConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/cfckConfigVersion.cmake
  DESTINATION ${cfck_package_dir} ${cfck_component})

# cfck_install_pc(NAME LIBRARY DESCRIPTION): NAME.pc, which finds its folder by its own place. A static
# library does not bring libzstd and zlib with it: who links it needs them too, without asking for --static.
function(cfck_install_pc cfck_pc_name cfck_pc_library cfck_pc_description)
  set(directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH cfck_pc_prefix /${directory} /)
  string(REGEX REPLACE "/$" "" cfck_pc_prefix "${cfck_pc_prefix}")
  set(cfck_pc_requires Requires)
  if(BUILD_SHARED_LIBS)
    set(cfck_pc_requires Requires.private)
  endif()
  set(cfck_pc_more_requires ", zlib")
  if(cfck_pc_library STREQUAL "cfck_decode")
    set(cfck_pc_more_requires)
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/cfck.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${cfck_pc_name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${cfck_pc_name}.pc DESTINATION ${directory} ${cfck_component})
endfunction()
cfck_install_pc(cfck cfck "Compressed, checked files for model checkpoints")
if(BUILD_SHARED_LIBS)
  cfck_install_pc(cfck-decode cfck "Reading of cfck files")
else()
  cfck_install_pc(cfck-decode cfck_decode "Reading of cfck files")
endif()
