# shellcheck shell=bash disable=SC2154
# The long tier, sourced by test.sh --long: large files, all C++ tests without optimisation and with
# sanitizers, the codecs on AArch64, a minute of fuzzing for each target.

step "Long C++ tests"
ctest --test-dir "$build" --output-on-failure --label-regex long

step "Forked children and programs that end, many of them"
(cd "$root_dir/tests/python" && PATH="$venv/bin:$PATH" CFCK_FORKED_CHILDREN=20000 CFCK_ENDED_PROGRAMS=20 \
  "$venv/bin/python" -m pytest -q processes/test_forks.py processes/test_exit.py)

run_debug_tests

run_sanitized() {
  local name=$1 sanitizers=$2
  step "C++ tests with $sanitizers sanitizers (build/$name)"
  cmake -S "$root_dir" -B "$build/$name" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCFCK_SANITIZE="$sanitizers" -DCFCK_BUILD_TESTS=ON -DCFCK_BUILD_TOOLS=ON >/dev/null
  ninja -C "$build/$name" >/dev/null
  ctest --test-dir "$build/$name" --output-on-failure --label-exclude 'long|unsanitized' --parallel "$(nproc)"
}
run_sanitized asan-ubsan address,undefined
# In a forked child the threads of the parent look as if nobody had joined them.
export TSAN_OPTIONS="report_thread_leaks=0 suppressions=$root_dir/scripts/tsan_suppressions.txt"
run_sanitized tsan thread
unset TSAN_OPTIONS

run_on_aarch64() {
  step "Codec tests on AArch64, under qemu (build/aarch64)"
  need_foreign_packages arm64 libzstd-dev zlib1g-dev libxxhash-dev libgtest-dev libgmock-dev libfmt-dev
  need_packages g++-aarch64-linux-gnu qemu-user
  cmake -S "$root_dir" -B "$build/aarch64" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$root_dir/cmake/aarch64-linux-gnu.cmake" \
    -DCFCK_BUILD_TESTS=ON -DCFCK_BUILD_TOOLS=OFF -DCFCK_CUDA=OFF >/dev/null
  ninja -C "$build/aarch64" codec_test >/dev/null
  qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu \
    "$build/aarch64/tests/codec/codec_test" --gtest_brief=1
}
if [ "$(uname -m)" = aarch64 ]; then
  step "SKIPPED: codec tests under qemu; the tests above ran on AArch64 itself"
elif grep -qx 'ID=ubuntu' /etc/os-release; then
  step "SKIPPED: codec tests on AArch64; Ubuntu keeps packages of other architectures apart"
else
  run_on_aarch64
fi

"$root_dir/scripts/wheel.sh" "$build/dist"

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
