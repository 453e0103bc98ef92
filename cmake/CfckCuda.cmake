# Kernels for CUDA, where nvcc is found: compiled to PTX, and that assembled for some devices, so that
# every build sees whether they compile, what registers they take, and what scripts/checks/device_code.py
# asks of their code (cuda/code collects it). Nothing here needs a device, and nothing that is linked
# needs CUDA.
#
#   cfck_device_code(SOURCE.cu...)
set(CFCK_HAS_CUDA_COMPILER OFF)
if(CFCK_CUDA)
  # Toolkits are often installed without being on the path.
  find_program(CFCK_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(CFCK_NVCC)
    get_filename_component(cfck_cuda_bin ${CFCK_NVCC} REALPATH)
    get_filename_component(cfck_cuda_bin ${cfck_cuda_bin} DIRECTORY)
    find_program(CFCK_PTXAS ptxas HINTS ${cfck_cuda_bin})
    find_program(CFCK_FATBINARY fatbinary HINTS ${cfck_cuda_bin})
  endif()
  if(CFCK_NVCC AND CFCK_PTXAS AND CFCK_FATBINARY)
    set(CFCK_HAS_CUDA_COMPILER ON)
  endif()
endif()

# The arithmetic of the specification: no contraction, no flushing, divisions and roots rounded right.
# The host's half of a source takes the same flag as every other source.
set(CFCK_CUDA_FLAGS --std=c++20 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true
  --expt-relaxed-constexpr -Xcompiler=-ffp-contract=off)
set(CFCK_DEVICES 75 90 120 CACHE STRING "Devices (compute capabilities) that kernels are assembled for")
set(CFCK_OLDEST_DEVICE 75)  # which PTX is made for
set(CFCK_DEVICE_CODE_DIR ${PROJECT_BINARY_DIR}/device_code)

# For each source: NAME.ptx for the oldest device, and for every device NAME.smXX.cubin and what ptxas
# says of it in NAME.smXX.txt.
function(cfck_device_code)
  if(NOT CFCK_HAS_CUDA_COMPILER)
    return()
  endif()
  file(MAKE_DIRECTORY ${CFCK_DEVICE_CODE_DIR})
  foreach(source ${ARGN})
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(name ${source} NAME_WE)
    set(ptx ${CFCK_DEVICE_CODE_DIR}/${name}.ptx)
    add_custom_command(OUTPUT ${ptx}
      COMMAND ${CFCK_NVCC} ${CFCK_CUDA_FLAGS} -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
              -arch=compute_${CFCK_OLDEST_DEVICE} -ptx -MD -MF ${ptx}.d -o ${ptx} ${path}
      DEPENDS ${path} DEPFILE ${ptx}.d COMMENT "Compiling ${name} for CUDA" VERBATIM)
    foreach(device ${CFCK_DEVICES})
      set(cubin ${CFCK_DEVICE_CODE_DIR}/${name}.sm${device}.cubin)
      add_custom_command(OUTPUT ${cubin}
        COMMAND sh -c "\"$1\" -v -arch=$2 -o \"$3\" \"$4\" >\"$5\" 2>&1 || { cat \"$5\"; exit 1; }"
                sh ${CFCK_PTXAS} sm_${device} ${cubin} ${ptx}
                ${CFCK_DEVICE_CODE_DIR}/${name}.sm${device}.txt
        DEPENDS ${ptx} COMMENT "Assembling ${name} for sm_${device}" VERBATIM)
      list(APPEND cubins ${cubin})
    endforeach()
  endforeach()
  list(GET ARGN 0 first)
  get_filename_component(first ${first} NAME_WE)
  add_custom_target(cfck_device_code_${first} ALL DEPENDS ${cubins})
endfunction()
