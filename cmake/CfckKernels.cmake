# Kernels are compiled once for each CPU level; base/cpu/level_switch.hpp says how one is picked.
#
#   cfck_add_kernels(target PATH...)
#
# adds PATH_baseline.cpp and, on x86-64, PATH_v3.cpp and PATH_v4.cpp to the target, each with the
# flags of its level, and tells PATH.cpp or the source that picks (CFCK_HAS_X86_LEVELS).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(CFCK_X86_LEVELS v3 v4)
endif()

function(cfck_add_kernels target)
  foreach(path IN LISTS ARGN)
    set(sources ${path}_baseline.cpp)
    foreach(level IN LISTS CFCK_X86_LEVELS)
      list(APPEND sources ${path}_${level}.cpp)
      set_property(SOURCE ${path}_${level}.cpp APPEND PROPERTY COMPILE_OPTIONS -march=x86-64-${level})
      set_property(SOURCE ${path}_${level}.cpp PROPERTY SKIP_PRECOMPILE_HEADERS ON)
    endforeach()
    target_sources(${target} PRIVATE ${sources})
    # Aligned, so that what is linked in front of a loop does not decide how fast it is: up to 15 %.
    set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS
      "$<$<CONFIG:Release,RelWithDebInfo>:-O3;-falign-functions=64;-falign-loops=32>")
  endforeach()
endfunction()

# Sources that pick among levels.
function(cfck_pick_levels)
  if(CFCK_X86_LEVELS)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_DEFINITIONS CFCK_HAS_X86_LEVELS)
  endif()
endfunction()
