# The two libraries users link: cfck::decode reads files and needs zstd, xxHash
# and threads; cfck::cfck adds writing, updates and safetensors.
add_library(cfck_decode)
target_link_libraries(cfck_decode
  PRIVATE cfck_base cfck_codec_decode cfck_format_decode
  PUBLIC Threads::Threads
  PRIVATE zstd::libzstd)
add_library(cfck)
target_link_libraries(cfck
  PRIVATE cfck_codec_encode cfck_format_encode
  PUBLIC cfck_decode)

foreach(target cfck cfck_decode)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endforeach()
set_target_properties(cfck_decode PROPERTIES EXPORT_NAME decode)
add_library(cfck::cfck ALIAS cfck)
add_library(cfck::decode ALIAS cfck_decode)
