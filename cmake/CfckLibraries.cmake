# The two libraries users link: cfck::decode reads files and needs zstd, xxHash
# and threads; cfck::cfck adds writing, updates and safetensors.
add_library(cfck_decode)
target_sources(cfck_decode PRIVATE
  $<TARGET_OBJECTS:cfck_base> $<TARGET_OBJECTS:cfck_spectral>
  $<TARGET_OBJECTS:cfck_codec_decode> $<TARGET_OBJECTS:cfck_format_decode>)
target_link_libraries(cfck_decode PUBLIC Threads::Threads PRIVATE zstd::libzstd)
add_library(cfck)
target_sources(cfck PRIVATE
  $<TARGET_OBJECTS:cfck_codec_encode> $<TARGET_OBJECTS:cfck_format_encode>)
target_link_libraries(cfck PUBLIC cfck_decode PRIVATE zstd::libzstd)

foreach(target cfck cfck_decode)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endforeach()
set_target_properties(cfck_decode PROPERTIES EXPORT_NAME decode)
add_library(cfck::cfck ALIAS cfck)
add_library(cfck::decode ALIAS cfck_decode)
