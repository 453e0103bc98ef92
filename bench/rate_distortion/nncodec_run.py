#!/usr/bin/env python3
"""Runs NNCodec on tensors at several quantisation parameters; peers.py starts it.

    python bench/rate_distortion/nncodec_run.py TENSORS.npz FOLDER QP [QP ...]

It is a program of its own because NNCodec wants another numpy than the rest: any Python that has
nncodec and numpy runs it. For each QP the decoded tensors go to FOLDER/QP.npz; sizes and times to
FOLDER/report.json. One common QP for all tensors, dependent quantisation and parameter optimisation
on, nothing tuned with data.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from nncodec.nnc import compress, decompress


def code(tensors: dict[str, np.ndarray], qp: int, folder: Path) -> dict[str, float]:
    """One bitstream of all tensors: its bytes and the processor seconds of both ways."""
    start = time.process_time()
    stream = compress(
        {name: values.copy() for name, values in tensors.items()},
        bitstream_path=str(folder / "stream.nnc"),
        qp=qp,
        use_dq=True,
        param_opt=True,
        opt_qp=False,
        row_skipping=True,
        tca=False,
        return_bitstream=True,
        verbose=False,
    )
    encoded = time.process_time()
    decoded = decompress(stream)
    end = time.process_time()
    arrays = {name: np.asarray(decoded[name], np.float32) for name in tensors}
    np.savez(folder / f"{qp}.npz", **arrays)
    return {"qp": qp, "bytes": len(stream), "encode": encoded - start, "decode": end - encoded}


def main(arguments: list[str]) -> int:
    """Codes the tensors at every QP."""
    source, folder = Path(arguments[0]), Path(arguments[1])
    with np.load(source) as stored:
        tensors = {name: stored[name] for name in stored.files}
    runs = [code(tensors, int(qp), folder) for qp in arguments[2:]]
    report = {"version": version("nncodec"), "runs": runs}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
