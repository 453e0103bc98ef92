"""Skeletons that no writer made, each with an error of its own. Also the page that defines them."""

import json
import pathlib
import re

import cfck
import numpy as np
import pytest
import torch
from cfck._frameworks.torch_tensors import TorchFramework
from cfck._io.archive import Archive
from cfck._io.save import write_prepared
from cfck.torch import load_checkpoint, load_file, save_checkpoint
from conftest import assert_same, weights

# Many of these trees have no tensor.
pytestmark = pytest.mark.filterwarnings("ignore::cfck.EmptyFileWarning")

PAGE = pathlib.Path(__file__).parents[3] / "spec" / "checkpoint.md"


def write(path, skeleton, tensors=None):
    write_prepared(
        TorchFramework().prepare(tensors or {}),
        path,
        None,
        {"cfck.checkpoint": skeleton if isinstance(skeleton, bytes) else skeleton.encode()},
        {"threads": 1, "fsync": False},
    )


def load(path, root, *containers, tensors=None):
    """Loads a skeleton of JSON texts."""
    skeleton = '{"format":"cfck.checkpoint","version":1,"containers":[%s],"root":%s}'
    write(path, skeleton % (",".join(containers), root), tensors)
    return load_checkpoint(path)


def at(place):
    return f'{{"at":{place}}}'


def listing(*items):
    return f'{{"list":[{",".join(items)}]}}'


def skeleton_of(path):
    archive = Archive.open(path, {"threads": 1})
    return archive.attachment("cfck.checkpoint", 1 << 20).decode()


def test_skeletons_that_another_program_could_write(path):
    assert load(path, "null") is None
    assert load(path, ' { "at" : 1 } ', '{"list":[]}', '{"dict":[["\\u00e9",{"at":0}]]}') == {
        "é": []
    }
    assert load(path, '{"float":1}') == 1.0
    assert load(path, '{"int":"0x5"}') == 5
    assert load(path, '{"float":"0000000000000000"}') == 0.0


