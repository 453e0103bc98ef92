#!/usr/bin/env bash
# On a machine with a device: builds the Python package with device code for it, and runs the tests
# of Python marked gpu and those of C++ with the label gpu, some under compute-sanitizer, and
# `python bench gpu`. Needs what scripts/gpu_pack.sh gathered. A failure of one step does not hide the
# others, and neither does one that hangs.
#
#   scripts/gpu_check.sh [FOLDER]     results go to FOLDER; gpu-results/ where it is not given
#
# The environment variable CFCK_COMMIT names the commit in the results of the benchmark where the
# sources come without their history, and CFCK_TIME_LIMIT the seconds after which the script has to be
# done (570).
set -uo pipefail

# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
pack="$root_dir/.gpu_pack"
results=$(mkdir -p "${1:-$root_dir/gpu-results}" && cd "${1:-$root_dir/gpu-results}" && pwd)
build="$root_dir/build-gpu"
python="$build/venv/bin/python"
time_limit=${CFCK_TIME_LIMIT:-570}
failed=()
# Toolkits are often installed without being on the path, and CMake beside Python.
PATH="$PATH:/usr/local/cuda/bin:$(python3 -c 'import sysconfig; print(sysconfig.get_path("scripts"))')"
export PATH

[ -f "$pack/root.tar.gz" ] || fail "run scripts/gpu_pack.sh first, where there is a network"
for name in install tests bench cpp_tests sanitizer; do : >"$results/$name.txt"; done
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv | tee "$results/device.txt"

# within SECONDS COMMAND...: ends a program, and what it started, after that time or when the script has
# to be done.
within() {
  local limit=$1 left=$((time_limit - SECONDS)) code=0
  shift
  [ "$limit" -le "$left" ] || limit=$left
  [ "$limit" -gt 0 ] || { echo "no time is left for $*"; return 124; }
  timeout --kill-after=10 "$limit" "$@" || code=$?
  case $code in 124 | 137) echo "ended after $limit s: $*" ;; esac
  return $code
}
# run NAME COMMAND...: its output goes to NAME.txt too. Tests that find no device skip themselves: here
# that is a failure.
run() {
  local name=$1 start=$SECONDS result=passed
  shift
  echo "== $name"
  "$@" >>"$results/$name.txt" 2>&1 || result="FAILED (code $?)"
  ! grep -q "needs a CUDA device" "$results/$name.txt" || result="FAILED (no device can be used)"
  tail -n 15 "$results/$name.txt"
  echo "== $name $result after $((SECONDS - start)) s" | tee -a "$results/device.txt"
  [ "$result" = passed ] || { failed+=("$name"); return 1; }
}

mkdir -p "$build"
tar -C "$build" -xzf "$pack/root.tar.gz"
root="$build/root"
library_dir=$(dirname "$(find "$root" -name libzstd.a)")
settings=(--config-settings=build-dir="$build")
for definition in CFCK_BUILD_TESTS=OFF CFCK_CUDA=ON CFCK_DEVICES=native CFCK_TORCH=OFF CFCK_HDF5=OFF \
  CFCK_ZSTD_INCLUDE_DIR="$root/usr/include" CFCK_ZSTD_LIBRARY="$library_dir/libzstd.a" \
  CFCK_XXHASH_INCLUDE_DIR="$root/usr/include" \
  ZLIB_INCLUDE_DIR="$root/usr/include" ZLIB_LIBRARY="$library_dir/libz.a" \
  nlohmann_json_DIR="$root/usr/share/cmake/nlohmann_json" \
  CLI11_DIR="$root/usr/share/cmake/CLI11" fmt_DIR="$library_dir/cmake/fmt" \
  Eigen3_DIR="$root/usr/share/eigen3/cmake"; do
  settings+=(--config-settings=cmake.define."$definition")
done

