# The shared library shows the public API, and what the compiler makes of std for it: nothing of its
# inside.
execute_process(COMMAND ${nm} -D --defined-only -C ${library}
  OUTPUT_VARIABLE output RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${nm} failed (${result})")
endif()

# Semicolons and brackets have meanings in lists of CMake.
string(REGEX REPLACE "[][;]" "_" output "${output}")
string(REPLACE "\n" ";" lines "${output}")
set(inside "cfck::(detail|codec|format|encode|model|interop|calibration|python|tools)::")
set(n_public 0)
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^[0-9a-f]* *[A-Za-z] " "" symbol "${line}")
  string(REGEX REPLACE "^(vtable|VTT|typeinfo|typeinfo name|guard variable) for " "" symbol "${symbol}")
  if(symbol STREQUAL "")
    continue()
  elseif(symbol MATCHES "^cfck::" AND NOT symbol MATCHES "^${inside}"
         AND NOT symbol MATCHES "anonymous namespace|::Impl::")
    math(EXPR n_public "${n_public} + 1")
  elseif(symbol MATCHES "(^| )(std|__gnu_cxx)::" AND NOT symbol MATCHES "${inside}")
    # Instantiations of the standard library's templates, which it makes visible itself where all
    # their arguments are: types of the API, and enumerations.
  else()
    list(APPEND unexpected "${symbol}")
  endif()
endforeach()
if(unexpected)
  list(JOIN unexpected "\n  " text)
  message(FATAL_ERROR "the shared library exports what is not of its API:\n  ${text}")
endif()
if(n_public LESS 100)
  message(FATAL_ERROR "the shared library exports ${n_public} functions of the API; some are missing")
endif()
message(STATUS "${n_public} symbols of the API")
