# Writes HEADER, which has a hash of FILES (a list of paths, relative to the working folder):
# cmake -DFILES=... -DHEADER=... -P CfckDeviceCodeHash.cmake
cmake_minimum_required(VERSION 3.25)

set(lines "")
foreach(path IN LISTS FILES)
  file(SHA256 "${path}" hash)
  string(APPEND lines "${hash} ${path}\n")
endforeach()
string(SHA256 hash "${lines}")
string(SUBSTRING ${hash} 0 16 hash)
# Left alone where it says so already, so that nothing is compiled again.
file(CONFIGURE OUTPUT "${HEADER}"
  CONTENT "#pragma once\n\n#define CFCK_DEVICE_CODE_HASH \"${hash}\"\n" @ONLY)
