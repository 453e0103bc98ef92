# shellcheck shell=bash disable=SC2154
# Builds that find what the normal one cannot, sourced by test.sh and by long_tests.sh.

# Of two functions or types of one name in different files a program keeps one, unless both were
# inlined. The compiler compares them all.
compare_definitions() {
  step "One definition of each type and function (build/odr)"
  cmake --preset odr >/dev/null
  cmake --build --preset odr >/dev/null
}

# Without optimisation nothing is inlined, and assertions of the standard library are on.
run_debug_tests() {
  step "C++ tests without optimisation (build/debug)"
  cmake --preset debug >/dev/null
  cmake --build --preset debug >/dev/null
  ctest --preset debug --parallel "$(nproc)"
}
