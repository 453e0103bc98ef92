"""save_checkpoint and load_checkpoint, the same for every framework."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .._common.text import printable, shown
from .._frameworks.framework import Framework, Prepared
from .._io.archive import Archive
from .._io.loading import shift
from .._io.save import write_prepared
from .._io.summary import SaveSummary
from .._options.kinds import LoadOptions, SaveOptions
from .._options.signatures import split_progress
from ..errors import CfckError, CorruptError, InvalidArgumentError
from .skeleton_reader import SkeletonReader, ValueDecoder
from .skeleton_writer import (
    ATTACHMENT,
    MAX_SKELETON_BYTES,
    Default,
    SkeletonWriter,
    ValueEncoder,
)

if TYPE_CHECKING:
    import torch

_MAX_LISTED = 5  # names, in an error


class Values(ValueEncoder, ValueDecoder, Protocol):
    """The values that a framework adds to the plain ones of a tree."""


# The values of a framework, and how its tensors are written and read.
Kinds = Sequence[tuple[Values, Framework[Any]]]


def save_tree(
    kinds: Kinds,
    tree: object,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None,
    default: Default | None,
    options: SaveOptions,
) -> SaveSummary:
    writer, skeleton, prepared = _prepare_tree(kinds, tree, default)
    exempt = dict.fromkeys(writer.optimizer_state, "optimizer_state")
    return write_prepared(prepared, filename, metadata, {ATTACHMENT: skeleton}, options, exempt)


def check_tree(kinds: Kinds, tree: object, default: Default | None) -> None:
    """Raises what save_tree raises for what cannot be stored. Writes nothing."""
    _prepare_tree(kinds, tree, default)


def _prepare_tree(
    kinds: Kinds, tree: object, default: Default | None
) -> tuple[SkeletonWriter, bytes, Prepared]:
    """The skeleton and the tensors. Raises one error for all that cannot be stored."""
    if default is not None and not callable(default):
        raise TypeError(
            "default is a function that takes a value which cannot be stored and returns one that "
            f"can be, not {type(default).__name__}"
        )
    writer = SkeletonWriter([values for values, _ in kinds], default)
    skeleton = writer.run(tree)
    prepared = Prepared()
    for values, framework in kinds:
        tensors = writer.tensors[values.kind]
        try:
            part = framework.prepare(tensors)
        except CfckError:
            _gather(framework, tensors, writer)
            continue
        prepared.units += part.units
        prepared.owners += part.owners
        prepared.total_bytes += part.total_bytes
        prepared.on_cuda += part.on_cuda
    writer.problems.check()
    return writer, skeleton, prepared


def _gather(framework: Framework[Any], tensors: Mapping[str, Any], writer: SkeletonWriter) -> None:
    """What is wrong with each tensor, under its path in the tree."""
    for name, tensor in tensors.items():
        try:
            framework.prepare({name: tensor})
        except CfckError as error:
            text = str(error).removeprefix(f"tensor `{name}`").lstrip()
            error = type(error)(f"{writer.path_of(name)} {text}", record=error.record)
            writer.problems.add(error)


def load_tree(
    kinds: Kinds,
    devices: Mapping[str, torch.device | None],
    filename: str | os.PathLike[str],
    options: LoadOptions,
) -> Any:
    """``devices``: where tensors of a kind go, if not to the host."""
    reading, progress = split_progress(options)
    archive = Archive.open(filename, reading)
    if archive.shards_with(ATTACHMENT) > 1:
        raise InvalidArgumentError(
            f"{filename} has its tensors in several files, each with containers of its own: "
            "load_file returns all tensors by name, and load_checkpoint what is in one of the files"
        )
    skeleton = archive.attachment(ATTACHMENT, MAX_SKELETON_BYTES)
    if skeleton is None:
        raise InvalidArgumentError(
            f"{filename} has tensors, but was not written by save_checkpoint: "
            "load it with load_file"
        )
    reader = SkeletonReader(skeleton, [values for values, _ in kinds])
    _check_records(archive, reader.records.values())
    sizes = {kind: archive.bytes_to_load(names) for kind, names in reader.records.items()}
    tensors: dict[str, Any] = {}
    done_bytes = 0
    for values, framework in kinds:
        names = reader.records[values.kind]
        part = shift(progress, done_bytes, sum(sizes.values()))
        tensors.update(archive.load(names, framework, devices.get(values.kind), part))
        done_bytes += sizes[values.kind]
    return reader.build(tensors)


def _check_records(archive: Archive, referred: Iterable[Sequence[str]]) -> None:
    """Compares the tensors of the file with those that the skeleton refers to.

    Further names of these are no mistake: of a tensor that is in several places.
    """
    stored = archive.names()
    wanted = dict.fromkeys(name for names in referred for name in names)
    present = set(stored)
    missing = [name for name in wanted if name not in present]
    sources = {_elements(archive, name) for name in wanted if name in present}
    extra = [
        name for name in stored if name not in wanted and _elements(archive, name) not in sources
    ]
    if not missing and not extra:
        return
    problems = []
    advice = []
    if missing:
        problems.append(f"has no record {_listed(missing)}, to which its containers refer")
        advice.append("cfck.update(path, tensors) restores missing ones")
    if extra:
        problems.append(f"has {_listed(extra)}, to which its containers do not refer")
        advice.append("cfck.update(path, {}, remove=names) removes extra ones")
    raise CorruptError(
        f"this checkpoint {printable(' and '.join(problems))}: an update by an earlier version, "
        "a repair, or another program changed the file; load_file returns all tensors that it "
        f"has, by name; {'; '.join(advice)}",
        record=(missing or extra)[0],
    )


def _elements(archive: Archive, name: str) -> tuple[Any, ...]:
    """Equal for names of the same elements. Tensors without any are no aliases of each other."""
    record = archive.record(name)
    if not record.decoded_bytes:
        return record.dtype, tuple(record.shape)
    return archive.source(name)


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(f"`{shown(name)}`" for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return f"{listed} and {more} more" if more > 0 else listed
