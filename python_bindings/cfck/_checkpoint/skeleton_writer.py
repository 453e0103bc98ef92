"""From a tree of containers and values to its skeleton and its tensors. See spec/checkpoint.md."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import enum
import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from .._common.problems import Problems
from .._common.text import shown, with_article
from ..errors import InvalidArgumentError, LimitExceededError
from .plain import NotStorable, encode_key, encode_plain, type_name

ATTACHMENT = "cfck.checkpoint"
VERSION = 1
MAX_DEPTH = 1000
MAX_SKELETON_BYTES = 64 << 20

_LONGEST_NAME = 1000
# The most values that are seen again because their container is in several places.
_MAX_REPEATS = 1 << 22
_CONTAINERS: dict[type, str] = {
    dict: "dict",
    collections.OrderedDict: "OrderedDict",
    collections.Counter: "Counter",
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
}
_MAPPINGS = ("dict", "OrderedDict", "Counter", "state_dict")
# Keys of optimizer state, and the keys of what an optimizer's state_dict() returns.
_OPTIMIZER_KEY = re.compile(r"(?:^|[^a-z])optim(?:s|izers?)?(?:$|[^a-z])", re.IGNORECASE)
_OPTIMIZER_KEYS = {"state", "param_groups"}

# Stores a tensor, and returns the name of its record.
AddTensor = Callable[[Any], str]
# Takes a value that cannot be stored, and returns one that can be; as that of json.dump.
Default = Callable[..., object]
# A replacement may be replaced itself so many times.
_MAX_REPLACED = 100
_PLAIN_VALUES = (
    "Store the plain values that objects are made of: dict, list, tuple, set, None, bool, int, "
    "float, complex, str, bytes, tensors and arrays."
)


class ValueEncoder(Protocol):
    """The values of one framework besides the plain ones."""

    @property
    def kind(self) -> str: ...

    def encode(self, value: Any, add: AddTensor) -> Any | None:
        """The value as JSON, None if it is none of this framework; NotStorable if it cannot be."""


class _Lost(NotStorable):
    """A value of a kind that cannot be stored, which ``default`` may replace.

    Attributes:
        is_unknown: whether nothing is known of its type that could be stored instead.
    """

    is_unknown = False


class _Attribute(str):
    """The last step of a path that is an attribute, not a key."""


@dataclasses.dataclass
class _Open:
    """A container whose items are being encoded."""

    source: Any
    tag: str
    children: Iterator[tuple[Any, Any]]  # key or index, item
    items: list[Any]  # JSON
    encode_key: Callable[[Any], Any]
    step: Any = None  # key or index of the item at hand

    @property
    def is_optimizer(self) -> bool:
        return isinstance(self.source, dict) and _OPTIMIZER_KEYS <= self.source.keys()

    def add(self, item: Any) -> None:
        if self.tag not in _MAPPINGS or isinstance(self.step, _Attribute):
            self.items.append(item)
        else:
            self.items.append([self.encode_key(self.step), item])


class SkeletonWriter:
    """Encodes one tree.

    Attributes:
        tensors: all tensors found, by kind of encoder and name of record.
        optimizer_state: names of the records that belong to an optimizer.
        problems: what cannot be stored, with its paths, once run() has returned.
    """

    def __init__(self, encoders: Sequence[ValueEncoder], default: Default | None = None) -> None:
        self._encoders = encoders
        self._default = default
        self.problems = Problems()
        # Replacements by the ids of their values; both have to live on, so that ids stay unique.
        self._replaced: dict[int, tuple[Any, Any]] = {}
        self.tensors: dict[str, dict[str, Any]] = {encoder.kind: {} for encoder in encoders}
        self.optimizer_state: set[str] = set()
        self._open: list[_Open] = []
        self._open_ids: set[int] = set()
        self._done: dict[int, int] = {}  # id of a container: its place
        self._names: dict[int, str] = {}  # id of a tensor: its first name
        self._kinds: dict[int, str] = {}  # id of a tensor: kind of its encoder
        self._tensors_below: set[int] = set()  # ids of containers
        self._paths: dict[str, list[Any]] = {}  # by name of record
        self._n_repeats = 0
        self._used: set[str] = set()
        self._suffixes: dict[str, int] = {}
        self._texts: list[str] = []

    def run(self, tree: Any) -> bytes:
        """The skeleton. No recursion: a tree may be deeper than Python's stack."""
        root, _ = self._started(tree)
        while self._open:
            if self._fill(self._open[-1]):
                root = self._close()
                if self._open:
                    self._add_item(self._open[-1], root)
        text = (
            f'{{"format":"{ATTACHMENT}","version":{VERSION},"containers":[\n'
            + ",\n".join(self._texts)
            + f'\n],"root":{_to_json(root)}}}\n'
        )
        skeleton = text.encode()
        if len(skeleton) > MAX_SKELETON_BYTES:
            raise LimitExceededError(
                f"the containers and plain values of this checkpoint take {len(skeleton)} bytes; "
                f"{MAX_SKELETON_BYTES} are allowed; store long lists and bytes as tensors"
            )
        return skeleton

    def _started(self, value: Any) -> tuple[Any, bool]:
        """As _start; what cannot be stored becomes a problem, and None in its place."""
        try:
            return self._start(value)
        except NotStorable as error:
            self._note(error)
            return None, False

    def _add_item(self, container: _Open, item: Any) -> None:
        try:
            container.add(item)
        except NotStorable as error:  # its key
            self._note(error)

    def _note(self, error: NotStorable) -> None:
        is_unknown = isinstance(error, _Lost) and error.is_unknown
        path = _shown_path(container.step for container in self._open)
        self.problems.add(
            InvalidArgumentError(f"{path} {error}"), _PLAIN_VALUES if is_unknown else ""
        )

    def _start(self, value: Any) -> tuple[Any, bool]:
        """The value as JSON; or True, if it is a container that was opened."""
        for _ in range(_MAX_REPLACED):
            try:
                return self._start_as_it_is(value)
            except _Lost as error:
                value = self._replacement(value, error)
        raise NotStorable(
            f"is {with_article(type_name(value))} after {_MAX_REPLACED} calls of default"
        )

    def _replacement(self, value: Any, error: NotStorable) -> Any:
        """What ``default`` has in place of a value that cannot be stored."""
        if self._default is None:
            raise error
        if id(value) not in self._replaced:
            try:
                self._replaced[id(value)] = value, self._default(value)
            except TypeError as refused:
                raise NotStorable(f"{error}; default raised TypeError: {refused}") from None
        _, replacement = self._replaced[id(value)]
        if replacement is value:
            raise NotStorable(f"{error}; default returned it as it was")
        return replacement

    def _start_as_it_is(self, value: Any) -> tuple[Any, bool]:
        tag = _CONTAINERS.get(type(value))
        if tag is None:
            return self._encode(value), False
        if id(value) in self._done:
            self._name_again(value)
            return {"at": self._done[id(value)]}, False
        if id(value) in self._open_ids:
            raise NotStorable("contains itself; store a tree without cycles")
        if len(self._open) == MAX_DEPTH:
            raise NotStorable(f"is more than {MAX_DEPTH} containers deep")
        try:
            opened = _open_container(value, tag, self._encode_key)
        except NotStorable as error:
            raise _Lost(str(error)) from None
        self._open.append(opened)
        self._open_ids.add(id(value))
        return None, True

    def _fill(self, container: _Open) -> bool:
        """Encodes items up to the next container, which it opens; True at the end."""
        for step, child in container.children:
            container.step = step
            item, opened = self._started(child)
            if opened:
                return False
            self._add_item(container, item)
        return True

    def _close(self) -> Any:
        container = self._open.pop()
        if any(
            id(child) in self._tensors_below or id(child) in self._names
            for _, child in _named_children(container.source)
        ):
            self._tensors_below.add(id(container.source))
        items: Any = container.items
        if container.tag == "state_dict":
            items = [items[:-1], items[-1]]
        self._open_ids.remove(id(container.source))
        place = len(self._texts)
        self._done[id(container.source)] = place
        self._texts.append(_to_json({container.tag: items}))
        return {"at": place}

    def _encode_key(self, key: Any) -> Any:
        return encode_key(key, self._encode_framework_key)

    def _encode_framework_key(self, key: Any) -> Any | None:
        for encoder in self._encoders:
            encoded = encoder.encode(key, _refuse_tensor)
            if encoded is not None:
                return encoded
        return None

    def _encode(self, value: Any) -> Any:
        try:
            for encoder in self._encoders:
                encoded = encoder.encode(value, functools.partial(self._add, encoder.kind))
                if encoded is not None:
                    return encoded
        except NotStorable as error:
            raise _Lost(str(error)) from None
        try:
            return encode_plain(value)
        except NotStorable as error:
            advice = _advice(value)
            lost = _Lost(f"{error}; {advice}" if advice else str(error))
            lost.is_unknown = not advice
            raise lost from None

    def _add(self, kind: str, tensor: Any) -> str:
        """The record to refer to: the first name of the tensor. Each path to it is a name."""
        path = [container.step for container in self._open]
        self._add_name(kind, tensor, path, self._inside_optimizer())
        return self._names[id(tensor)]

    def _add_name(self, kind: str, tensor: Any, path: list[Any], is_optimizer: bool) -> None:
        name = self._free_name(path)
        self._paths[name] = path
        first = self._names.setdefault(id(tensor), name)
        self._kinds[id(tensor)] = kind
        self.tensors[kind][name] = tensor
        if is_optimizer:
            self.optimizer_state.update((first, name))

    def _name_again(self, value: Any) -> None:
        """Names the tensors of a container that is in another place too by their paths there."""
        top = [container.step for container in self._open]
        is_optimizer = self._inside_optimizer()
        waiting = [(top, value)]
        while waiting:
            path, item = waiting.pop()
            if id(item) in self._names and type(item) not in _CONTAINERS:
                self._n_repeats += 1
                self._add_name(self._kinds[id(item)], item, path, is_optimizer)
            elif id(item) in self._tensors_below:
                children = list(_named_children(item))
                self._n_repeats += len(children)
                waiting += [([*path, step], child) for step, child in reversed(children)]
            if self._n_repeats > _MAX_REPEATS:
                raise NotStorable(
                    "is in so many places that its tensors have more names than files store; "
                    "store copies of it"
                )

    def _inside_optimizer(self) -> bool:
        if any(container.is_optimizer for container in self._open):
            return True
        keys = (container.step for container in self._open[:-1])
        return any(isinstance(key, str) and _OPTIMIZER_KEY.search(key) for key in keys)

    def _free_name(self, steps: list[Any]) -> str:
        """The path, or if another path reads the same, that and a number."""
        path = shown(".".join(map(_name_of, steps)), _LONGEST_NAME)
        path = path or "root"
        name, suffix = path, self._suffixes.get(path, 1)
        while name in self._used:
            suffix += 1
            name = f"{path}~{suffix}"
        self._suffixes[path] = suffix
        self._used.add(name)
        return name

    def path_of(self, name: str) -> str:
        """Where the tensor of a record is, as messages name it."""
        return _shown_path(self._paths[name])


