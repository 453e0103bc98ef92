# shellcheck shell=bash disable=SC2154
# Builds that find what the normal one cannot, sourced by test.sh.

# Without optimisation nothing is inlined, so that of two functions or types of one name
# in different files only one is there. Assertions of the standard library are on, and the link of
# the program compares all types and functions.
run_debug_tests() {
  step "C++ tests without optimisation (build/debug)"
  cmake --preset debug >/dev/null
  cmake --build --preset debug >/dev/null
  ctest --preset debug --parallel "$(nproc)"
}
