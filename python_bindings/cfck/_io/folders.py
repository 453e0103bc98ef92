"""Finds the file of a folder that holds the model."""

from __future__ import annotations

import dataclasses
import os
import re
from collections import defaultdict
from collections.abc import Iterable

from ..errors import InvalidArgumentError, MissingFileError

# Libraries give the file of a model these names: transformers (the first two), diffusers (its LoRA
# adapters apart), peft, open_clip, Mistral.
MODEL_NAMES = (
    "model",
    "pytorch_model",
    "diffusion_pytorch_model",
    "pytorch_lora_weights",
    "adapter_model",
    "open_clip_model",
    "consolidated",
)

# "model.cfck.index.json", "model.fp16.safetensors.index.json", "model.safetensors.index.fp16.json"
_INDEX = re.compile(
    r"(?P<stem>.+)\.(?P<kind>cfck|safetensors)(\.(?P<early>[^.]+))?\.index"
    r"(\.(?P<late>[^.]+))?\.json"
)
_SINGLE = re.compile(r"(?P<stem>.+)\.(?P<kind>cfck|safetensors)")
_SHARD = re.compile(r".*-\d{5}-of-\d{5}(\.[^.]+)?\.(cfck|safetensors)")
# Among files of one model the smaller format comes first, and an index before a single file.
_PREFERENCE = [("cfck", True), ("cfck", False), ("safetensors", True), ("safetensors", False)]


@dataclasses.dataclass(frozen=True)
class _Candidate:
    name: str
    model: str
    variant: str
    kind: str
    is_index: bool

    @property
    def rank(self) -> int:
        """Lower comes first: known names, known names of a variant, others."""
        if self.model not in MODEL_NAMES:
            return 2
        return 1 if self.variant else 0


def _candidate(name: str) -> _Candidate | None:
    index = _INDEX.fullmatch(name)
    found = index or (None if _SHARD.fullmatch(name) else _SINGLE.fullmatch(name))
    if found is None or name.startswith("."):
        return None
    model, _, variant = found["stem"].partition(".")
    if model not in MODEL_NAMES:
        model, variant = found["stem"], ""
    if index:
        variant = ".".join(part for part in (variant, index["early"], index["late"]) if part)
    return _Candidate(name, model, variant, found["kind"], index is not None)


def find_in_folder(folder: str) -> str:
    """The path of the file or index that stands for the folder.

    Names of MODEL_NAMES come before the same with a variant ("model.fp16.safetensors"), these
    before any others. Of one name, .cfck comes before .safetensors, and the index of shards
    before a single file.

    Raises:
        MissingFileError: there is none.
        InvalidArgumentError: there are several, and none comes first.
    """
    names = sorted(os.listdir(folder))
    candidates = [
        candidate
        for candidate in map(_candidate, names)
        if candidate is not None and not os.path.isdir(os.path.join(folder, candidate.name))
    ]
    if not candidates:
        raise _missing(folder, names)
    best = min(candidate.rank for candidate in candidates)
    models: defaultdict[tuple[str, str], list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        if candidate.rank == best:
            models[candidate.model, candidate.variant].append(candidate)
    preferred = [min(same, key=_preference) for same in models.values()]
    if len(preferred) > 1:
        files = ", ".join(candidate.name for candidate in preferred)
        raise InvalidArgumentError(
            f"{folder} has several models: {files}; give the path of the one to load"
        )
    return os.path.join(folder, preferred[0].name)


def _preference(candidate: _Candidate) -> tuple[int, str]:
    return _PREFERENCE.index((candidate.kind, candidate.is_index)), candidate.name


def _missing(folder: str, names: Iterable[str]) -> MissingFileError:
    what = "neither model.cfck.index.json nor model.cfck, nor another model file"
    if any(_SHARD.fullmatch(name) for name in names):
        what = "shards, but no index of them, such as model.cfck.index.json"
    return MissingFileError(f"No such file or directory: {folder} has {what}", filename=folder)
