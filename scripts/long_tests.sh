# shellcheck shell=bash disable=SC2154
# The long tier, sourced by test.sh --long: large files, sanitizers over all C++
# tests, a minute of fuzzing for each target.

step "Long C++ tests"
ctest --test-dir "$build" --output-on-failure --label-regex long

run_sanitized() {
  local name=$1 sanitizers=$2
  step "C++ tests with $sanitizers sanitizers (build/$name)"
  cmake -S "$root_dir" -B "$build/$name" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCFCK_SANITIZE="$sanitizers" -DCFCK_BUILD_TESTS=ON -DCFCK_BUILD_TOOLS=ON >/dev/null
  ninja -C "$build/$name" >/dev/null
  ctest --test-dir "$build/$name" --output-on-failure --label-exclude 'long|unsanitized' --parallel "$(nproc)"
}
run_sanitized asan-ubsan address,undefined
run_sanitized tsan thread

step "Fuzzing, one minute for each target (build/fuzz)"
cmake -S "$root_dir" -B "$build/fuzz" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_COMPILER=clang++ -DCFCK_BUILD_FUZZERS=ON -DCFCK_BUILD_TOOLS=OFF \
  -DCFCK_SANITIZE=address,undefined,fuzzer-no-link >/dev/null
ninja -C "$build/fuzz" >/dev/null
for target in "$build"/fuzz/tests/fuzz/fuzz_*; do
  [ -x "$target" ] && [ -f "$target" ] || continue
  name=$(basename "$target")
  new_inputs=$(mktemp -d)
  "$target" -max_total_time=60 -rss_limit_mb=2048 -timeout=10 -print_final_stats=0 \
    -artifact_prefix="$build/fuzz/" "$new_inputs" "$root_dir/tests/fuzz/corpus/${name#fuzz_}"
  rm -rf "$new_inputs"
done
