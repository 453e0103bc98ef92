"""save_checkpoint and load_checkpoint, the same for every framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ._checkpoint import Checkpoint, shift
from ._framework import Framework, Prepared, Progress
from ._options import SaveFileOptions
from ._plain import bad_skeleton, shown
from ._save import write_prepared
from ._skeleton_reader import SkeletonReader, ValueDecoder
from ._skeleton_writer import ATTACHMENT, MAX_SKELETON_BYTES, SkeletonWriter, ValueEncoder
from ._summary import SaveSummary
from .errors import InvalidArgumentError


class Values(ValueEncoder, ValueDecoder, Protocol):
    """What a framework adds to the plain values of a tree."""


# The values of a framework, and how its tensors are written and read.
Kinds = Sequence[tuple[Values, Framework]]


def save_tree(
    kinds: Kinds,
    tree: Any,
    filename: Any,
    metadata: Any,
    options: SaveFileOptions,
) -> SaveSummary:
    writer = SkeletonWriter([values for values, _ in kinds])
    skeleton = writer.run(tree)
    prepared = Prepared()
    for values, framework in kinds:
        part = framework.prepare(writer.tensors[values.kind])
        prepared.units += part.units
        prepared.owners += part.owners
        prepared.total_bytes += part.total_bytes
    exempt = dict.fromkeys(writer.optimizer_state, "optimizer_state")
    return write_prepared(prepared, filename, metadata, {ATTACHMENT: skeleton}, options, exempt)


def load_tree(
    kinds: Kinds,
    devices: Mapping[str, Any],
    filename: Any,
    backend: str,
    progress: Progress | None,
    **options: Any,
) -> Any:
    """``devices``: where tensors of a kind go, if not to the host. ``options``: Checkpoint.open."""
    checkpoint = Checkpoint.open(filename, backend, **options)
    skeleton = checkpoint.attachment(ATTACHMENT, MAX_SKELETON_BYTES)
    if skeleton is None:
        raise InvalidArgumentError(
            f"{filename} has tensors, but was not written by save_checkpoint: "
            "load it with load_file"
        )
    reader = SkeletonReader(skeleton, [values for values, _ in kinds])
    _check_records(checkpoint.names(), reader.records.values())
    sizes = {kind: checkpoint.bytes_to_load(names) for kind, names in reader.records.items()}
    tensors: dict[str, Any] = {}
    done_bytes = 0
    for values, framework in kinds:
        names = reader.records[values.kind]
        part = shift(progress, done_bytes, sum(sizes.values()))
        tensors.update(checkpoint.load(names, framework, devices.get(values.kind), part))
        done_bytes += sizes[values.kind]
    return reader.build(tensors)


def _check_records(stored: Sequence[str], referred: Iterable[Sequence[str]]) -> None:
    wanted = {name for names in referred for name in names}
    for name in wanted.difference(stored):
        raise bad_skeleton(f"the file has no record `{shown(name)}`", name)
    for name in stored:
        if name not in wanted:
            raise bad_skeleton(
                f"it does not refer to record `{shown(name)}`, which was perhaps added by "
                "cfck.update; load_file returns all tensors",
                name,
            )
