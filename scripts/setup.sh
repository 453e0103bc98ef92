# shellcheck shell=bash
# What demo.sh and test.sh share: system packages, the virtual environment, the
# build. Sourced, not run. Everything here can be repeated without harm.

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root_dir/.venv"
build="$root_dir/build"

header_packages=(libzstd-dev zlib1g-dev libxxhash-dev nlohmann-json3-dev libcli11-dev libfmt-dev libeigen3-dev)
build_packages=(g++ cmake ninja-build "${header_packages[@]}" python3 python3-venv python3-dev)
python_build_packages=('nanobind>=3.1,<4' 'scikit-build-core>=1.1,<2')

step() { printf '\n== %s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Prints those of the given Debian packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      printf '%s\n' "$package"
  done
}

# Installs the Debian packages that are missing, as root or with sudo; otherwise
# prints the line to type and stops.
need_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this script knows Debian and Ubuntu only; install the equivalents of: $*"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -eq 0 ] && return 0
  step "Installing ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || [ -t 0 ] && command -v sudo >/dev/null ||
      fail "missing packages; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
}

# The same for packages of another architecture, which dpkg must know.
need_foreign_packages() {
  local architecture=$1 packages=() package
  shift
  for package in "$@"; do packages+=("$package:$architecture"); done
  if ! dpkg --print-foreign-architectures | grep -qx "$architecture"; then
    [ "$(id -u)" -eq 0 ] || fail "as root: dpkg --add-architecture $architecture"
    dpkg --add-architecture "$architecture"
  fi
  need_packages "${packages[@]}"
}

# Unpacks Debian packages in a folder, without installing them or what they need.
unpack_packages() {
  local root=$1 folder package targets library
  shift
  folder=$(mktemp -d)
  # apt may know no versions yet, or old ones.
  (cd "$folder" && { apt-get download -qq "$@" 2>/dev/null || { apt-get update -qq && apt-get download -qq "$@"; }; }) ||
    fail "apt-get download failed; is there a network?"
  for package in "$folder"/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$folder"
  # fmt is used as headers, but its CMake files want to see the library, which another package has.
  targets=$(find "$root" -name 'fmt-targets-none.cmake')
  sed -n 's/.*IMPORTED_LOCATION_NONE.*\(libfmt[^"]*\)".*/\1/p' "$targets" |
    while read -r library; do touch "$(dirname "$targets")/../../$library"; done
}

# Stops unless the disk of the repository has that many gigabytes left.
need_disk_gb() {
  local free_gb
  free_gb=$(df -Pk "$root_dir" | awk 'NR == 2 {print int($4 / 1048576)}')
  [ "$free_gb" -ge "$1" ] || fail "$1 GB of disk space are needed, $free_gb GB are free"
}

make_venv() {
  if [ ! -x "$venv/bin/pip" ]; then
    step "Making the virtual environment .venv"
    python3 -m venv "$venv"
  fi
  "$venv/bin/pip" install -q "${python_build_packages[@]}"
}

# Sets nvcc to the CUDA compiler of the machine, or else to one of Python packages in build/cuda: of
# CUDA 13.0, since newer ones make code for newer drivers. Nothing is linked with it, and no device
# is needed.
find_nvcc() {
  nvcc=$(command -v nvcc || true)
  if [ -z "$nvcc" ] && [ -x /usr/local/cuda/bin/nvcc ]; then nvcc=/usr/local/cuda/bin/nvcc; fi
  [ -z "$nvcc" ] || return 0
  nvcc="$build/cuda/nvidia/cu13/bin/nvcc"
  [ -x "$nvcc" ] && return 0
  step "Getting the CUDA compiler"
  "$venv/bin/pip" install -q --no-deps --target "$build/cuda" 'nvidia-cuda-nvcc==13.0.*' \
    'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*'
}

# Builds the C++ libraries and programs in build/ and installs the Python package
# into .venv, from that one build. Arguments: further CMake options.
build_and_install() {
  step "Building (build/) and installing into .venv"
  build_settings=(--config-settings=build-dir="$build")
  local option
  for option in CFCK_BUILD_TOOLS=ON "$@"; do
    build_settings+=(--config-settings=cmake.define."$option")
  done
  "$venv/bin/pip" install -q --no-build-isolation "${build_settings[@]}" "$root_dir"
}
