#!/usr/bin/env bash
# The checks that need no build, in some minutes on two cores, the second time in less: layout,
# types, includes, sizes, headers that compile alone. Installs what is missing; CI runs it as well.
#
#   scripts/check.sh         says what is wrong, as path:line: what to do
#   scripts/check.sh --fix   lays out C++ and Python, then checks
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$root_dir"

# The version of CI, Debian 12; others lay out some lines differently.
clang_format_version=14
fix=false
case "${1:-}" in
  "") ;;
  --fix) fix=true ;;
  *) fail "unknown option $1; the only one is --fix" ;;
esac

need_packages "${build_packages[@]}" libgtest-dev clang-format
make_venv
"$venv/bin/pip" install -q -r scripts/checks/requirements.txt

failed=()
# check NAME COMMAND...: goes on after a check that fails, so that one run finds everything.
check() {
  local name=$1
  shift
  step "$name"
  "$@" || failed+=("$name")
}

cpp_layout() {
  local found options=(--dry-run --Werror)
  found=$(clang-format --version | grep -oE '[0-9]+' | head -n 1)
  [ "$found" = "$clang_format_version" ] ||
    echo "This is clang-format $found; CI has $clang_format_version, and some lines may differ."
  if $fix; then options=(-i); fi
  find . \( -path './.*' -o -path './build*' \) -prune -o \
    -regex '.*\.\(hpp\|cpp\|inl\|cu\|cuh\)' -print0 |
    xargs -0 -P "$(nproc)" -n 40 clang-format "${options[@]}"
}

python_layout() {
  if $fix; then "$venv/bin/ruff" format --quiet . && "$venv/bin/ruff" check --quiet --fix .; fi
  "$venv/bin/ruff" format --check . && "$venv/bin/ruff" check .
}

types() {
  if "$venv/bin/python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))'; then
    "$venv/bin/python" -m mypy
  else
    echo "SKIPPED: PyTorch is not in .venv; scripts/test.sh installs it"
  fi
}

# Scripts that no test runs must still be whole, and no file may keep the marks of a merge.
scripts_and_marks() {
  local script status=0
  for script in .ci/run scripts/*.sh; do bash -n "$script" || status=1; done
  if git grep -nE '^(<<<<<<<|>>>>>>>) ' -- .; then status=1; fi
  return "$status"
}

check "Scripts" scripts_and_marks
check "Layout of C++" cpp_layout
check "Layout and slips of Python" python_layout
check "Types of Python" types
check "Directions of includes" "$venv/bin/python" scripts/checks/includes.py
check "Circles of Python modules" "$venv/bin/python" scripts/checks/imports.py
check "Namespaces of rooms" "$venv/bin/python" scripts/checks/namespaces.py
check "Sizes of functions, files and folders" "$venv/bin/python" scripts/checks/sizes.py
check "Headers that compile alone" "$venv/bin/python" scripts/checks/headers.py

echo
if [ ${#failed[@]} -ne 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "All checks passed."
