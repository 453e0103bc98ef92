"""What CMake prints at the end of its configuration (cmake/CfckSummary.cmake)."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).parents[2]


def configure(folder, **definitions):
    """The lines of the summary, by what they are about; everything optional is off."""
    definitions = {
        "CFCK_CUDA": "OFF", "CFCK_HDF5": "OFF", "CFCK_TORCH": "OFF", "CFCK_BUILD_TOOLS": "OFF",
        **definitions,
    }  # fmt: skip
    options = [f"-D{name}={value}" for name, value in definitions.items()]
    command = ["cmake", "-S", str(ROOT), "-B", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("-- cfck "))
    told = [line[len("--   ") :] for line in lines[first + 1 :] if line.startswith("--   ")]
    return {name: text.strip() for name, _, text in (line.partition(":") for line in told)}


def test_compilers_and_parts(tmp_path):
    told = configure(tmp_path, CMAKE_BUILD_TYPE="Debug")
    assert told["Build type"] == "Debug"
    assert told["C++ compiler"].startswith(("GNU ", "Clang "))
    assert "baseline" in told["CPU levels"]
    assert told["Builds"] == "libraries"
    assert "zstd" in told["zstd"]
    for part, option in [
        ("Python", "CFCK_BUILD_PYTHON"), ("HDF5", "CFCK_HDF5"), ("libtorch", "CFCK_TORCH"),
        ("Device code", "CFCK_CUDA"),
    ]:  # fmt: skip
        assert told[part] == f"off ({option})"


def test_what_is_missing_says_what_it_takes(tmp_path):
    told = configure(
        tmp_path, CFCK_HDF5="AUTO", CMAKE_DISABLE_FIND_PACKAGE_HDF5="ON", CFCK_BUILD_TOOLS="ON",
        CFCK_BUILD_EXAMPLES="ON",
    )  # fmt: skip
    assert told["HDF5"] == "not found: libhdf5 1.10.5 or newer (libhdf5-dev)"
    assert told["Builds"] == "libraries, tools, examples"


def test_an_old_compiler_of_cuda_is_named(tmp_path):
    for name in ("nvcc", "ptxas", "fatbinary"):
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text("#!/bin/sh\necho 'release 11.8'\n")
        tool.chmod(0o755)
    told = configure(
        tmp_path / "build", CFCK_CUDA="ON", CFCK_NVCC=tmp_path / "bin" / "nvcc",
        CFCK_PTXAS=tmp_path / "bin" / "ptxas", CFCK_FATBINARY=tmp_path / "bin" / "fatbinary",
    )  # fmt: skip
    assert told["Device code"].startswith(f"left out: {tmp_path}/bin/nvcc: CUDA 13.0 is needed")
