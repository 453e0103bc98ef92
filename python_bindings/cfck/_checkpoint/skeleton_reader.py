"""From a skeleton and its tensors back to the tree. Trusts nothing it reads."""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .._common.text import shown, with_article
from ..errors import CorruptError, UnsupportedError
from .plain import (
    KEY_TAGS,
    MAX_JSON_INT,
    MAX_KEY_DEPTH,
    bad_skeleton,
    decode_plain,
    expect_list,
    newer_skeleton,
    tagged,
)
from .skeleton_writer import ATTACHMENT, MAX_DEPTH, VERSION

_MEMBERS = ("format", "version", "containers", "root")
_LONGEST_INT = len(str(-MAX_JSON_INT))
# Tags of values that only one framework can make.
_FRAMEWORK_TAGS = {
    "tensor": "torch",
    "parameter": "torch",
    "torch.Size": "torch",
    "torch.dtype": "torch",
    "torch.device": "torch",
    "torch.layout": "torch",
    "torch.tensor": "torch",
    "torch.meta": "torch",
    "torch.sparse": "torch",
    "attributes": "torch",
    "array": "numpy",
}
# The most keys of a dict or a set that may have one hash: more are chosen to make it slow.
_MAX_OF_ONE_HASH = 64

# Tensors by name of record.
Tensors = Mapping[str, Any]


class ValueDecoder(Protocol):
    """The values of one framework besides the plain ones."""

    @property
    def kind(self) -> str: ...

    @property
    def record_tags(self) -> Sequence[str]: ...

    @property
    def value_tags(self) -> Mapping[str, Callable[[Any], Any]]: ...

    def record_name(self, tag: str, content: Any) -> str:
        """The record that a value of record_tags is made of."""

    @property
    def container_tags(self) -> Mapping[str, Callable[[list[Any]], Any]]:
        """Objects made of their parts, which are None as long as there are no tensors."""

    def finish(self, tag: str, content: Any, tensor: Any) -> Any:
        """The value made of the record's tensor."""


class SkeletonReader:
    """One skeleton, parsed. ``records`` has the names it refers to, by kind of decoder."""

    def __init__(self, skeleton: bytes, decoders: Sequence[ValueDecoder]) -> None:
        members = _parse(skeleton)
        self._root = members["root"]
        self._containers = expect_list(members["containers"])
        self._of_record = {tag: decoder for decoder in decoders for tag in decoder.record_tags}
        self._of_value = {
            tag: decode for decoder in decoders for tag, decode in decoder.value_tags.items()
        }
        self._of_container = {
            tag: make for decoder in decoders for tag, make in decoder.container_tags.items()
        }
        self.records: dict[str, list[str]] = {decoder.kind: [] for decoder in decoders}
        # A first pass without tensors finds every mistake before any tensor is read.
        self._collecting = True
        self.build({})
        self._collecting = False

    def build(self, tensors: Tensors) -> Any:
        """The tree. No recursion: containers come after all they hold."""
        self._tensors = tensors
        self._references: dict[str, tuple[str, Any, Any]] = {}
        self._built: list[Any] = []
        self._depths: list[int] = []
        self._used: set[int] = set()
        for container in self._containers:
            self._depth = 0
            self._built.append(self._container(container))
            self._depths.append(self._depth + 1)
            if self._depth == MAX_DEPTH:
                raise bad_skeleton(f"it is more than {MAX_DEPTH} containers deep")
        root = self._value(self._root)
        if len(self._used) != len(self._built):
            unused = min(set(range(len(self._built))) - self._used)
            raise bad_skeleton(f"nothing refers to container {unused}")
        return root

    def _container(self, container: Any) -> Any:
        if type(container) is not tuple:
            raise bad_skeleton(f"{shown(repr(container))} is not a container")
        tag, content = tagged(container)
        items = expect_list(content)
        if tag == "list":
            return [self._value(item) for item in items]
        if tag == "tuple":
            return tuple([self._value(item) for item in items])
        if tag in ("set", "frozenset"):
            return self._set(items) if tag == "set" else frozenset(self._set(items))
        if tag == "dict":
            return self._fill({}, items)
        if tag == "OrderedDict":
            return self._fill(collections.OrderedDict(), items)
        if tag == "Counter":
            return self._fill(collections.Counter(), items)
        if tag == "state_dict":
            pairs, metadata = expect_list(content, 2)
            state_dict = self._fill(collections.OrderedDict(), expect_list(pairs))
            state_dict._metadata = self._value(metadata)
            return state_dict
        if tag in self._of_container:
            return self._object(tag, items)
        if tag in _FRAMEWORK_TAGS:
            raise self._other_framework(tag)
        raise newer_skeleton(f"there is no container of type {shown(tag)}")

    def _object(self, tag: str, items: list[Any]) -> Any:
        if tag == "attributes":
            pairs, owner = expect_list(items, 2)
            parts = [self._value(owner), self._fill({}, expect_list(pairs))]
        else:
            parts = [self._value(item) for item in items]
        return self._of_container[tag](parts)

    def _key(self, key: Any, depth: int = 0) -> Any:
        if type(key) is not tuple:
            return decode_plain(key)
        tag, content = tagged(key)
        if tag == "tuple":
            if depth == MAX_KEY_DEPTH:
                raise bad_skeleton(f"a key has more than {MAX_KEY_DEPTH} nested tuples")
            return tuple([self._key(item, depth + 1) for item in expect_list(content)])
        if tag not in KEY_TAGS:
            raise bad_skeleton(f"a key has the type {shown(tag)}")
        return self._value(key)

    def _set(self, items: list[Any]) -> set[Any]:
        result: set[Any] = set()
        hashes: dict[int, int] = {}
        for item in items:
            key = self._key(item)
            _count_hash(hashes, key)
            if key in result:
                raise bad_skeleton(f"a set contains {_name(key)} twice")
            result.add(key)
        return result

    def _fill(self, mapping: Any, pairs: list[Any]) -> Any:
        hashes: dict[int, int] = {}
        for pair in pairs:
            encoded_key, value = expect_list(pair, 2)
            key = self._key(encoded_key)
            _count_hash(hashes, key)
            if key in mapping:
                raise bad_skeleton(f"a dict has the key {_name(key)} twice")
            mapping[key] = self._value(value)
        return mapping

    def _value(self, value: Any) -> Any:
        if type(value) is not tuple:
            return decode_plain(value)
        tag, content = tagged(value)
        if tag == "at":
            return self._refer(content)
        if tag in self._of_record:
            return self._record(self._of_record[tag], tag, content)
        if tag in self._of_value:
            return self._of_value[tag](content)
        if tag in _FRAMEWORK_TAGS:
            raise self._other_framework(tag)
        return decode_plain(value)

    def _other_framework(self, tag: str) -> UnsupportedError:
        framework = _FRAMEWORK_TAGS[tag]
        return UnsupportedError(
            f"the checkpoint has values of {framework} ({tag}): load it with "
            f"cfck.{framework}.load_checkpoint"
        )

    def _refer(self, place: Any) -> Any:
        if type(place) is not int or not 0 <= place < len(self._built):
            raise bad_skeleton(f"{shown(repr(place))} does not refer to an earlier container")
        self._depth = max(self._depth, self._depths[place])
        self._used.add(place)
        return self._built[place]

    def _record(self, decoder: ValueDecoder, tag: str, content: Any) -> Any:
        name = decoder.record_name(tag, content)
        if name in self._references:
            first_tag, first_content, result = self._references[name]
            if (first_tag, first_content) != (tag, content):
                raise bad_skeleton(
                    f"record `{name}` is {with_article(first_tag)} and {with_article(tag)}", name
                )
            return result
        if self._collecting:
            self.records[decoder.kind].append(name)
            result = None
        else:
            result = decoder.finish(tag, content, self._tensors[name])
        self._references[name] = tag, content, result
        return result


