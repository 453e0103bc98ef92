"""Names that options take are those of the library."""

import typing

import cfck
import cfck.torch
import numpy as np
import pytest
import torch
from cfck._options.kinds import TensorOptions
from conftest import weights


def test_types_name_the_codecs_of_the_library():
    names = list(typing.get_args(typing.get_type_hints(TensorOptions)["codec"]))
    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    with pytest.raises(ValueError, match=f'unknown codec "zip"; it may be {listed}'):
        cfck.compress(weights(8, 8), codec="zip")


@pytest.mark.parametrize(
    "name", ["codec", "steps", "quality", "entropy", "level", "nmse", "psnr", "size"]
)
def test_half_a_surrogate_pair_is_no_word(name):
    with pytest.raises(ValueError, match=r"'high\\ud800' is not valid Unicode"):
        cfck.torch.save({"w": weights(8, 8)}, **{name: "high\ud800"})


@pytest.mark.parametrize(
    "options", [{"max_decoded_bytes": "1\ud800"}, {"limits": {"max_decoded_bytes\ud800": 1}}]
)
def test_half_a_surrogate_pair_is_no_limit(options):
    data = cfck.torch.save({"w": weights(8, 8)})
    with pytest.raises(ValueError, match="is not valid Unicode"):
        cfck.torch.load(data, **options)


def test_the_largest_number_of_threads_is_named():
    with pytest.raises(ValueError, match="threads is a number from 0 .all. to 65535, not 65536"):
        cfck.torch.save({"w": weights(8, 8)}, threads=65536)


def test_integers_may_be_those_of_numpy_and_torch():
    data = cfck.torch.save(
        {"w": weights(100, 100)}, threads=np.int64(3), chunk_elems=torch.tensor(4096)
    )
    plain = cfck.torch.save({"w": weights(100, 100)}, threads=3, chunk_elems=4096)
    assert data == plain
    limits = {"max_records": np.uint8(1)}
    found = cfck.torch.load(
        data, threads=np.int32(2), max_decoded_bytes=np.int64(40_000), limits=limits
    )
    assert torch.equal(found["w"], weights(100, 100))
    for threads in (True, np.float32(2), torch.tensor(2.0), torch.tensor([1, 2])):
        with pytest.raises(ValueError, match="threads is a number from 0"):
            cfck.torch.load(data, threads=threads)