@pytest.mark.parametrize(
    ("skeleton", "message"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "not an object"),
        (b"3", "not an object"),
        (b"{}", "format"),
        (b"[" * 100000, "nested too deep|not valid JSON"),
        (b'{"a":' * 100000, "nested too deep|not valid JSON"),
        (b'{"format":"other","version":1,"containers":[],"root":null}', "format"),
        (b'{"format":"cfck.checkpoint","version":0,"containers":[],"root":null}', "version is 0"),
        (b'{"format":"cfck.checkpoint","version":"1","containers":[],"root":null}', "version"),
        (b'{"format":"cfck.checkpoint","version":true,"containers":[],"root":null}', "version"),
        (b'{"format":"cfck.checkpoint","version":1,"containers":[]}', "members"),
        (b'{"format":"cfck.checkpoint","version":1,"root":1,"root":2,"containers":[]}', "members"),
        (b'{"format":"cfck.checkpoint","version":1,"root":1,"x":2,"containers":[]}', "members"),
        (b'{"format":"cfck.checkpoint","version":1,"root":1,"containers":{}}', "not a list"),
        (b'{"format":"cfck.checkpoint","version":1,"root":1,"containers":[]} x', "not valid JSON"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_skeleton(skeleton, message, path):
    write(path, skeleton)
    with pytest.raises(cfck.CorruptError, match=message):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("1.5", "is not a value"),
        ("[]", "is not a value"),
        ("{}", "instead of one"),
        ('{"float":1,"int":"0x1"}', "instead of one"),
        ('{"float":1,"float":1}', "instead of one"),
        ("NaN", "not JSON"),
        ('{"float":Infinity}', "not JSON"),
        ('{"float":1e400}', "out of range"),
        ('{"float":-1e400}', "out of range"),
        ('{"float":"7ff8"}', "neither a number"),
        ('{"float":"nan"}', "neither a number"),
        ('{"float":null}', "neither a number"),
        ('{"float":true}', "neither a number"),
        ("9007199254740992", "out of range"),
        ("-9007199254740992", "out of range"),
        ("1" * 5000, "out of range"),
        ('{"int":5}', "not a string"),
        ('{"int":"5"}', "hexadecimal"),
        ('{"int":"0x"}', "hexadecimal"),
        ('{"int":"0X5"}', "hexadecimal"),
        ('{"int":"0x5_5"}', "hexadecimal"),
        ('{"int":" 0x5"}', "hexadecimal"),
        ('{"complex":[1]}', "list of 2"),
        ('{"complex":[1,"x"]}', "neither a number"),
        ('{"bytes":"a"}', "base64"),
        ('{"bytes":"YQ=!"}', "base64"),
        ('{"bytes":"\\u00e9"}', "base64"),
        ('{"bytes":7}', "not a string"),
        ('"\\ud800"', "not valid Unicode"),
        ('{"numpy.scalar":["float32"]}', "list of 2"),
        ('{"numpy.scalar":["float32","00"]}', "is no float32"),
        ('{"numpy.scalar":["float32","0000000g"]}', "is no float32"),
        ('{"numpy.scalar":["bool","02"]}', "is not a bool"),
        ('{"torch.Size":3}', "not a list"),
        ('{"torch.Size":[{"float":1}]}', "not an integer"),
        ('{"torch.Size":[{"int":"0x8000000000000000"}]}', "out of range"),
        ('{"torch.dtype":["float32"]}', "not a string"),
        ('{"torch.device":"nonsense:x"}', "not a device"),
        ('{"torch.device":"cuda:99999999999999999999"}', "not a device"),
        ('{"torch.device":""}', "not a device"),
        ('{"torch.device":"cuda:256"}', "out of range"),
        ('{"tensor":"\\u001b[2J"}', r"no record `\\x1b\[2J`"),
        ('{"tensor":"absent"}', "no record `absent`"),
        ('{"array":"absent"}', "no record `absent`"),
        ('{"tensor":["w"]}', "not a string"),
        ('{"parameter":"w"}', "list of 2"),
        ('{"parameter":["w",1]}', "not a bool"),
        ('{"at":0}', "does not refer to an earlier container"),
        ('{"at":-1}', "does not refer to an earlier container"),
        ('{"at":true}', "does not refer to an earlier container"),
        ('{"at":"0"}', "does not refer to an earlier container"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_values_that_are_none(root, message, path):
    with pytest.raises(cfck.CorruptError, match=message):
        load(path, root)


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ("[]", "is not a container"),
        ("3", "is not a container"),
        ("{}", "instead of one"),
        ('{"list":{}}', "not a list"),
        ('{"list":[{"at":0}]}', "does not refer to an earlier container"),
        ('{"dict":[["a"]]}', "list of 2"),
        ('{"dict":{"a":1}}', "not a list"),
        ('{"dict":[["a",1],["a",2]]}', "key 'a' twice"),
        ('{"dict":[[1,1],[true,2]]}', "key True twice"),
        ('{"OrderedDict":[[1,1],[{"float":1.0},2]]}', "key 1.0 twice"),
        ('{"Counter":[[null,1],[null,2]]}', "key None twice"),
        ('{"dict":[[{"bytearray":"YQ=="},1]]}', "key has the type bytearray"),
        ('{"dict":[[{"torch.Size":[1]},1],[{"tuple":[1]},2]]}', r"key \(1,\) twice"),
        ('{"attributes":[[["a",1]],3]}', "no tensor has attributes"),
        ('{"attributes":[[[1,1]],{"torch.meta":["int8",[],[],"tensor",false]}]}', "no string"),
        ('{"torch.sparse":[{"torch.layout":"sparse_coo"},1]}', "parts of one"),
        ('{"dict":[[{"at":0},1]]}', "key has the type at"),
        ('{"dict":[[[],1]]}', "is not a value"),
        ('{"set":[1,1]}', "set contains 1 twice"),
        ('{"frozenset":[{"tuple":[1]},{"tuple":[1]}]}', r"set contains \(1,\) twice"),
        ('{"set":[{"tuple":1}]}', "not a list"),
        ('{"set":[' + '{"tuple":[' * 17 + "1" + "]}" * 17 + "]}", "nested tuples"),
        ('{"state_dict":[[]]}', "list of 2"),
        ('{"state_dict":[{},null]}', "not a list"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_containers_that_are_none(container, message, path):
    with pytest.raises(cfck.CorruptError, match=message):
        load(path, '{"at":0}', container)


@pytest.mark.parametrize(
    ("root", "containers"),
    [
        ('{"numpy.float128":"00"}', []),
        ('{"dict":[]}', []),
        ('{"numpy.scalar":["float128","00"]}', []),
        ('{"torch.dtype":"float3"}', []),
        ('{"torch.dtype":"load"}', []),
        ('{"at":0}', ['{"deque":[]}']),
    ],
)
def test_types_of_newer_versions(root, containers, path):
    with pytest.raises(cfck.UnsupportedError, match="newer version"):
        load(path, root, *containers)


def test_a_newer_version(path):
    write(path, '{"format":"cfck.checkpoint","version":2,"tree":[]}', {"w": weights(3)})
    with pytest.raises(cfck.UnsupportedError, match="newer version.*load_file"):
        load_checkpoint(path)
    assert_same(load_file(path)["w"], weights(3))


def test_records_that_nobody_refers_to(path):
    with pytest.raises(cfck.CorruptError, match="has `w`, to which") as caught:
        load(path, "null", tensors={"w": weights(3)})
    assert caught.value.record == "w"


def test_containers_that_nobody_refers_to(path):
    with pytest.raises(cfck.CorruptError, match="nothing refers to container 1"):
        load(path, '{"at":0}', '{"list":[]}', '{"list":[]}')


@pytest.mark.parametrize(
    "items",
    [
        '{"tensor":"w"},{"array":"w"}',
        '{"tensor":"w"},{"parameter":["w",true]}',
        '{"parameter":["w",false]},{"parameter":["w",true]}',
    ],
)
def test_records_of_two_kinds(items, path):
    with pytest.raises(cfck.CorruptError, match="record `w` is a"):
        load(path, '{"at":0}', listing(items), tensors={"w": weights(3)})


def test_a_parameter_of_integers(path):
    root = '{"parameter":["w",true]}'
    with pytest.raises(cfck.CorruptError, match="cannot require grad"):
        load(path, root, tensors={"w": torch.arange(3)})


def test_depth(path):
    def chain(n):
        return ['{"list":[]}', *(listing(at(i)) for i in range(n - 1))]

    assert load(path, '{"at":999}', *chain(1000))
    for n in (1001, 100000):
        with pytest.raises(cfck.CorruptError, match="1000 containers deep"):
            load(path, at(n - 1), *chain(n))


def test_a_few_bytes_do_not_become_many(path):
    """Every container holds the one before it twice; each is made once."""
    doubling = (listing(at(i), at(i)) for i in range(500))
    tree = load(path, '{"at":500}', '{"list":[]}', *doubling)
    assert tree[0] is tree[1]


def test_size(path):
    write(path, b" " * ((64 << 20) + 1))
    with pytest.raises(cfck.LimitExceededError, match="67108865 bytes"):
        load_checkpoint(path)


def test_damaged_bytes(path):
    save_checkpoint({"a": list(range(10000))}, path)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(cfck.ChecksumError):
        load_checkpoint(path)


def test_flipped_characters_are_errors_or_other_values(path):
    save_checkpoint({"a": [1, {"b": (2.5, "x")}, b"y", {1, 2}], "n": np.int8(1)}, path)
    skeleton = skeleton_of(path).encode()
    outcomes = set()
    for place in range(0, len(skeleton)):
        for flip in (1, 8, 0x20, 0x80):
            changed = bytearray(skeleton)
            changed[place] ^= flip
            try:
                write(path, bytes(changed))
                load_checkpoint(path)
                outcomes.add(None)
            except cfck.CfckError as error:
                outcomes.add(type(error))
    assert outcomes == {None, cfck.CorruptError, cfck.UnsupportedError}


def test_the_example_of_the_page(path):
    text = re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    tree = {"model": {"w": torch.zeros(2)}, "betas": (0.9, 0.999), "best": float("inf"), "epoch": 3}
    save_checkpoint(tree, path)
    assert json.loads(skeleton_of(path)) == json.loads(text)
    write(path, text, {"model.w": torch.zeros(2)})
    loaded = load_checkpoint(path)
    assert_same(loaded["model"].pop("w"), tree["model"].pop("w"))
    assert loaded == tree


def test_the_page_has_every_tag():
    page = PAGE.read_text()
    tags = re.findall(r"^\| `\{\"([\w.]+)\":", page, re.MULTILINE)
    assert sorted(tags) == sorted([
        "int", "float", "complex", "bytes", "bytearray", "torch.Size", "torch.dtype",
        "torch.device", "torch.layout", "numpy.scalar", "tensor", "parameter", "torch.tensor",
        "torch.meta", "array", "at", "tuple", "dict", "OrderedDict", "Counter", "list", "tuple",
        "set", "frozenset", "state_dict", "attributes", "torch.sparse",
    ])  # fmt: skip
