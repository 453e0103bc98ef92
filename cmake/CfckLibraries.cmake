# The libraries users link: cfck::cfck is everything. cfck::decode is for programs that only read and
# needs zstd, xxHash and threads; where libraries are shared there is one, which both names stand for.
set(cfck_decode_objects cfck_base cfck_codec_decode cfck_spectral_decode cfck_registry_decode
  cfck_cuda_host cfck_device_code_build cfck_message_decode cfck_gradients_decode
  cfck_embeddings_decode cfck_format_decode)
set(cfck_encode_objects cfck_codec_encode cfck_spectral_encode cfck_registry_encode cfck_encode
  cfck_message_encode cfck_gradients_encode cfck_embeddings_encode cfck_format_encode cfck_calibration cfck_interop cfck_model)

function(cfck_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SHARED" "" "OBJECTS")
  set(kind)
  if(arg_SHARED)
    set(kind SHARED)
  endif()
  add_library(${name} ${kind})
  foreach(objects IN LISTS arg_OBJECTS)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PUBLIC Threads::Threads ${CMAKE_DL_LIBS} PRIVATE zstd::libzstd)
  if("cfck_interop" IN_LIST arg_OBJECTS)
    target_link_libraries(${name} PRIVATE ZLIB::ZLIB)
  endif()
  set_target_properties(${name} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)
endfunction()

cfck_add_library(cfck OBJECTS ${cfck_decode_objects} ${cfck_encode_objects})
if(BUILD_SHARED_LIBS)
  add_library(cfck_decode INTERFACE)
  target_link_libraries(cfck_decode INTERFACE cfck)
else()
  cfck_add_library(cfck_decode OBJECTS ${cfck_decode_objects})
endif()
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
    cfck_flags zstd::libzstd ZLIB::ZLIB nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
cfck_add_inside(cfck_inside ${cfck_decode_objects} ${cfck_encode_objects})
cfck_add_inside(cfck_codecs_inside cfck_base cfck_codec_decode cfck_codec_encode
  cfck_spectral_decode cfck_spectral_encode cfck_registry_decode cfck_registry_encode)
