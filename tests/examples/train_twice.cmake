# Trains, and goes on where it stopped.
file(REMOVE ${file})
foreach(run 1 2)
  execute_process(COMMAND ${program} ${file} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result})")
  endif()
endforeach()
