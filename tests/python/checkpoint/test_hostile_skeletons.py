"""Skeletons that were changed at random, or made to cost much: each is an error, or a tree."""

import json
import random

import cfck
import pytest
import torch
from cfck._checkpoint.numpy_values import ArrayValues
from cfck._checkpoint.skeleton_reader import SkeletonReader
from cfck._checkpoint.skeleton_writer import SkeletonWriter
from cfck._checkpoint.torch_values import TorchValues
from conftest import weights
from torch import nn

TAGS = ["int", "float", "complex", "bytes", "bytearray", "numpy.scalar", "torch.Size",
        "torch.dtype", "torch.device", "torch.layout", "torch.meta", "torch.tensor",
        "torch.sparse", "tensor", "parameter", "array", "at", "list", "tuple", "dict",
        "OrderedDict", "Counter", "state_dict", "set", "frozenset", "attributes",
        "unheard-of"]  # fmt: skip
CONTENTS = [None, True, 0, -1, 7, 2**60, "", "w", "0x1", "float32", "cuda:0", "sparse_coo", [], {},
            [1, 2], ["w", None, "tensor", True], [[]], {"at": 0}, {"tensor": "w"}]  # fmt: skip

WHOLE = '{"format":"cfck.checkpoint","version":1,"containers":[%s],"root":{"at":0}}'
EXTRA = [
    {"dict": [[{"torch.dtype": "float32"}, {"bytearray": "YQ=="}], [{"bytes": "YQ=="}, 1]]},
    {"attributes": [[["a", 1]], {"tensor": "w"}]},
    {"torch.sparse": [{"torch.layout": "sparse_coo"}, {"tensor": "i"}, {"tensor": "v"},
                      {"torch.Size": [3, 4]}, True]},
    {"list": [{"torch.meta": ["float32", [2], [1], "tensor", False]},
              {"torch.tensor": ["c", "complex128", "parameter", True]}]},
]  # fmt: skip
TENSORS = {"w": weights(3), "i": torch.tensor([[0, 1], [2, 3]]), "v": weights(2),
           "c": weights(3, 2).double(), "p": weights(2)}  # fmt: skip


def skeleton():
    writer = SkeletonWriter([TorchValues(), ArrayValues()])
    tree = {"a": [1, 2.5, 2**70, b"x", None, 1 + 2j], (1, "k"): {"s": {1, 2}, "t": (True,)},
            "p": nn.Parameter(weights(2)), "d": torch.float16, "z": torch.Size([2])}  # fmt: skip
    document = json.loads(writer.run(tree))
    place = len(document["containers"])
    document["containers"] += EXTRA
    document["containers"].append({"list": [{"at": place + i - 1} for i in range(len(EXTRA) + 1)]})
    document["root"] = {"at": len(document["containers"]) - 1}
    return document


def places(value, found):
    """Everything in a document that can be replaced: (container, key)."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        found.append((value, key))
        places(value[key], found)
    return found


def change(document, choose):
    for _ in range(choose.randint(1, 3)):
        container, key = choose.choice(places(document, []))
        way = choose.randrange(4)
        if way == 0:
            container[key] = {choose.choice(TAGS): choose.choice(CONTENTS)}
        elif way == 1:
            container[key] = choose.choice(CONTENTS)
        elif way == 2 and isinstance(container, dict):
            container[choose.choice(TAGS)] = container.pop(key)
        else:
            del container[key]


def build(text):
    reader = SkeletonReader(text.encode(), [TorchValues(), ArrayValues()])
    arrays = {name: None for name in reader.records["numpy"]}
    return reader.build(collections_of(reader.records["torch"]) | arrays)


def collections_of(names):
    return {name: TENSORS.get(name, TENSORS["w"]).clone() for name in names}


def test_changed_skeletons():
    choose = random.Random(0)
    whole = json.dumps(skeleton())
    build(whole)
    n_refused = 0
    for _ in range(600):
        document = json.loads(whole)
        change(document, choose)
        try:
            build(json.dumps(document))
        except cfck.errors.CfckError:
            n_refused += 1
    assert 300 < n_refused < 600


@pytest.mark.parametrize("tag", TAGS)
def test_values_in_the_place_of_others(tag):
    """Every tag with every content, as a value, as a key, and inside a size."""
    for content in CONTENTS:
        value = json.dumps({tag: content})
        for container in (f'{{"list":[{value}]}}', f'{{"dict":[[{value},1]]}}', value,
                          f'{{"list":[{{"torch.Size":[{value}]}}]}}'):  # fmt: skip
            try:
                build(WHOLE % container)
            except cfck.errors.CfckError:
                pass


def test_keys_of_one_hash():
    """Tuples of -1 and -2, which have one hash: a dict compares each with all the others."""

    def keys(n):
        bits = [[-1 - (i >> place & 1) for place in range(12)] for i in range(n)]
        return ",".join(f'[{{"tuple":{json.dumps(key)}}},0]' for key in bits)

    assert len(build(WHOLE % f'{{"dict":[{keys(60)}]}}')) == 60
    with pytest.raises(cfck.errors.CorruptError, match="one hash"):
        build(WHOLE % f'{{"dict":[{keys(100)}]}}')


@pytest.mark.parametrize("strides, offset", [((2, 1), 1), ((3, 1), 0)])
def test_parts_of_complex_numbers_that_are_no_pairs(strides, offset):
    """Records that are views of another one, as files may have them."""
    view = torch.arange(8.0).double().as_strided((2, 2), strides, offset)
    tagged = WHOLE % '{"list":[{"torch.tensor":["c","complex128","tensor",false]}]}'
    reader = SkeletonReader(tagged.encode(), [TorchValues(), ArrayValues()])
    with pytest.raises(cfck.errors.CorruptError, match="`c`: Tensor must have a st"):
        reader.build({"c": view})
