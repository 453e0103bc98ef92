# The target one_definition: fails where two sources of the program give one name to different types
# or functions. GCC compares them where objects with -flto are put together; nothing is optimised
# before, so that every function is still there, and no code is made.
set(cfck_compared $<TARGET_OBJECTS:cfck_program>)
foreach(objects ${cfck_decode_objects} ${cfck_encode_objects})
  list(APPEND cfck_compared $<TARGET_OBJECTS:${objects}>)
endforeach()
add_custom_command(OUTPUT one_definition.o
  COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -flto=auto -flinker-output=rel
          -Wodr -Wlto-type-mismatch -Werror -o one_definition.o ${cfck_compared}
  DEPENDS ${cfck_compared} COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Comparing all types and functions")
add_custom_target(one_definition DEPENDS one_definition.o)
