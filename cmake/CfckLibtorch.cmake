# cfck_find_libtorch(RESULT): the imported target cfck::libtorch, and its version in
# cfck_libtorch_version. Also used by the installed package.
#
# find_package(Torch) of a build with CUDA enables the language CUDA, with a standard that CMake before
# 3.27 does not know, and asks for the compiler of CUDA: far more than C++ programs need that only
# link libtorch. So its package is used where a project has found it already; else headers and
# libraries are found beside its package file.
function(cfck_find_libtorch result)
  set(${result} FALSE PARENT_SCOPE)
  set(prefixes ${CMAKE_PREFIX_PATH} ${Torch_DIR}/../../..)
  if(Python_EXECUTABLE)
    execute_process(COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0])"
      OUTPUT_VARIABLE of_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    list(APPEND prefixes ${of_python} ${of_python}/share/cmake)
  endif()
  find_path(CFCK_TORCH_SHARE TorchConfigVersion.cmake PATHS ${prefixes}
    PATH_SUFFIXES Torch share/cmake/Torch)
  if(NOT CFCK_TORCH_SHARE)
    return()
  endif()
  file(READ ${CFCK_TORCH_SHARE}/TorchConfigVersion.cmake text)
  string(REGEX MATCH "PACKAGE_VERSION \"([0-9.]+)" ignored "${text}")
  set(version ${CMAKE_MATCH_1})
  get_filename_component(root ${CFCK_TORCH_SHARE}/../../.. ABSOLUTE)
  if(version VERSION_LESS 2.4 OR NOT EXISTS ${root}/lib/libtorch_cpu.so)
    return()
  endif()
  if(NOT TARGET cfck::libtorch)
    add_library(cfck::libtorch INTERFACE IMPORTED GLOBAL)
    if(TARGET torch)
      target_link_libraries(cfck::libtorch INTERFACE torch)
    else()
      target_include_directories(cfck::libtorch SYSTEM INTERFACE
        ${root}/include ${root}/include/torch/csrc/api/include)
      # libtorch.so keeps those of CUDA, which register themselves, where there are some.
      target_link_libraries(cfck::libtorch INTERFACE
        -Wl,--no-as-needed ${root}/lib/libtorch.so -Wl,--as-needed
        ${root}/lib/libtorch_cpu.so ${root}/lib/libc10.so)
    endif()
    # Libraries of CUDA may be elsewhere, and are found when the program runs.
    target_link_options(cfck::libtorch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${root}/lib)
  endif()
  set(cfck_libtorch_version ${version} PARENT_SCOPE)
  set(${result} TRUE PARENT_SCOPE)
endfunction()