def _shown_path(steps: Iterable[Any]) -> str:
    texts = []
    for step in steps:
        if isinstance(step, _Attribute):
            texts.append(f".{step}")
        else:
            texts.append(f"[{step!r}]" if isinstance(step, str) else f"[{_name_of(step)}]")
    return "checkpoint" + shown("".join(texts), 400)


def _refuse_tensor(tensor: Any) -> str:
    raise NotStorable(
        f"has a key that is {with_article(type_name(tensor))}, which changes; use another key"
    )


def _open_container(value: Any, tag: str, key_of: Callable[[Any], Any]) -> _Open:
    attributes = vars(value) if hasattr(value, "__dict__") else {}
    if tag in ("set", "frozenset"):
        # In an order of their own: that of a set changes from run to run.
        return _Open(value, tag, iter(()), sorted(map(key_of, value), key=_to_json), key_of)
    if tag in ("list", "tuple"):
        return _Open(value, tag, iter(enumerate(value)), [], key_of)
    if not attributes:
        return _Open(value, tag, iter(value.items()), [], key_of)
    if tag != "OrderedDict" or set(attributes) != {"_metadata"}:
        raise NotStorable(
            f"is {with_article(type_name(value))} with the attributes "
            f"{shown(', '.join(attributes))}, which would be lost; store dict(x), and "
            "store what you need of them separately"
        )
    return _Open(value, "state_dict", _with_metadata(value, attributes["_metadata"]), [], key_of)


