# The two libraries users link: cfck::decode reads files and needs zstd, xxHash
# and threads; cfck::cfck adds writing, updates and safetensors.
set(cfck_decode_objects cfck_base cfck_codec_decode cfck_spectral_decode cfck_registry_decode
  cfck_format_decode)
set(cfck_encode_objects cfck_codec_encode cfck_spectral_encode cfck_registry_encode cfck_encode
  cfck_format_encode cfck_calibration cfck_interop cfck_model)

add_library(cfck_decode)
foreach(objects IN LISTS cfck_decode_objects)
  target_sources(cfck_decode PRIVATE $<TARGET_OBJECTS:${objects}>)
endforeach()
target_link_libraries(cfck_decode PUBLIC Threads::Threads PRIVATE zstd::libzstd)
add_library(cfck)
foreach(objects IN LISTS cfck_encode_objects)
  target_sources(cfck PRIVATE $<TARGET_OBJECTS:${objects}>)
endforeach()
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

# Tests and benchmarks look inside: everything as object files, and the codecs alone.
function(cfck_add_inside name)
  add_library(${name} INTERFACE)
  foreach(objects IN LISTS ARGN)
    target_sources(${name} INTERFACE $<TARGET_OBJECTS:${objects}>)
  endforeach()
  target_link_libraries(${name} INTERFACE
    cfck_flags zstd::libzstd nlohmann_json::nlohmann_json Threads::Threads)
endfunction()
cfck_add_inside(cfck_inside ${cfck_decode_objects} ${cfck_encode_objects})
cfck_add_inside(cfck_codecs_inside cfck_base cfck_codec_decode cfck_codec_encode
  cfck_spectral_decode cfck_spectral_encode cfck_registry_decode cfck_registry_encode)
