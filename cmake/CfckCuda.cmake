# The kernels as device kernels, where there is a CUDA compiler. Compiled only: what launches
# them comes with the CUDA backend.
#
#   cfck_check_cuda(SOURCE.cu...)
set(CFCK_HAS_CUDA_COMPILER OFF)
if(CFCK_CUDA)
  # Toolkits are often installed without being on the path.
  find_program(CFCK_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(CFCK_NVCC AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${CFCK_NVCC})
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CFCK_HAS_CUDA_COMPILER ON)
  endif()
endif()

function(cfck_check_cuda name)
  if(NOT CFCK_HAS_CUDA_COMPILER)
    return()
  endif()
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PRIVATE cfck_flags)
  # The dialect by its flag: CMake 3.25 does not know that of newer compilers.
  target_compile_options(${name} PRIVATE
    --std=c++20 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true --expt-relaxed-constexpr)
endfunction()
