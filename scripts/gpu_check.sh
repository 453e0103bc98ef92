#!/usr/bin/env bash
# On a machine with a device: builds the Python package with device code for it, and runs the tests
# of Python marked gpu, `python bench gpu`, the tests of C++ with the label gpu, and some of both under
# compute-sanitizer. Needs what scripts/gpu_pack.sh gathered. A failure of one step does not hide the
# others, and neither does one that hangs.
#
#   scripts/gpu_check.sh [FOLDER [STEP...]]     results go to FOLDER; gpu-results/ where it is not given
#
# Steps are install, tests, bench, cpp_tests and sanitizer; all of them where none is named. FOLDER/device.txt
# has a line for each at any moment: ok, FAILED or not run, and how long. A second call goes on where the
# first one ended: what is installed from the same sources stays, and the steps that are named are run.
#
# Environment variables:
#   CFCK_COMMIT      names the commit in the results where the sources come without their history
#   CFCK_TIME_LIMIT  the seconds after which the script has to be done (570)
#   CFCK_BENCH_ROWS  rows of the benchmark, such as decode,load; all where it is not set
#   CFCK_FAKE_DRIVER tries the script itself where there is no device: the driver of the tests
#                    (build/tests/simt/libcfck_fake_driver.so) stands for that of a device, tests and
#                    benchmark take as little as they can, and nothing is measured. No file of FOLDER
#                    is a result then, and none may be committed.
set -uo pipefail

# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
pack="$root_dir/.gpu_pack"
# With two pages of the benchmark these are eight files: somebody who fetches them may not get more.
results=$(mkdir -p "${1:-$root_dir/gpu-results}" && cd "${1:-$root_dir/gpu-results}" && pwd) || exit 1
shift || true
build="$root_dir/build-gpu"
python="$build/venv/bin/python"
time_limit=${CFCK_TIME_LIMIT:-570}
fake_driver=${CFCK_FAKE_DRIVER:-}
# Toolkits are often installed without being on the path, and CMake beside Python.
PATH="$PATH:/usr/local/cuda/bin:$(python3 -c 'import sysconfig; print(sysconfig.get_path("scripts"))')"
export PATH

[ -f "$pack/root.tar.gz" ] || fail "run scripts/gpu_pack.sh first, where there is a network"
all_steps=(install tests bench cpp_tests sanitizer)
asked=("$@")
[ ${#asked[@]} -ne 0 ] || asked=("${all_steps[@]}")
for name in "${asked[@]}"; do
  case " ${all_steps[*]} " in *" $name "*) ;; *) fail "no such step: $name; there are ${all_steps[*]}" ;; esac
done
is_asked() { case " ${asked[*]} " in *" $1 "*) true ;; *) false ;; esac }

pytest_choice=()
bench_options=()
build_options=()
sanitizer=(compute-sanitizer --report-api-errors no --error-exitcode 9)
if [ -z "$fake_driver" ]; then
  patience=1
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv | tee "$results/device.txt"
else
  [ -f "$fake_driver" ] || fail "$fake_driver is missing: cmake --build build --target cfck_fake_driver"
  fake_driver=$(realpath "$fake_driver")
  patience=10 # an emulated device, and few cores
  pytest_choice=(-k "bytes_of_floats or contraction or streams or slices")
  bench_options=(--scale 0.0002)
  build_options=(CMAKE_UNITY_BUILD=ON)
  sanitizer=(env) # which is no sanitizer
  # A share of the tests of C++.
  export GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=0
  echo "A trial on the fake driver: nothing here is a result, and nothing may be committed." |
    tee "$results/device.txt"
fi
# shellcheck source=scripts/steps.sh
source "$root_dir/scripts/steps.sh"
plan_steps "${all_steps[@]}"
for name in "${all_steps[@]}"; do is_asked "$name" || [ "$name" = install ] || skip_step "$name"; done

