#!/usr/bin/env bash
# On a machine with a device: builds the Python package with device code for it, and runs the tests
# of Python marked gpu and those of C++ with the label gpu, some under compute-sanitizer, and
# `python bench gpu`. Needs what scripts/gpu_pack.sh gathered. A failure of one step does not hide the
# others.
#
#   scripts/gpu_check.sh [FOLDER]     results go to FOLDER; gpu-results/ where it is not given
#
# The environment variable CFCK_COMMIT names the commit in the results of the benchmark where the
# sources come without their history.
set -uo pipefail

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pack="$root_dir/.gpu_pack"
results=$(mkdir -p "${1:-$root_dir/gpu-results}" && cd "${1:-$root_dir/gpu-results}" && pwd)
build="$root_dir/build-gpu"
failed=()

[ -f "$pack/root.tar.gz" ] || { echo "error: run scripts/gpu_pack.sh first, where there is a network" >&2; exit 1; }
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv | tee "$results/device.txt"

# run NAME COMMAND...: its output goes to NAME.txt too.
run() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  "$@" >"$results/$name.txt" 2>&1 || failed+=("$name")
  tail -n 15 "$results/$name.txt"
  echo "== $name took $((SECONDS - start)) s"
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

# The packages that python3 sees, also where python3 is that of another virtual environment.
borrow_packages() {
  local own
  own=$("$build/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') &&
    python3 -c 'import sys; print("\n".join(p for p in sys.path if p.endswith("-packages")))' >"$own/borrowed.pth"
}
# The peers of the benchmark, which skips those that are missing.
install_peers() {
  local wheel
  for wheel in "$pack"/peers/*.whl; do
    "$build/venv/bin/pip" install -q --no-index --no-deps "$wheel" || echo "left out: $wheel"
  done
}
install() {
  python3 -m venv --system-site-packages "$build/venv" && borrow_packages &&
    "$build/venv/bin/pip" install -q --no-index --find-links "$pack/wheels" ml_dtypes pytest safetensors &&
    "$build/venv/bin/pip" install -q --no-index --no-build-isolation --no-deps "${settings[@]}" "$root_dir" &&
    install_peers
}
gpu_tests() { (cd "$root_dir/tests/python" && "$build/venv/bin/python" -m pytest -q -m gpu -p no:cacheprovider gpu "$@"); }
# In the same build; a skipped test says there why.
cpp_tests() {
  cmake -S "$root_dir" -B "$build" -DCFCK_BUILD_TESTS=ON -DGTest_DIR="$library_dir/cmake/GTest" &&
    cmake --build "$build" --target device_load_test &&
    ctest --test-dir "$build" -L gpu --no-tests=error --verbose
}
sanitized() {
  (cd "$root_dir/tests/python" && compute-sanitizer --error-exitcode 9 \
    "$build/venv/bin/python" -m pytest -q -m gpu -p no:cacheprovider gpu -k "bytes_of_floats or prediction or contraction")
}

run install install
export CFCK_ADAPTER_PATH="$build/lib/cfck"
run tests gpu_tests
# Five minutes are more than it takes; what it wrote until then remains. The sanitizer, which is slow,
# comes last, should the time on the machine be short.
run bench timeout 300 "$build/venv/bin/python" "$root_dir/bench" gpu -o "$results"
run cpp_tests cpp_tests
run sanitizer sanitized

if [ ${#failed[@]} -ne 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}" | tee -a "$results/device.txt"
  exit 1
fi
echo "Everything passed."
