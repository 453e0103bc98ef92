#!/usr/bin/env python3
"""Rate-distortion curves of codec spectral and its peers: CSV, SVG, tables in bench/results/.

    CFCK_DATA=/path/to/data python bench/rate_distortion.py --nncodec PYTHON -o bench/results

PYTHON is one that has nncodec. bench/README.md says what to install, and what the rows are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import curve_product
import curve_program
import curve_report
import curve_rows
import curve_subjects
import data
import report
from curve_peers import MissingPeer, NnCodec
from curve_product import FLAT, Options, Preset
from curve_rows import IMAGES, SENTENCES, CurveRun
from curve_subjects import MINILM, Subject
from curves import n_weights

ROWS = ("resnet20", "resnet56", "minilm-subset", "minilm")
QUICK_IMAGES, QUICK_SENTENCES = 2000, 100
DIVERGENCES = (0.02, 0.05)
REFINING_IMAGES = 600  # of those that calibrate


def without_data(subject: Subject) -> Options:
    """A calibration from inputs that are made up."""
    import cfck

    assert subject.load is not None
    return {"calibration": cfck.calibrate(subject.load(), input_shape=subject.input_shape)}


def with_data(subject: Subject) -> Options:
    """A calibration from images or texts other than those that effects are measured with."""
    import cfck

    assert subject.load is not None
    if subject.calibration is None:
        subject.calibration = cfck.calibrate(subject.load(), subject.batches(), loss=subject.loss)
    return {"calibration": subject.calibration}


def with_feedback(subject: Subject) -> Options:
    """The same, and errors are fed forward."""
    return with_data(subject) | {"steps": "feedback"}


def refined(subject: Subject, options: Options) -> Options:
    """A calibration with values that make up for errors in the layers before."""
    import cfck

    assert subject.load is not None and subject.batches is not None
    model, batches = subject.load(), subject.batches()
    given = {name: value for name, value in options.items() if name != "calibration"}
    n_examples = None if subject.name == MINILM else REFINING_IMAGES
    calibration = cfck.refine(
        model, batches, options["calibration"], n_examples=n_examples, threads=1, **given
    )
    return {"calibration": calibration}


# How tensors are saved for what models do with them.
PRESETS = [
    FLAT,
    Preset("cfck spectral, prior", {"steps": "prior"}, only_kernels=True),
    Preset(
        "cfck spectral, prior, 64 states",
        {"steps": "prior", "trellis_states": 64},
        only_kernels=True,
    ),
    Preset("cfck spectral, calibrated without data", prepare=without_data),
    Preset("cfck spectral, calibrated with data", prepare=with_data, uses_data=True),
    Preset("cfck spectral, feedback", prepare=with_feedback, uses_data=True),
    Preset(
        "cfck spectral, refined",
        prepare=with_feedback,
        uses_data=True,
        complete=refined,
        in_bits=True,
    ),
]


def resnet(run: CurveRun, depth: int, n_images: int) -> Subject:
    """Errors, and effects on test images."""
    subject = curve_subjects.resnet(depth, n_images)
    curve_rows.measure_errors(run, subject)
    curve_rows.measure_effects(run, subject, IMAGES)
    curve_rows.judge_errors(run, subject.name, 0.28, 0.38)
    curve_rows.judge_bound(run, subject.name)
    for divergence in DIVERGENCES:
        curve_rows.judge_divergence(run, subject.name, divergence)
    for divergence in DIVERGENCES:
        curve_rows.judge_divergence(run, subject.name, divergence, uses_data=True)
    if depth == 56:
        curve_rows.judge_top1(run, subject)
    return subject


def minilm_subset(run: CurveRun) -> Subject:
    """Errors."""
    subject = curve_subjects.minilm_subset()
    curve_rows.measure_errors(run, subject)
    curve_rows.judge_errors(run, subject.name, 0.06, 0.11)
    curve_rows.judge_bound(run, subject.name)
    return subject


def minilm(run: CurveRun, n_sentences: int) -> Subject:
    """Effects on embeddings."""
    subject = curve_subjects.minilm(n_sentences)
    curve_rows.measure_effects(run, subject, SENTENCES)
    curve_rows.judge_cosine(run, subject)
    curve_rows.judge_cosine(run, subject, uses_data=True)
    return subject


def measure(
    run: CurveRun, chosen: list[str], images: int, sentences: int, n_jobs: int
) -> list[Subject]:
    """All subjects, some at a time."""
    jobs: dict[str, Callable[[], Subject]] = {
        "resnet56": lambda: resnet(run, 56, images),
        "minilm": lambda: minilm(run, sentences),
        "resnet20": lambda: resnet(run, 20, images),
        "minilm-subset": lambda: minilm_subset(run),
    }

    def attempt(name: str) -> Subject | None:
        try:
            return jobs[name]()
        except (data.MissingData, ImportError) as error:
            run.miss(name, str(error))
            run.targets.skip("all", name, str(error))
            return None

    with ThreadPoolExecutor(n_jobs) as pool:
        found = list(pool.map(attempt, [name for name in jobs if name in chosen]))
    return [subject for subject in found if subject is not None]


def measure_program(run: CurveRun, program: Path, subjects: list[Subject]) -> None:
    """What spectral_bench measures, when nothing else runs."""
    with tempfile.TemporaryDirectory() as folder:
        largest = max(subjects, key=lambda subject: n_weights(subject.tensors))
        curve_program.measure_speed(run, program, largest, Path(folder))
        for subject in subjects:
            if subject.name != MINILM:
                run.lambdas += curve_program.lambda_rows(program, subject, Path(folder))


def main(arguments: list[str]) -> int:
    """Runs everything and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--nncodec", default=sys.executable, help="a Python that has nncodec")
    parser.add_argument("--rows", help=f"some of {', '.join(ROWS)}; all, quick without the last")
    parser.add_argument("--quick", action="store_true", help="few images, MiniLM as subset only")
    parser.add_argument("--images", type=int, default=0, help="test images; 10,000, or 2,000 quick")
    parser.add_argument("--sentences", type=int, default=0, help="200, or 100 quick")
    parser.add_argument("--build", type=Path, help="of the C++ programs: speeds, lambda")
    parser.add_argument("--points", type=Path, help="of an earlier run; not measured again")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time, a thread each")
    options = parser.parse_args(arguments)
    chosen = options.rows.split(",") if options.rows else list(ROWS[:-1] if options.quick else ROWS)
    if unknown := set(chosen) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    images = options.images or (QUICK_IMAGES if options.quick else 10000)
    sentences = options.sentences or (QUICK_SENTENCES if options.quick else 200)
    torch.set_num_threads(1)
    program = options.build / "bench" / curve_program.PROGRAM if options.build else None
    if program is not None and not program.is_file():
        parser.error(f"no {curve_program.PROGRAM} in {options.build}")
    start = time.monotonic()
    run = CurveRun(None, PRESETS, curve_report.read_points(options.points))
    facts = {**report.machine(), "cfck": curve_product.version()}
    facts["test images"], facts["sentences"] = str(images), str(sentences)
    try:
        run.peer = NnCodec(options.nncodec)
        facts["NNCodec"] = run.peer.version
    except MissingPeer as error:
        run.miss("NNCodec", str(error))
    subjects = measure(run, chosen, images, sentences, options.jobs)
    if program is not None:
        measure_program(run, program, subjects)
    facts["seconds"] = f"{time.monotonic() - start:.0f}"
    for path in curve_report.write(run, subjects, facts, options.output):
        print(path)
    return 1 if run.targets.failed() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
