# Installs the libraries below the build folder, looks that nothing else is there, builds the examples
# with find_package(cfck), and runs two of them; then one with pkg-config, and one against the shared
# library.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGV}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work_dir})
run(${CMAKE_COMMAND} --install ${build_dir} --prefix ${work_dir}/prefix
  --component cfck_development)
file(GLOB_RECURSE installed RELATIVE ${work_dir}/prefix ${work_dir}/prefix/*)
set(strange ${installed})
list(FILTER strange EXCLUDE REGEX
  "^(include/cfck/[a-z0-9_]+[.]hpp|lib[^/]*/(.*/)?(libcfck(_[a-z0-9_]+)?[.](a|so[.0-9]*)|cmake/cfck/[Cc]fck[A-Za-z0-9-]+[.]cmake|pkgconfig/cfck(-decode)?[.]pc)|lib/cfck/cfck-hdf5-reader)$")
if(strange)
  message(FATAL_ERROR "installed, but not known: ${strange}")
endif()
foreach(part cfck.hpp cfckConfig.cmake cfck.pc cfck-decode.pc)
  if(NOT installed MATCHES "/${part}")
    message(FATAL_ERROR "not installed: ${part}")
  endif()
endforeach()

set(flags)
set(sanitize_flags)
if(sanitize)
  set(sanitize_flags -fsanitize=${sanitize})
  set(flags -DCMAKE_CXX_FLAGS=${sanitize_flags})
endif()
run(${CMAKE_COMMAND} -S ${examples_dir} -B ${work_dir}/build -G ${generator}
  -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_PREFIX_PATH=${work_dir}/prefix -DTorch_DIR=${torch_dir} ${flags})
run(${CMAKE_COMMAND} --build ${work_dir}/build)
run(${work_dir}/build/save_and_load ${work_dir}/example.cfck)
if(torch_dir)
  run(${work_dir}/build/train_libtorch ${work_dir}/job.cfck)
endif()
run(${work_dir}/build/list_tensors ${work_dir}/example.cfck)
if(with_hdf5)
  # The build was configured for another prefix.
  set(ENV{CFCK_ADAPTER_PATH} ${work_dir}/prefix/lib/cfck)
  run(${work_dir}/build/to_hdf5 ${work_dir}/example.cfck ${work_dir}/example.h5)
endif()

if(pkg_config)
  file(GLOB_RECURSE found ${work_dir}/prefix/cfck.pc)
  get_filename_component(folder ${found} DIRECTORY)
  foreach(package_and_example cfck:save_and_load cfck-decode:list_tensors)
    string(REGEX MATCH "^[^:]+" package ${package_and_example})
    string(REGEX MATCH "[^:]+$" example ${package_and_example})
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder}
      ${pkg_config} --cflags --libs ${package} OUTPUT_VARIABLE arguments RESULT_VARIABLE result
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "pkg-config does not know ${package}")
    endif()
    separate_arguments(arguments UNIX_COMMAND "${arguments}")
    run(${compiler} -std=c++20 ${examples_dir}/${example}.cpp ${sanitize_flags} ${arguments}
      -o ${work_dir}/${example}_pc)
    run(${work_dir}/${example}_pc ${work_dir}/example.cfck)
  endforeach()
endif()

get_filename_component(shared_folder ${shared_library} DIRECTORY)
set(example ${work_dir}/save_and_load_shared)
run(${compiler} -std=c++20 -I ${work_dir}/prefix/include ${examples_dir}/save_and_load.cpp
  ${shared_library} -Wl,-rpath,${shared_folder} ${sanitize_flags} -o ${example})
run(${example} ${work_dir}/shared.cfck)
