#!/usr/bin/env bash
# Gathers in .gpu_pack/ (ignored by git) what scripts/gpu_check.sh needs on a machine with a device and
# without a network: headers and static libraries, Python packages, and the peers of `python bench gpu`.
# The machine is assumed to have CUDA 13, CMake, ninja, a C++ compiler, and Python 3.12 with PyTorch,
# nanobind and scikit-build-core. Sources and pack together stay below 64 MiB, so that they are
# quickly copied: where they would not, nvCOMP is left out, which is the largest of the peers.
#
#   scripts/gpu_pack.sh [PYTHON_VERSION]     3.12 where it is not given
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

python_version=${1:-3.12}
pack="$root_dir/.gpu_pack"
rm -rf "$pack"
mkdir -p "$pack/wheels" "$pack/peers"
max_bytes=$((60 << 20)) # an archive of so many files is larger than they are

step "Headers and static libraries"
unpack_packages "$pack/root" "${header_packages[@]}" libgtest-dev
rm -rf "$pack/root/usr/share/doc"
tar -C "$pack" -czf "$pack/root.tar.gz" root
rm -rf "$pack/root"

step "Python packages"
make_venv
download=("$venv/bin/pip" download -q --only-binary :all: --python-version "$python_version")
"${download[@]}" --no-deps -d "$pack/wheels" \
  'ml_dtypes>=0.5' 'pytest>=8' iniconfig pluggy packaging pygments safetensors \
  "${python_build_packages[@]}" pathspec

step "Peers"
# get_peer NAME OPTION...: what cannot be had is skipped by the benchmark.
get_peer() {
  "${download[@]}" -d "$pack/peers" "$@" || echo "left out: ${*: -1} cannot be downloaded"
}
# Without PyTorch, which is there, but with what the last of them imports besides.
for peer in fastsafetensors instanttensor runai-model-streamer humanize; do get_peer --no-deps "$peer"; done
get_peer nvidia-nvcomp-cu13 # with its library, which has the same version

n_bytes() {
  (cd "$root_dir" && { git ls-files -zco --exclude-standard; find .gpu_pack -type f -print0; } |
    xargs -0 stat -c %s | awk '{ sum += $1 } END { print sum }')
}
if [ "$(n_bytes)" -ge "$max_bytes" ]; then
  rm -f "$pack"/peers/*nvcomp*
  echo "left out: nvidia-nvcomp-cu13 is too large"
fi
[ "$(n_bytes)" -lt "$max_bytes" ] || fail "sources and pack take more than $max_bytes bytes"

du -sh "$pack"/*
