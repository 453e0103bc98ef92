# Installs the libraries below the build folder, builds the examples with find_package(cfck), and runs
# two of them; then links one against the shared library.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGV}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work_dir})
run(${CMAKE_COMMAND} --install ${build_dir} --prefix ${work_dir}/prefix
  --component cfck_development)
set(flags)
set(sanitize_flags)
if(sanitize)
  set(sanitize_flags -fsanitize=${sanitize})
  set(flags -DCMAKE_CXX_FLAGS=${sanitize_flags})
endif()
run(${CMAKE_COMMAND} -S ${examples_dir} -B ${work_dir}/build -G ${generator}
  -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_PREFIX_PATH=${work_dir}/prefix ${flags})
run(${CMAKE_COMMAND} --build ${work_dir}/build)
run(${work_dir}/build/save_and_load ${work_dir}/example.cfck)
run(${work_dir}/build/list_tensors ${work_dir}/example.cfck)

get_filename_component(shared_folder ${shared_library} DIRECTORY)
set(example ${work_dir}/save_and_load_shared)
run(${compiler} -std=c++20 -I ${work_dir}/prefix/include ${examples_dir}/save_and_load.cpp
  ${shared_library} -Wl,-rpath,${shared_folder} ${sanitize_flags} -o ${example})
run(${example} ${work_dir}/shared.cfck)