def _with_metadata(state_dict: Any, metadata: Any) -> Iterator[tuple[Any, Any]]:
    """The attribute in which Module.state_dict() keeps metadata comes last."""
    yield from state_dict.items()
    yield _Attribute("_metadata"), metadata


def _named_children(container: Any) -> Iterator[tuple[Any, Any]]:
    """Step and value of what a container has, but for elements of sets, which are keys."""
    if isinstance(container, (list, tuple)):
        yield from enumerate(container)
    elif isinstance(container, dict):
        yield from container.items()
        if hasattr(container, "_metadata"):
            yield _Attribute("_metadata"), container._metadata


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _name_of(key: Any) -> str:
    if type(key) is tuple:
        return f"({','.join(map(_name_of, key))})"
    if type(key) is int and key.bit_length() > 64:
        return hex(key)  # Python refuses to write very long ones in decimal
    return str(key)


def _advice(value: Any) -> str:
    """Names something to store instead; empty: nothing is known of the type."""
    if isinstance(value, type):
        return "classes cannot be stored"
    for method in ("state_dict", "get_state"):
        if callable(getattr(type(value), method, None)):
            return f"store its .{method}()"
    known: list[tuple[Any, str]] = [
        (enum.Enum, "store its .value or its .name"),
        (argparse.Namespace, "store vars(x)"),
        (os.PathLike, "store str(x)"),
        (memoryview, "store bytes(x)"),
        (collections.deque | range, "store list(x)"),
    ]
    for kind, advice in known:
        if isinstance(value, kind):
            return advice
    if dataclasses.is_dataclass(value):
        return "store dataclasses.asdict(x)"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return "store x._asdict() or tuple(x)"
    for plain in (str, bytes, int, float, complex, dict, list, tuple, set, frozenset):
        if isinstance(value, plain) and type(value) is not plain:
            return f"store {plain.__name__}(x)"
    if type(value).__module__.partition(".")[0] == "torch":
        return "cfck.torch.save_checkpoint stores tensors, dtypes, devices and sizes"
    if callable(value):
        return "functions cannot be stored"
    return ""
