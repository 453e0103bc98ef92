"""The program ``cfck``, which the package installs beside the interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _native
from ..errors import CfckError, MissingFileError, UnsupportedError, from_native


def _candidates() -> list[str]:
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    # Where `pip install --user` puts programs.
    folders.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    found = [shutil.which("cfck", path=folder) for folder in folders]
    found.append(shutil.which("cfck"))
    return [path for path in dict.fromkeys(found) if path is not None]


def find_program() -> str:
    """The path of the program of this version of cfck.

    Raises:
        UnsupportedError: it is not installed, or only that of another version.
    """
    others = []
    for path in _candidates():
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if said.stdout.strip() == f"cfck {_native.library_version()}":
            return path
        others.append(path)
    where = f"; {', '.join(others)} is another version" if others else ""
    raise UnsupportedError(
        f"the program cfck {_native.library_version()} is not installed beside "
        f"{sys.executable}{where}; pip install cfck puts it there"
    )


def run_program(
    command: str, options: Mapping[str, str | bytes], operands: Sequence[str | bytes]
) -> dict[str, Any]:
    """Runs a command with ``--json`` and returns what it prints.

    Args:
        command: "report", "bands", ...
        options: values by name; "true" for one that has none.
        operands: files and names, which may begin with a dash.

    Raises:
        CfckError: that of the command. What it found wrong with single tensors is in the result.
    """
    call: list[str | bytes] = [find_program(), command, "--json", "--quiet"]
    # In one word each, so that a value may begin with a dash.
    call += [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in options.items()]
    done = subprocess.run([*call, "--", *operands], capture_output=True, check=False)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        text = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise CfckError(text.partition("error: ")[2] or text) from None
    if "error" in result:
        raise reported_error(result["error"])
    return result


def reported_error(problem: Mapping[str, Any]) -> CfckError:
    """The exception for an error in the output of a command."""
    code, message, record = problem["code"], problem["message"], problem.get("record")
    if code == "not_found" and record is None:
        return MissingFileError(message)
    return from_native(code, message, record or "", problem.get("byte_offset"))
