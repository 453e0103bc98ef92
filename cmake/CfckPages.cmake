# Writes manual pages and completion into FOLDER, as the program CFCK (a list: an emulator may come
# first) prints them: cmake -DCFCK=... -DFOLDER=... -P CfckPages.cmake
cmake_minimum_required(VERSION 3.25)

function(cfck_print path)
  get_filename_component(folder "${FOLDER}/${path}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  execute_process(COMMAND ${CFCK} ${ARGN} OUTPUT_FILE "${FOLDER}/${path}"
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

list(REMOVE_ITEM CFCK "")
file(REMOVE_RECURSE "${FOLDER}")
cfck_print(man1/cfck.1 help --man)
execute_process(COMMAND ${CFCK} help --list OUTPUT_VARIABLE commands
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" commands "${commands}")
foreach(command IN LISTS commands)
  cfck_print(man1/cfck-${command}.1 help --man ${command})
endforeach()
# bash and fish look for a file of the name of the program.
foreach(program cfck cfck-convert cfck-inspect)
  cfck_print(bash/${program} completion bash)
  cfck_print(fish/${program}.fish completion fish)
endforeach()
cfck_print(zsh/_cfck completion zsh)
file(WRITE "${FOLDER}/written" "")
