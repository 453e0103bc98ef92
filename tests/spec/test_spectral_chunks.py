"""The reference decoder and the library agree on chunks of the spectral codec, sound and
damaged."""

import collections
import dataclasses
import random

import numpy as np
import pytest
import reference_container
import reference_spectral
import reference_transforms
import spectral_cases
from direct_cases import beyond_bound


@pytest.fixture(scope="module", params=["zstd", "rans"])
def made(request, tmp_path_factory):
    cases = spectral_cases.make_cases(request.param)
    return list(zip(cases, spectral_cases.run(cases, tmp_path_factory.mktemp("chunks"))))


@spectral_cases.needs_writer
def test_values_of_every_case(made):
    for case, outcome in made:
        assert spectral_cases.reference_values(case, outcome) == outcome.decoded, case.name


@spectral_cases.needs_writer
def test_no_value_is_beyond_the_bound(made):
    bounded = [made_case for made_case in made if "max_abs_error" in made_case[0].options]
    assert len(bounded) > 500
    for case, outcome in bounded:
        options = {"bound": case.options["max_abs_error"]}
        assert not beyond_bound(dataclasses.replace(case, options=options), outcome.decoded), (
            case.name
        )


@spectral_cases.needs_writer
def test_the_cases_use_every_part_of_the_format(made, monkeypatch):
    modes, seen, bins = collections.Counter(), collections.Counter(), set()
    chunks = []

    class Recording(reference_spectral.SpectralChunk):
        def groups(self, bin_symbols):
            groups = super().groups(bin_symbols)
            bins.update(groups.bins.tolist())
            return groups

        def values(self, levels, name):
            chunks.append(self)
            return super().values(levels, name)

    monkeypatch.setattr(reference_spectral, "SpectralChunk", Recording)
    for case, outcome in made:
        modes[outcome.payload[0]] += 1
        spectral_cases.reference_values(case, outcome)
    for chunk in chunks:
        parameters = chunk.parameters
        seen[f"{parameters.n_states} states"] += 1
        seen[f"order {parameters.order}"] += 1
        seen["transforms"] += parameters.is_transformed
        seen["step field"] += parameters.steps is not None
        seen["part of a tensor"] += chunk.n_values < np.prod(parameters.geometry.shape)
        seen["exact values"] += chunk.n_exact > 0
        seen["escapes"] += chunk.n_escapes > 0
        seen["bin escapes"] += chunk.n_bin_escapes > 0
        seen["parity bits"] += chunk.parity_bytes > 0
        seen["raw bits"] += chunk.raw_bytes > 0
    assert set(modes) >= {0, 1, 4, 5}
    assert modes[4] > 300 and modes[5] > 300
    assert len(seen) == 16 and min(seen.values()) >= 10, seen
    assert bins >= {0, 1, *range(8, 126)}, set(range(126)) - bins


@spectral_cases.needs_writer
def test_lane_sets_of_large_chunks(tmp_path):
    """With zstd the lanes depend on the number of values."""
    cases = []
    for number, n in enumerate((65535, 65536, 131071, 131072)):
        values = spectral_cases.make_values("jumps", "F32", n, number).tobytes()
        for entropy in ("zstd", "rans"):
            options = {"states": (4, 8)[number % 2], "step": 0.3}
            case = spectral_cases.Case(f"{n} {entropy}", "F32", (n,), 0, n, values)
            cases.append(dataclasses.replace(case, options=options, entropy=entropy))
    for case, outcome in zip(cases, spectral_cases.run(cases, tmp_path)):
        assert outcome.payload[0] == reference_spectral.INLINE
        assert spectral_cases.reference_values(case, outcome) == outcome.decoded, case.name


def one_changed(rng: random.Random, payload: bytes) -> bytes:
    changed = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(min(len(changed), rng.choice((12, 40, 400, 10**6))))
        near = max(0, changed[at] + rng.choice((-1, 1))) & 255
        changed[at] = rng.choice((changed[at] ^ 1 << rng.randrange(8), near, rng.randrange(256)))
    cut = rng.choice((0, 0, 0, 0, 1, 2))
    return bytes(changed[: len(changed) - cut])