mkdir -p "$build"
stamp_file="$build/passed"
# What was installed depends on these sources, the pack and the Python that was found.
sources_stamp() {
  {
    find "$root_dir" \( -path "$root_dir/.*" -o -path "$root_dir/build*" -o -path "$root_dir/gpu-results" \
      -o -path "$results" -o -name __pycache__ \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
    sha256sum "$pack"/*.tar.gz "$pack"/*/*.whl
    python3 -c 'import sys; print(sys.version, sys.prefix)'
  } | sha256sum
}

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
unpack_libraries() {
  tar -C "$build" -xzf "$pack/root.tar.gz" && root="$build/root" &&
    library_dir=$(dirname "$(find "$root" -name libzstd.a)")
}
install() {
  local definition settings=(--config-settings=build-dir="$build")
  for definition in CFCK_BUILD_TESTS=OFF CFCK_CUDA=ON CFCK_DEVICES=native CFCK_TORCH=OFF CFCK_HDF5=OFF \
    CFCK_ZSTD_INCLUDE_DIR="$root/usr/include" CFCK_ZSTD_LIBRARY="$library_dir/libzstd.a" \
    CFCK_XXHASH_INCLUDE_DIR="$root/usr/include" \
    ZLIB_INCLUDE_DIR="$root/usr/include" ZLIB_LIBRARY="$library_dir/libz.a" \
    nlohmann_json_DIR="$root/usr/share/cmake/nlohmann_json" \
    CLI11_DIR="$root/usr/share/cmake/CLI11" fmt_DIR="$library_dir/cmake/fmt" \
    Eigen3_DIR="$root/usr/share/eigen3/cmake" "${build_options[@]}"; do
    settings+=(--config-settings=cmake.define."$definition")
  done
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
# After an error of the device a process cannot use it any more, and all later tests fail too: then each
# has a process of its own. The one that takes all memory is left out.
tests_apart() {
  echo "Each test in a process of its own:"
  for file in gpu/test_gpu.py gpu/test_gpu_save.py; do sed -n "s|^def \(test_[a-z_0-9]*\).*|$file::\1|p" "$file"; done | grep -v more_than_the_device_has |
    within 120 xargs -P 4 -I{} "${pytest[@]}" -q {}
}
gpu_tests() (
  show_device && cd "$root_dir/tests/python" &&
    { within 150 "${pytest[@]}" --durations=5 "${pytest_choice[@]}" gpu || { tests_apart && false; }; }
)
# What it wrote until it was ended remains.
benchmark() {
  [ -z "${CFCK_BENCH_ROWS:-}" ] || bench_options+=(--rows "$CFCK_BENCH_ROWS")
  LD_LIBRARY_PATH="$build/runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    within 300 "$python" "$root_dir/bench" gpu -o "$results" "${bench_options[@]}"
}
# In the same build; a skipped test says there why.
build_cpp_tests() {
  within 200 cmake -S "$root_dir" -B "$build" -DCFCK_BUILD_TESTS=ON -DGTest_DIR="$library_dir/cmake/GTest" &&
    within 200 cmake --build "$build" --target device_load_test device_save_test
}
cpp_tests() { build_cpp_tests && within 150 ctest --test-dir "$build" -L gpu --no-tests=error --verbose; }
# The tests of C++ give every tensor memory of its own, and those of Python do so without torch's cache.
# Errors that functions of the driver return are no errors of kernels, and torch expects some.
sanitized() (
  code=0
  [ -x "$build/tests/simt/device_load_test" ] || build_cpp_tests || code=$?
  CFCK_TEST_REAL_DEVICE=1 within 100 "${sanitizer[@]}" "$build/tests/simt/device_load_test" --gtest_brief=1 \
    --gtest_filter='*DeviceLoad.AllTensors*:*DeviceLoad.LittleMemory*:*DeviceLoad.Boxes*' || code=$?
  # Warps of a block leave each other what they find in shared memory.
  for tool in memcheck racecheck; do
    tool_options=(--tool "$tool")
    [ -z "$fake_driver" ] || tool_options=()
    CFCK_TEST_REAL_DEVICE=1 within 80 "${sanitizer[@]}" "${tool_options[@]}" "$build/tests/simt/device_save_test" \
      --gtest_brief=1 --gtest_filter='DeviceEncodeFile.OfOneChunkEach:DeviceEncodeFile.WithAnErrorForSome' || code=$?
  done
  cd "$root_dir/tests/python" && PYTORCH_NO_CUDA_MEMORY_CACHING=1 within 150 "${sanitizer[@]}" "${pytest[@]}" -q gpu \
    -k "bytes_of_floats or prediction or contraction" || code=$?
  exit $code
)

unpack_libraries || fail "$pack/root.tar.gz cannot be unpacked: run scripts/gpu_pack.sh again"
run_step_once install "$(sources_stamp)" install
export CFCK_ADAPTER_PATH="$build/lib/cfck"
if [ -n "$fake_driver" ]; then
  export CFCK_CUDA_DRIVER="$fake_driver" PYTHONPATH="$root_dir/tests/simt/fake_torch"
fi
# The sanitizer, which is slow, comes last, should the time on the machine be short.
is_asked tests && run_step tests gpu_tests
is_asked bench && run_step bench benchmark
is_asked cpp_tests && run_step cpp_tests cpp_tests
is_asked sanitizer && run_step sanitizer sanitized
end_steps
