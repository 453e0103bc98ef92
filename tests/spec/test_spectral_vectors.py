"""The vectors with spectral records use every part of the codec, and keep what was asked."""

import collections

import numpy as np
import pytest
import reference_container
import reference_decoder
import reference_spectral
import spectral_vectors
from test_direct_files import doubles
from test_direct_vectors import VECTORS, payloads

FILES = ("spectral.cfck", "spectral_chunks.cfck", "spectral_blocks.cfck")


def chunks(monkeypatch):
    """Every chunk of modes 4 and 5, decoded; and how many have other modes."""
    decoded, modes = [], collections.Counter()

    class Recording(reference_spectral.SpectralChunk):
        def values(self, levels, name):
            decoded.append((name, self))
            return super().values(levels, name)

    monkeypatch.setattr(reference_spectral, "SpectralChunk", Recording)
    for name in FILES:
        file = reference_container.File((VECTORS / name).read_bytes(), reference_container.Limits())
        for record in file.records:
            if record.codec != reference_container.SPECTRAL:
                modes["lossless record"] += 1
                continue
            for case, outcome in payloads(file, record):
                modes[outcome.payload[0]] += 1
                reference_spectral.decode_spectral(
                    record.dtype, case.shape, case.first, case.n, outcome.preamble or None,
                    outcome.payload, case.stage,
                )  # fmt: skip
    return decoded, modes


def test_they_use_every_part_of_the_codec(monkeypatch):
    decoded, modes = chunks(monkeypatch)
    seen = collections.Counter()
    for dtype, chunk in decoded:
        parameters = chunk.parameters
        how = parameters.n_states, parameters.order, parameters.is_transformed
        stage = "rans" if chunk.coded_bytes else "zstd"
        seen.update([dtype, stage, *zip(("states", "order", "transforms"), how)])
        seen[stage, parameters.n_states] += 1
        for name, field in (("scales", parameters.scales), ("steps", parameters.steps)):
            parts = [] if field is None else field.vectors
            seen.update((name, part) for part, vector in enumerate(parts) if vector is not None)
        for number in ("n_exact", "n_escapes", "n_bin_escapes", "parity_bytes", "raw_bytes"):
            seen[number] += getattr(chunk, number) > 0
        seen["part"] += chunk.n_values < np.prod(parameters.geometry.shape)
    parts = ["F64", "F32", "BF16", "F16", "part", "n_exact", "n_escapes", "n_bin_escapes"]
    parts += ["parity_bytes", "raw_bytes", ("transforms", True), ("transforms", False)]
    parts += [(stage, states) for stage in ("zstd", "rans") for states in (1, 4, 8, 64)]
    parts += [("order", order) for order in range(4)]
    parts += [(field, part) for field in ("scales", "steps") for part in range(3)]
    assert all(seen[part] for part in parts), seen
    assert modes[4] and modes[5], modes


def test_what_was_asked_is_kept():
    vector = spectral_vectors.written()
    read = reference_decoder.read(VECTORS / vector.file)
    for name, expected in vector.tensors.items():
        decoded = read.tensors[name].array().reshape(-1)
        x, y = doubles(np.frombuffer(expected.content, decoded.dtype)), doubles(decoded)
        error, asked = ((x - y) ** 2).mean(), expected.asked
        assert "max_abs_error" not in asked or abs(x - y).max() <= asked["max_abs_error"], name
        assert error <= asked.get("nmse", np.inf) * (x**2).mean(), name
        assert error == 0 or 10 * np.log10(np.ptp(x) ** 2 / error) >= asked.get("psnr", 0), name


@pytest.mark.parametrize("file", FILES)
def test_errors_in_the_index(file):
    """Those of the values that come out are at most the greatest error away."""
    for tensor in reference_decoder.read(VECTORS / file).records:
        error = tensor.record.error
        if error is None:
            continue
        quality = error.quality
        assert 0 <= error.rmse <= error.max_abs_error
        values = doubles(tensor.array().reshape(-1))
        finite = values[np.isfinite(values)]
        slack = error.max_abs_error * (1 + 1e-12)
        assert quality.minimum - slack <= finite.min() <= quality.minimum + slack
        assert quality.maximum - slack <= finite.max() <= quality.maximum + slack
