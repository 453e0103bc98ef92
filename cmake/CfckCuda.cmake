# Kernels for CUDA, where nvcc is found: compiled to PTX, and that assembled for some devices, so that
# builds see whether they compile, what registers they take, and what scripts/checks/device_code.py
# asks of their code (cuda/code collects it). Nothing here needs a device, and nothing that is linked
# needs CUDA.
#
#   cfck_device_code(SOURCE.cu...)
set(CFCK_OLDEST_CUDA 13.0)  # of nvcc; the driver has to be as new (cuda/host/driver.hpp)

# The arithmetic of the specification: no contraction, no flushing, divisions and roots rounded right.
# The host's half of a source takes the same flag as every other source. Device code calls nothing that
# is not marked for devices: nvcc can be made to accept constexpr functions of the host, and then leaves
# out, without a word, what these need and a device lacks, such as __builtin_clzl().
set(CFCK_CUDA_FLAGS --std=c++20 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true
  --Werror=cross-execution-space-call -Xcompiler=-ffp-contract=off)
set(CFCK_DEVICES 75 90 120 CACHE STRING "Devices (compute capabilities) that kernels are assembled for; none: \
the driver does it; native: those of this machine")
set(CFCK_OLDEST_DEVICE 75)  # which PTX is made for
# These sources are compiled once more for devices that copy while they compute, in two ways
# (base/simt/staging.cuh), and that combine the values of all lanes at once (base/simt/warp.cuh).
set(CFCK_STAGING_DEVICES 80 90)
set(CFCK_STAGED_SOURCES lossless_kernels lossless_team_kernels direct_kernels direct_team_kernels
  encode_direct_kernels encode_lossless_kernels)
set(CFCK_DEVICE_CODE_DIR ${PROJECT_BINARY_DIR}/device_code)

