"""The bytes object that save() writes into grows where the guess of its size was poor."""

import subprocess
import sys
import textwrap

import pytest
from cfck import _native
from cfck._frameworks.torch_tensors import TorchFramework
from cfck._options.kinds import SaveBytesOptions
from cfck._options.native import native_options
from cfck._options.signatures import complete
from cfck.torch import load, save
from conftest import assert_same, weights


def written(tensors, total_bytes):
    units = TorchFramework().prepare(tensors).units
    options = native_options(complete(SaveBytesOptions, {"codec": "raw", "threads": 2}))
    data, _ = _native.write_bytes(
        units, {}, options=options, progress=None, total_bytes=total_bytes
    )
    return data


# None of the space at first, a little of it, too much, more than any machine has.
@pytest.mark.parametrize("total_bytes", [0, 3_000_000, 100_000_000, 2**62])
def test_the_bytes_do_not_depend_on_the_guess(total_bytes):
    # 11 MB, in small and in large pieces.
    tensors = {f"w{i}": weights(10 + 4000 * i, 10, seed=i) for i in range(12)}
    data = written(tensors, total_bytes)
    assert data == save(tensors, codec="raw")
    assert sys.getsizeof(data) < len(data) + 100  # what was not needed is given back
    for name, tensor in load(data).items():
        assert_same(tensor, tensors[name])


def test_no_memory_to_grow_is_an_error():
    program = textwrap.dedent(
        """
        import resource
        import cfck
        import numpy as np
        from cfck import _native
        from cfck._frameworks.numpy_arrays import NumpyFramework
        from cfck._options.kinds import SaveBytesOptions
        from cfck._options.native import native_options
        from cfck._options.signatures import complete

        array = np.random.Generator(np.random.PCG64(1)).integers(0, 256, 120_000_000, np.uint8)
        units = NumpyFramework().prepare({"a": array}).units

        options = native_options(complete(SaveBytesOptions, {"codec": "raw", "threads": 1}))

        def write():
            return _native.write_bytes(units, {}, options=options, progress=None, total_bytes=0)[0]

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        unlimited = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + 90_000_000, unlimited[1]))
        try:
            write()
        except MemoryError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_AS, unlimited)
        assert np.array_equal(cfck.numpy.load(write())["a"], array)
        """
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert "no memory for the compressed bytes" in result.stdout
