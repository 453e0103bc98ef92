"""A file may make a call hold all that was saved in memory, or as much as the caller allows."""

import cfck
import cfck.numpy
import cfck.torch
import numpy as np
import pytest
import torch
from conftest import weights


def _readers(path):
    """Calls that read a file with one tensor, by name."""
    model = torch.nn.Linear(30, 20, bias=False)
    data = open(path, "rb").read()
    return {
        "load_file": lambda **kw: cfck.torch.load_file(path, **kw),
        "numpy.load_file": lambda **kw: cfck.numpy.load_file(path, **kw),
        "load": lambda **kw: cfck.torch.load(data, **kw),
        "numpy.load": lambda **kw: cfck.numpy.load(data, **kw),
        "safe_open": lambda **kw: cfck.safe_open(path, "pt", **kw).get_tensor("weight"),
        "load_model": lambda **kw: cfck.torch.load_model(model, path, **kw),
    }


def test_long_metadata_is_loaded_by_default(path):
    cfck.numpy.save_file({"a": np.zeros(1)}, path, metadata={"long": "x" * 17_000_000})
    with cfck.safe_open(path, "np") as f:
        assert len(f.metadata()["long"]) == 17_000_000
        assert f.get_tensor("a") == 0
    with pytest.raises(cfck.LimitExceededError, match="raise the limit max_metadata_bytes"):
        cfck.safe_open(path, "np", limits={"max_metadata_bytes": "16MB"})


def test_every_reader_takes_limits_by_the_names_in_their_errors(path):
    cfck.torch.save_file({"weight": weights(20, 30)}, path, metadata={"key": "x" * 1000})
    for name, read in _readers(path).items():
        for limit, size in [
            ("max_index_bytes", 10),
            ("max_metadata_bytes", "1kB"),
            ("max_decoded_bytes", 2399),
        ]:
            with pytest.raises(cfck.LimitExceededError, match=f"raise the limit {limit} "):
                read(limits={limit: size})
        read(limits={"max_index_bytes": "60MB", "max_records": 1, "max_decoded_bytes": 2400})
        assert name


def test_numbers_of_records_are_limited_when_asked(path):
    cfck.torch.save_file({"a": weights(2), "b": weights(3)}, path)
    with pytest.raises(cfck.LimitExceededError, match="raise the limit max_records "):
        cfck.torch.load_file(path, limits={"max_records": 1})


@pytest.mark.parametrize("framework", [cfck.torch, cfck.numpy])
def test_checkpoints(framework, path):
    framework.save_checkpoint({"epoch": 3, "text": "x" * 1000}, path)
    with pytest.raises(cfck.LimitExceededError, match="raise the limit max_attachment_bytes "):
        framework.load_checkpoint(path, limits={"max_attachment_bytes": 1000})
    loaded = framework.load_checkpoint(path, limits={"max_attachment_bytes": "2kB"})
    assert loaded["epoch"] == 3


def test_decompress():
    data = cfck.compress(np.zeros(1000, np.float32))
    with pytest.raises(cfck.LimitExceededError, match="raise the limit max_decoded_bytes "):
        cfck.decompress(data, limits={"max_decoded_bytes": 3999})
    assert cfck.decompress(data, limits={"max_decoded_bytes": "4kB"}).shape == (1000,)


@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        ({"max_tensors": 5}, cfck.InvalidArgumentError, "limits are max_index_bytes, "),
        ({"max_records": 0}, cfck.InvalidArgumentError, "max_records is a number above 0"),
        ({"max_records": -1}, cfck.InvalidArgumentError, "max_records is a number above 0"),
        ({"max_records": 1.5}, cfck.InvalidArgumentError, "max_records is a number above 0"),
        ({"max_index_bytes": "much"}, cfck.InvalidArgumentError, "'much' is not a size"),
        (5, TypeError, "limits is a dict"),
    ],
)
def test_wrong_limits(limits, error, message, path):
    cfck.torch.save_file({"a": weights(2)}, path)
    with pytest.raises(error, match=message):
        cfck.torch.load_file(path, limits=limits)


def test_names_that_no_file_can_hold(path):
    with pytest.raises(cfck.LimitExceededError, match="65535 bytes at most"):
        cfck.numpy.save_file({"n" * 65_536: np.zeros(1)}, path)
    cfck.numpy.save_file({"n" * 65_535: np.zeros(1)}, path)