# With the packages that python3 sees, pip among them, also where python3 is that of another virtual
# environment. The Python of a system often has no pip to put there.
make_environment() {
  local own
  python3 -m venv --without-pip --system-site-packages "$build/venv" &&
    own=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') &&
    python3 -c 'import sys; print("\n".join(p for p in sys.path if p.endswith("-packages")))' >"$own/borrowed.pth"
}
pip_install() { within 300 "$python" -m pip install --no-index "$@"; }
# The peers of the benchmark, which skips those that are missing. One looks for the runtime of CUDA under
# the name that only toolkits have.
install_peers() {
  local wheel
  mkdir -p "$build/runtime"
  "$python" -c 'import torch; print(open("/proc/self/maps").read())' | grep -o '/.*libcudart\.so.*' | head -n 1 |
    xargs -I{} ln -sf {} "$build/runtime/libcudart.so"
  for wheel in "$pack"/peers/*.whl; do pip_install -q --no-deps "$wheel" || echo "left out: $wheel"; done
}
install() {
  make_environment &&
    pip_install -q --find-links "$pack/wheels" ml_dtypes pytest safetensors "${python_build_packages[@]}" &&
    pip_install -v --no-build-isolation --no-deps "${settings[@]}" "$root_dir" &&
    install_peers
}
show_device() {
  "$python" -c '
import sys, cfck, torch
print("torch", torch.__version__, "for CUDA", torch.version.cuda)
reason = cfck.cuda.why_not(0) if torch.cuda.is_available() else "torch sees none"
sys.exit(f"needs a CUDA device: {reason}" if reason else None)'
}
pytest=("$python" -m pytest -rs -m gpu -p no:cacheprovider -o faulthandler_timeout=60)
gpu_tests() (show_device && cd "$root_dir/tests/python" && within 150 "${pytest[@]}" --durations=5 gpu)
# After an error of the device a process cannot use it any more, and all later tests fail too: here each
# has a process of its own. The one that takes all memory is left out.
tests_apart() (
  show_device && cd "$root_dir/tests/python" &&
    sed -n 's/^def \(test_[a-z_0-9]*\).*/gpu\/test_gpu.py::\1/p' gpu/test_gpu.py | grep -v more_than_the_device_has |
    within 120 xargs -P 4 -I{} "${pytest[@]}" -q {}
)
# In the same build; a skipped test says there why.
cpp_tests() {
  within 200 cmake -S "$root_dir" -B "$build" -DCFCK_BUILD_TESTS=ON -DGTest_DIR="$library_dir/cmake/GTest" &&
    within 200 cmake --build "$build" --target device_load_test &&
    within 150 ctest --test-dir "$build" -L gpu --no-tests=error --verbose
}
# The tests of C++ give every tensor memory of its own, and those of Python do so without torch's cache.
# Errors that functions of the driver return are no errors of kernels, and torch expects some.
sanitized() (
  tool=(compute-sanitizer --report-api-errors no --error-exitcode 9)
  code=0
  CFCK_TEST_REAL_DEVICE=1 within 100 "${tool[@]}" "$build/tests/simt/device_load_test" --gtest_brief=1 \
    --gtest_filter='*DeviceLoad.AllTensors*:*DeviceLoad.LittleMemory*:*DeviceLoad.Boxes*' || code=$?
  cd "$root_dir/tests/python" && PYTORCH_NO_CUDA_MEMORY_CACHING=1 within 150 "${tool[@]}" "${pytest[@]}" -q gpu \
    -k "bytes_of_floats or prediction or contraction" || code=$?
  exit $code
)

run install install
export CFCK_ADAPTER_PATH="$build/lib/cfck"
run tests gpu_tests && tests_pass=true || tests_pass=false
# Five minutes are more than it takes; what it wrote until then remains. The sanitizer, which is slow,
# comes last, should the time on the machine be short.
LD_LIBRARY_PATH="$build/runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
  run bench within 300 "$python" "$root_dir/bench" gpu -o "$results"
run cpp_tests cpp_tests
$tests_pass || run tests tests_apart
run sanitizer sanitized

if [ ${#failed[@]} -ne 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}" | sort -u
  exit 1
fi
echo "Everything passed."
