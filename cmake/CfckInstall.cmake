# What `cmake --install` copies: libraries, public headers, and the files that
# make find_package(cfck) work.
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
