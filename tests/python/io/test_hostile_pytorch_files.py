"""Small pickles that were made to cost as much as possible: what they can ask for is bounded."""

import struct
import subprocess
import zipfile

import cfck
import pytest
from cfck.torch import load_checkpoint, load_file

STORAGE = (
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x0ctQ"
)
TENSOR = (b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\x00K\x0c\x85K\x01\x85\x89N"
          b"tR")  # fmt: skip


def text(characters):
    encoded = characters.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def put(number):
    return b"r" + struct.pack("<I", number)


def get(number):
    return b"j" + struct.pack("<I", number)


def write(path, pickled):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("run/data.pkl", b"\x80\x02" + pickled + b".")
        file.writestr("run/data/0", bytes(48))
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.pt"


def test_numbers_of_the_memo(path):
    """Multiples of a size that a hash table has, up to 2^32."""
    step = 107897
    n = 2**32 // step
    items = b"".join(b"J" + struct.pack("<i", i) + put(i * step) for i in range(n))
    recalled = b"".join(get(i * step) for i in range(0, n, 1000))
    write(path, b"](" + items + b"e](" + recalled + b"e\x86")
    items, recalled = load_checkpoint(path)
    assert items == list(range(n)) and recalled == list(range(0, n, 1000))


def test_paths_of_many_tensors(path):
    """A pickle of many tensors within as many dicts as may be nested, with long keys."""
    depth, n = 900, 3000
    opened = b"".join(b"}" + text(f"{i}" * 100) for i in range(depth))
    tensors = b"}(" + b"".join(text(str(i)) + get(1) for i in range(n)) + b"u"
    write(path, TENSOR + put(1) + b"0" + opened + tensors + b"s" * depth)
    names = list(load_file(path))
    assert len(names) == n
    assert all(len(name) == 1003 for name in names)
    assert names[0].startswith("0" * 100 + "." + "1" * 100 + ".") and names[7].endswith(".7")


@pytest.mark.parametrize("leaf, words", [(TENSOR, "so many places"), (b"N", None)])
def test_containers_in_many_places(path, leaf, words):
    """A list of two lists, of two each, and so on: 2^60 paths. Only tensors need names."""
    doubled = b"".join(get(i) + get(i) + b"\x86" + put(i + 1) + b"0" for i in range(60))
    write(path, leaf + put(0) + b"0" + doubled + get(60))
    if words is None:
        assert load_file(path) == {}
        return
    with pytest.raises(cfck.errors.LimitExceededError, match=words):
        load_file(path)


def test_long_names_of_storages(path):
    key = text("0" * 300_000)
    storage = STORAGE.replace(text("0"), get(1))
    again = b"".join(storage + b"0" for _ in range(2000))
    write(path, key + put(1) + b"0" + again + b"N")
    with pytest.raises(cfck.errors.LimitExceededError, match="repeats"):
        load_file(path)


def test_long_shapes(path):
    shape = b"(" + b"K\x01" * 64 + b"t"
    tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n(" + get(1) + b"K\x00" + get(2) + get(2)
              + b"\x89NtR")  # fmt: skip
    start = STORAGE + put(1) + b"0" + shape + put(2) + b"0"
    write(path, start + tensor + put(3) + b"0](" + get(3) + b"e")
    assert load_file(path)["0"].dim() == 64


def test_numbers_of_many_digits(path):
    write(path, b"L" + b"9" * 4000 + b"L\n")
    assert load_checkpoint(path) == int("9" * 4000)
    write(path, b"L" + b"9" * 5000 + b"L\n")
    with pytest.raises(cfck.errors.CorruptError, match="4300 digits"):
        load_checkpoint(path)


@pytest.mark.parametrize("n", [100, 100_000])
def test_nested_lists(path, n):
    write(path, b"]" * n + b"a" * (n - 1))
    if n == 100:
        assert load_checkpoint(path)
        return
    with pytest.raises(cfck.errors.UnsupportedError, match="1000 containers"):
        load_checkpoint(path)


def test_keys_of_objects_that_are_not_known(path):
    """A key of very many nested tuples: it is never followed to its end."""
    key = b")" + b"\x85" * 500_000
    for pickled in (b"cm\nC\n)R" + key + b"Ns", b"cm\nC\n)R(" + key + b"Nu"):
        write(path, pickled)
        done = subprocess.run(
            ["cfck", "convert", "--only-tensors", path], capture_output=True, text=True
        )
        assert done.returncode == 6, done.stderr
        assert "16 nested tuples" in done.stderr


@pytest.mark.parametrize("only_tensors", [False, True])
def test_names_of_classes_that_are_no_text(path, only_tensors):
    write(path, b"}cmo\xffule\nC\n" + TENSOR + b"s")
    with pytest.raises(cfck.errors.CorruptError, match="text that is no name of a class"):
        load_file(path, only_tensors=only_tensors)
