"""The benchmarks of cfck: python bench COMMAND [OPTION...].

bench/README.md says what to install, where the data come from and what every row means. The exit
code is 1 where something that must be reached was not.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from common import driver

# The module of each command, which has its Benchmark, and what it measures.
COMMANDS = {
    "lossless": ("lossless.command", "sizes, speeds and memory without loss, against peers"),
    "bounds": ("bounds.command", "sizes and speeds under error bounds, against peers"),
    "effects": ("bounds.effects", "what error bounds do to models"),
    "rate_distortion": ("rate_distortion.command", "curves of codec spectral and its peers"),
    "quality": ("quality.command", "what qualities do to models, beside weight-only quantisers"),
    "picture": ("quality.picture", "the picture of README, of points that quality measured"),
    "entropy": ("entropy.command", "the entropy stages: sizes, speeds, cycles, loading"),
    "hdf5": ("hdf5_filters.command", "the HDF5 filter beside those of hdf5plugin"),
    "formats": ("formats.command", "files of other programs: speeds and memory"),
    "gpu": ("gpu.command", "decoding on a CUDA device and loads onto it, against peers"),
    "kernel_model": (
        "gpu.kernel_model",
        "how long kernels should take, by a model, against an H100 and an H200",
    ),
    "streaming": ("streaming.command", "models that run from a compressed file"),
    "pretrained": ("pretrained.command", "transformers' from_pretrained of converted folders"),
    "distributed": ("distributed.command", "what ranks send each other, and training with it"),
    "delta": ("delta.command", "weights against those of a step before, beside peers"),
    "embeddings": ("embeddings.command", "lookups of embedding tables, against peers"),
    "embedding_accuracy": ("embeddings.accuracy", "a DLRM with compressed rows of its tables"),
    "calibration": ("calibration.command", "what calibrate, refine and shrink cost and achieve"),
    "training": ("training.command", "compression learned in training: bits at equal scores"),
}


def main(arguments: list[str]) -> int:
    """Hands over to a command."""
    parser = argparse.ArgumentParser(
        prog="python bench",
        description=str(__doc__).splitlines()[0],
        epilog="\n".join(f"  {name:18} {what}" for name, (_, what) in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    command = parser.parse_args(arguments[:1]).command
    # Not imported before it is chosen: commands need different packages.
    module = importlib.import_module(COMMANDS[command][0])
    return driver.main(module.COMMAND, arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
