# What every source of cfck is compiled with.
add_library(cfck_flags INTERFACE)
target_compile_features(cfck_flags INTERFACE cxx_std_20)
target_include_directories(cfck_flags INTERFACE
  ${PROJECT_SOURCE_DIR} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
# No contraction of a*b+c: the same bits on every machine (design: one meaning,
# many implementations).
target_compile_options(cfck_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-ffp-contract=off>)
# With CMAKE_UNITY_BUILD several sources are compiled together; GCC takes those for headers.
if(CMAKE_UNITY_BUILD)
  target_compile_options(cfck_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
# GCC 12 sees overlapping copies in every "text" + std::string (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(cfck_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CFCK_WERROR)
  target_compile_options(cfck_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CFCK_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CFCK_SANITIZE}>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${CFCK_SANITIZE})
endif()
if(CFCK_CHECK_ODR)
  # Objects that hold what is compared, and no code: nothing can be linked.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-flto> $<$<COMPILE_LANGUAGE:CXX>:-fno-fat-lto-objects>)
endif()
