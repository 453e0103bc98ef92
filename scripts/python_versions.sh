# shellcheck shell=bash disable=SC2154
# The package with every Python that this machine has, sourced by test.sh: for each
# minor version from 3.10 on a wheel, built from the C++ objects in build/, installed
# into an environment of its own with nothing but its dependencies, and tried there.

# find_pythons [PYTHON]: prints the interpreters of CPython 3.10 and newer, one of each minor version, that of
# PYTHON first: those of pyenv, which need not be the ones that its shims in PATH run, and those in PATH.
find_pythons() {
  # Debian keeps ensurepip, which venv needs, in a package of its own.
  local first minor describe='import ensurepip, sys
assert sys.version_info >= (3, 10) and sys.implementation.name == "cpython"
print(sys.version_info.minor)'
  first=$("${1:-python3}" -c 'import sys; print(sys.version_info.minor)')
  {
    if command -v pyenv >/dev/null; then
      local version
      pyenv versions --bare | grep -E '^3\.[0-9]+\.[0-9]+$' | sort -t. -k2,2nr -k3,3nr |
        while read -r version; do echo "$(pyenv root)/versions/$version/bin/python"; done || true
    fi
    for minor in $(seq 10 30); do command -v "python3.$minor" || true; done
    command -v python3 || true
  } | while read -r python; do
    if minor=$("$python" -c "$describe" 2>/dev/null); then echo "$minor $python"; fi
  done | sort -k1,1n -s -u | awk -v first="$first" '{ print ($1 == first ? 0 : $1), $2 }' |
    sort -k1,1n | cut -d' ' -f2-
}

# try_package PYTHON: builds the wheel with it and tests the wheel alone.
try_package() {
  local python=$1 folder
  folder="$build/python/$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  step "The package with $("$python" --version)"
  rm -rf "$folder"
  "$python" -m venv "$folder/builder"
  "$folder/builder/bin/pip" install -q "${python_build_packages[@]}"
  # With the settings of build_and_install, so that no object is built again.
  "$folder/builder/bin/pip" wheel -q --no-build-isolation --no-deps "${build_settings[@]}" \
    -w "$folder" "$root_dir"
  "$python" -m venv "$folder/user"
  "$folder/user/bin/pip" install -q "$folder"/cfck-*.whl 'pytest>=8'
  (cd "$root_dir/tests/wheel" && PATH="$folder/user/bin:$PATH" CFCK_EXPECT_DEVICE_CODE=1 \
    CFCK_FAKE_DRIVER="$build/tests/simt/libcfck_fake_driver.so" \
    "$folder/user/bin/python" -m pytest -q -p no:cacheprovider)
  rm -rf "$folder/builder" "$folder/user"
}