def _count_hash(hashes: dict[int, int], key: Any) -> None:
    """Raises CorruptError for keys that were chosen so that a dict takes forever to hold them."""
    if type(key) is str:
        return  # hashes of text differ from process to process
    number = hash(key)
    hashes[number] = hashes.get(number, 0) + 1
    if hashes[number] > _MAX_OF_ONE_HASH:
        raise bad_skeleton(f"more than {_MAX_OF_ONE_HASH} keys of a dict or a set have one hash")


def _name(key: Any) -> str:
    huge = type(key) is int and key.bit_length() > 64
    return "a huge integer" if huge else shown(repr(key))


def _parse(skeleton: bytes) -> dict[str, Any]:
    try:
        document = json.loads(
            skeleton.decode(),
            object_pairs_hook=tuple,
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise bad_skeleton("its JSON is nested too deep") from None
    except CorruptError:
        raise
    except ValueError as error:
        raise bad_skeleton(f"it is not valid JSON: {error}") from None
    if type(document) is not tuple:
        raise bad_skeleton("it is not an object")
    members = dict(document)
    if members.get("format") != ATTACHMENT:
        raise bad_skeleton(f'its "format" is not "{ATTACHMENT}"')
    version = members.get("version")
    if type(version) is not int or version < 1:
        raise bad_skeleton(f"its version is {shown(repr(version))}")
    if version > VERSION:
        raise newer_skeleton(f"its skeleton has version {version}, this one reads {VERSION}")
    if sorted(name for name, _ in document) != sorted(_MEMBERS):
        raise bad_skeleton(f"its members are {shown(', '.join(name for name, _ in document))}")
    return members


def _parse_int(digits: str) -> int:
    if len(digits) <= _LONGEST_INT:
        value = int(digits)
        if -MAX_JSON_INT <= value <= MAX_JSON_INT:
            return value
    raise bad_skeleton(f"the integer {shown(digits)} is out of range")


def _parse_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise bad_skeleton(f"the number {shown(digits)} is out of range")
    return value


def _refuse_constant(name: str) -> None:
    raise bad_skeleton(f"{name} is not JSON")
