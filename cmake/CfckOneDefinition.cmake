# The target one_definition: fails where two sources of the program give one name to different types
# or functions. GCC compares them where objects with -flto are put together; nothing is optimised
# before, so that every function is still there, and no code is made.
set(cfck_compared $<FILTER:$<TARGET_OBJECTS:cfck_program>,EXCLUDE,[.]gch$>)  # but headers that are read once
foreach(objects ${cfck_decode_objects} ${cfck_encode_objects})
  list(APPEND cfck_compared $<TARGET_OBJECTS:${objects}>)
endforeach()

# Without optimisation a source takes longer to read the standard library than for all the rest, so
# that is read once; the program, whose code is placed in another way, reads it a second time.
foreach(header algorithm array bit cmath cstring filesystem fstream functional map memory mutex optional set span
               string thread unordered_map vector)
  list(APPEND cfck_read_once $<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>)
endforeach()
add_library(cfck_read_once OBJECT ${PROJECT_SOURCE_DIR}/base/text.cpp)
target_link_libraries(cfck_read_once PRIVATE cfck_flags)
target_precompile_headers(cfck_read_once PRIVATE ${cfck_read_once})
target_precompile_headers(cfck_program PRIVATE ${cfck_read_once} $<$<COMPILE_LANGUAGE:CXX>:<CLI/CLI.hpp$<ANGLE-R>>)
foreach(objects ${cfck_decode_objects} ${cfck_encode_objects})
  target_precompile_headers(${objects} REUSE_FROM cfck_read_once)
endforeach()

add_custom_command(OUTPUT one_definition.o
  COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -flto=auto -flinker-output=rel
          -Wodr -Wlto-type-mismatch -Werror -o one_definition.o ${cfck_compared}
  DEPENDS ${cfck_compared} COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Comparing all types and functions")
add_custom_target(one_definition DEPENDS one_definition.o)
