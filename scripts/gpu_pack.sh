#!/usr/bin/env bash
# Gathers in .gpu_pack/ (ignored by git) what scripts/gpu_check.sh needs on a machine with a device and
# without a network: headers and static libraries, and Python packages. Such a machine is assumed to
# have CUDA 13, CMake, ninja, a C++ compiler, and Python 3.12 with PyTorch, nanobind and
# scikit-build-core.
#
#   scripts/gpu_pack.sh [PYTHON_VERSION]     3.12 where it is not given
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

python_version=${1:-3.12}
pack="$root_dir/.gpu_pack"
rm -rf "$pack"
mkdir -p "$pack/debian" "$pack/wheels"

step "Headers and static libraries"
(cd "$pack/debian" && apt-get download -qq libzstd-dev zlib1g-dev libxxhash-dev nlohmann-json3-dev \
  libcli11-dev libfmt-dev libeigen3-dev 2>/dev/null) || fail "apt-get download failed; is there a network?"
for package in "$pack"/debian/*.deb; do dpkg -x "$package" "$pack/root"; done
rm -rf "$pack/debian" "$pack/root/usr/share/doc"
# fmt is used as headers, but its CMake files want to see the library, which another package has.
targets=$(find "$pack/root" -name 'fmt-targets-none.cmake')
sed -n 's/.*IMPORTED_LOCATION_NONE.*\(libfmt[^"]*\)".*/\1/p' "$targets" |
  while read -r library; do touch "$(dirname "$targets")/../../$library"; done

step "Python packages"
make_venv
"$venv/bin/pip" download -q --only-binary :all: --python-version "$python_version" --no-deps \
  -d "$pack/wheels" 'ml_dtypes>=0.5' 'pytest>=8' iniconfig pluggy packaging pygments safetensors

du -sh "$pack"
