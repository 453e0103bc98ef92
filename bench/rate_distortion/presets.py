"""How tensors are saved for what models do with them: with which calibration, if any."""

from __future__ import annotations

from rate_distortion.product import FLAT, Options, Preset
from rate_distortion.subjects import MINILM, Subject

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
    """Calibrated steps, and errors are compensated."""
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
