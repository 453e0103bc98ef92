#!/usr/bin/env bash
# On a machine with a device: builds the Python package with device code for it, and runs the tests
# marked gpu, some of them under compute-sanitizer, and bench/gpu.py. Needs what scripts/gpu_pack.sh gathered. A failure
# of one step does not hide the others.
#
#   scripts/gpu_check.sh [FOLDER]     results go to FOLDER; gpu-results/ where it is not given
set -uo pipefail

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pack="$root_dir/.gpu_pack"
results=$(mkdir -p "${1:-$root_dir/gpu-results}" && cd "${1:-$root_dir/gpu-results}" && pwd)
build="$root_dir/build-gpu"
failed=()

[ -d "$pack/root" ] || { echo "error: run scripts/gpu_pack.sh first, where there is a network" >&2; exit 1; }
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
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

library_dir=$(dirname "$(find "$pack/root" -name libzstd.a)")
settings=(--config-settings=build-dir="$build")
for definition in CFCK_CUDA=ON CFCK_DEVICES="$capability" CFCK_TORCH=OFF CFCK_HDF5=OFF \
  CFCK_ZSTD_INCLUDE_DIR="$pack/root/usr/include" CFCK_ZSTD_LIBRARY="$library_dir/libzstd.a" \
  CFCK_XXHASH_INCLUDE_DIR="$pack/root/usr/include" \
  ZLIB_INCLUDE_DIR="$pack/root/usr/include" ZLIB_LIBRARY="$library_dir/libz.a" \
  nlohmann_json_DIR="$pack/root/usr/share/cmake/nlohmann_json" \
  CLI11_DIR="$pack/root/usr/share/cmake/CLI11" fmt_DIR="$library_dir/cmake/fmt" \
  Eigen3_DIR="$pack/root/usr/share/eigen3/cmake"; do
  settings+=(--config-settings=cmake.define."$definition")
done

install() {
  python3 -m venv --system-site-packages "$build/venv" &&
    "$build/venv/bin/pip" install -q --no-index --find-links "$pack/wheels" ml_dtypes pytest safetensors &&
    "$build/venv/bin/pip" install -q --no-index --no-build-isolation --no-deps "${settings[@]}" "$root_dir"
}
gpu_tests() { (cd "$root_dir/tests/python" && "$build/venv/bin/python" -m pytest -q -m gpu -p no:cacheprovider gpu "$@"); }
sanitized() {
  (cd "$root_dir/tests/python" && compute-sanitizer --error-exitcode 9 \
    "$build/venv/bin/python" -m pytest -q -m gpu -p no:cacheprovider gpu -k "bytes_of_floats or prediction or contraction")
}

mkdir -p "$build"
run install install
export CFCK_ADAPTER_PATH="$build/lib/cfck"
run tests gpu_tests
run sanitizer sanitized
run bench "$build/venv/bin/python" "$root_dir/bench/gpu.py" -o "$results/gpu.json"

if [ ${#failed[@]} -ne 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}" | tee -a "$results/device.txt"
  exit 1
fi
echo "Everything passed."