def body_changed(rng: random.Random, payload: bytes) -> bytes:
    """Without a byte inside a Zstd frame: two Zstd libraries may decode what is wrong there to
    different symbols, and both accept it."""
    frame = payload.rfind(b"\x28\xb5\x2f\xfd")
    if frame < 0:
        return one_changed(rng, payload)
    return one_changed(rng, payload[:frame]) + payload[frame:]


@spectral_cases.needs_writer
def test_damage(made, tmp_path):
    rng, cases = random.Random(5), []
    for case, outcome in made[::4]:
        if outcome.payload[0] < reference_spectral.INLINE:
            continue
        for _ in range(6):
            payload, preamble = outcome.payload, outcome.preamble or None
            if preamble and rng.random() < 0.3:
                preamble = one_changed(rng, preamble)
            else:
                payload = body_changed(rng, payload)
            cases.append(
                dataclasses.replace(
                    case, values=None, payload=payload, preamble=preamble, options={}
                )
            )
    count = collections.Counter()
    for number, (case, outcome) in enumerate(zip(cases, spectral_cases.run(cases, tmp_path))):
        try:
            decoded, reason = spectral_cases.reference_values(case, outcome), ""
        except reference_container.Refused as refusal:
            decoded, reason = None, refusal.message
        what = f"damage {number}, {case.name}: {reason or 'decodes'}; library: {outcome.error}"
        assert (decoded is None) == bool(outcome.error), what
        if decoded is not None:
            assert outcome.decoded == decoded, what
        count["decoded" if decoded is not None else reason] += 1
    assert count["decoded"] > 200 and len(count) > 25, count


@spectral_cases.needs_writer
def test_every_prefix_is_refused(made, tmp_path):
    cases = [
        dataclasses.replace(case, values=None, payload=outcome.payload[:length],
                            preamble=outcome.preamble or None)
        for case, outcome in made[::53]
        for length in sorted({*range(60), *range(0, len(outcome.payload), 37)})
        if length < len(outcome.payload)
    ]  # fmt: skip
    assert len(cases) > 1000
    for case, outcome in zip(cases, spectral_cases.run(cases, tmp_path)):
        assert outcome.error in ("truncated", "corrupt"), case.name
        with pytest.raises(reference_container.Refused):
            spectral_cases.reference_values(case, outcome)


def test_bands_of_small_blocks():
    """The examples of spectral/transforms.md, section 4, and counting by hand."""
    bands = reference_spectral.bands_of_places
    assert bands((3, 3)).tolist() == [0, 1, 4, 2, 3, 5, 6, 7, 8]
    assert bands((5,)).tolist() == [0, 1, 2, 3, 4]
    assert bands(()).tolist() == [0]
    assert bands((2, 1, 3)).tolist() == [0, 1, 4, 2, 3, 5]


def test_matrices_are_orthonormal():
    for n in range(1, 65):
        matrix = reference_transforms.matrix(n, np.float64)
        assert np.abs(matrix @ matrix.T - np.eye(n)).max() < 1e-14
        places = np.pi * (2 * np.arange(n) + 1) / (2 * n)
        expected = np.cos(places * np.arange(n)[:, None]) * np.sqrt(2 / n)
        expected[0] /= np.sqrt(2)
        assert np.abs(matrix - expected).max() < 1e-14


def test_lossless_modes_need_a_sound_preamble():
    stored = b"\0" + bytes(8)
    place = 18, (2,), 0, 2
    sound = b"\0" + np.float64(1).tobytes() + b"\0"
    assert reference_spectral.decode_spectral(*place, sound, stored).tobytes() == bytes(8)
    with pytest.raises(reference_container.Refused):
        reference_spectral.decode_spectral(*place, sound + b"\0", stored)