# Sets `problem` to what is wrong with nvcc, or to nothing. A toolkit that is too old, or that does not
# know the host's compiler, must not end a build that can do without device code.
function(cfck_check_nvcc problem)
  execute_process(COMMAND ${CFCK_NVCC} --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" version "${version}")
  if(NOT version OR CMAKE_MATCH_1 VERSION_LESS CFCK_OLDEST_CUDA)
    set(${problem} "CUDA ${CFCK_OLDEST_CUDA} is needed, it says '${version}'" PARENT_SCOPE)
    return()
  endif()
  set(trial ${PROJECT_BINARY_DIR}/CMakeFiles/cfck_nvcc_trial)
  file(WRITE ${trial}.cu "#include <cstdint>\n__global__ void trial(std::uint32_t* out) { *out = 1; }\n")
  execute_process(COMMAND ${CFCK_NVCC} ${CFCK_CUDA_FLAGS} -arch=compute_${CFCK_OLDEST_DEVICE} -ptx
                          -o ${trial}.ptx ${trial}.cu
    OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
  if(failed)
    set(${problem} "it cannot compile: ${said}" PARENT_SCOPE)
  else()
    set(${problem} "" PARENT_SCOPE)
  endif()
endfunction()

# Sets `devices` to the capabilities of this machine's devices that nvcc knows, or else to 90.
function(cfck_native_devices devices)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE present ERROR_QUIET TIMEOUT 20)
  execute_process(COMMAND ${CFCK_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  string(REPLACE "." "" present "${present}")
  string(REGEX MATCHALL "[0-9]+" present "${present}")
  list(REMOVE_DUPLICATES present)
  set(found)
  foreach(device ${present})
    if(device IN_LIST known AND device GREATER_EQUAL CFCK_OLDEST_DEVICE)
      list(APPEND found ${device})
    endif()
  endforeach()
  if(NOT found)
    set(found 90)
  endif()
  set(${devices} ${found} PARENT_SCOPE)
endfunction()

set(CFCK_HAS_CUDA_COMPILER OFF)
set(CFCK_ASSEMBLED_DEVICES ${CFCK_DEVICES})
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
    cfck_check_nvcc(cfck_nvcc_problem)
    if(cfck_nvcc_problem)
      message(STATUS "No device code: ${CFCK_NVCC}: ${cfck_nvcc_problem}")
    else()
      set(CFCK_HAS_CUDA_COMPILER ON)
      if(CFCK_DEVICES STREQUAL "native")
        cfck_native_devices(CFCK_ASSEMBLED_DEVICES)
      elseif(CFCK_DEVICES STREQUAL "none")
        set(CFCK_ASSEMBLED_DEVICES)
      endif()
      message(STATUS "Device code: ${CFCK_NVCC}, for ${CFCK_ASSEMBLED_DEVICES}")
    endif()
  else()
    message(STATUS "No device code: nvcc was not found")
  endif()
endif()

# Sets `devices` to the oldest devices for which a source is compiled.
function(cfck_ptx_devices name devices)
  set(found ${CFCK_OLDEST_DEVICE})
  if(name IN_LIST CFCK_STAGED_SOURCES)
    list(APPEND found ${CFCK_STAGING_DEVICES})
  endif()
  set(${devices} ${found} PARENT_SCOPE)
endfunction()

# For each source: NAME.computeXX.ptx for the oldest device, and the oldest ones of each way to stage
# where the source does that; and for every device NAME.smXX.cubin and what ptxas says of it in
# NAME.smXX.txt.
function(cfck_device_code)
  if(NOT CFCK_HAS_CUDA_COMPILER)
    return()
  endif()
  file(MAKE_DIRECTORY ${CFCK_DEVICE_CODE_DIR})
  # Ninja reads the files of dependencies where nvcc writes them. Rewritten ones would be in CMakeFiles,
  # which scikit-build-core deletes for each Python, and all would be compiled again.
  cmake_policy(PUSH)
  cmake_policy(SET CMP0116 OLD)
  foreach(source ${ARGN})
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(name ${source} NAME_WE)
    cfck_ptx_devices(${name} ptx_devices)
    foreach(ptx_device ${ptx_devices})
      set(ptx ${CFCK_DEVICE_CODE_DIR}/${name}.compute${ptx_device}.ptx)
      list(APPEND made ${ptx})
      set(target ${ptx})
      if(CMAKE_GENERATOR MATCHES "Ninja")
        file(RELATIVE_PATH target ${CMAKE_BINARY_DIR} ${ptx})
      endif()
      add_custom_command(OUTPUT ${ptx}
        COMMAND ${CFCK_NVCC} ${CFCK_CUDA_FLAGS} -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
                -arch=compute_${ptx_device} -ptx -MD -MF ${ptx}.d -MT ${target} -o ${ptx} ${path}
        DEPENDS ${path} DEPFILE ${ptx}.d COMMENT "Compiling ${name} for CUDA, ${ptx_device}" VERBATIM)
    endforeach()
    foreach(device ${CFCK_ASSEMBLED_DEVICES})
      set(cubin ${CFCK_DEVICE_CODE_DIR}/${name}.sm${device}.cubin)
      foreach(ptx_device ${ptx_devices})  # the last that the device is not older than
        if(device GREATER_EQUAL ptx_device)
          set(ptx ${CFCK_DEVICE_CODE_DIR}/${name}.compute${ptx_device}.ptx)
        endif()
      endforeach()
      add_custom_command(OUTPUT ${cubin}
        COMMAND sh -c "\"$1\" -v -arch=$2 -o \"$3\" \"$4\" >\"$5\" 2>&1 || { cat \"$5\"; exit 1; }"
                sh ${CFCK_PTXAS} sm_${device} ${cubin} ${ptx}
                ${CFCK_DEVICE_CODE_DIR}/${name}.sm${device}.txt
        DEPENDS ${ptx} COMMENT "Assembling ${name} for sm_${device}" VERBATIM)
      list(APPEND made ${cubin})
    endforeach()
  endforeach()
  cmake_policy(POP)
  list(GET ARGN 0 first)
  get_filename_component(first ${first} NAME_WE)
  add_custom_target(cfck_device_code_${first} ALL DEPENDS ${made})
endfunction()
