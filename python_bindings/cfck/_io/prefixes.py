"""Names of a file and of a model that differ by what stands before them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from .._common.text import printable

# torch.compile puts this into names, also in their middle.
_COMPILED = "_orig_mod."
_MAX_CANDIDATES = 64
_MAX_POINTS = 32  # in a prefix


@dataclasses.dataclass(frozen=True)
class Prefixes:
    """The prefixes of names that are otherwise the same: in the file, and in the model.

    Attributes:
        in_file: that of the file; may be empty.
        in_model: that of the model; may be empty.
        n_names: of the tensors that fit with it.
        are_all: all names of the file that the model lacks have the prefix.
    """

    in_file: str
    in_model: str
    n_names: int
    are_all: bool

    def advice(self) -> str:
        """A clause that says how the names differ and what to do about it."""
        in_file, in_model = printable(self.in_file), printable(self.in_model)
        if not in_model:
            said = f"those of the file begin with `{in_file}`"
            change = f"name.removeprefix({_literal(self.in_file)})"
        elif not in_file:
            said = f"those of the model begin with `{in_model}`"
            change = f"{_literal(self.in_model)} + name"
        else:
            said = f"those of the file begin with `{in_file}`, those of the model with `{in_model}`"
            change = f"{_literal(self.in_model)} + name.removeprefix({_literal(self.in_file)})"
        # Beside the weights a checkpoint may have the state of an optimizer.
        which = "" if self.are_all else f" if name.startswith({_literal(self.in_file)})"
        renamed = f"{{{change}: t for name, t in load_file(path).items(){which}}}"
        # A file, and no call of load_state_dict: that leaves models on meta without values, and
        # compressed ones are made of files.
        rename = f'rename them with save_file({renamed}, "renamed.cfck") and load that file'
        if self.in_file or not self.in_model.rstrip(".").isidentifier():
            return f"{said}: {rename}"
        part = f"model.{self.in_model.rstrip('.')}"
        return f"{said}: load the file into {part}, or {rename}"


def _literal(text: str) -> str:
    """Text as Python code."""
    return '"' + printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def find_prefixes(file_names: Collection[str], model_names: Collection[str]) -> Prefixes | None:
    """The prefixes by which most names of a file and a model differ; None: they differ otherwise.

    Names that are in both count as different.
    """
    in_model = set(model_names)
    best: Prefixes | None = None
    fewest = min(len(file_names), len(in_model))
    for candidate in _candidates(sorted(file_names), sorted(model_names)):
        n_names = sum(
            name.startswith(candidate[0]) and candidate[1] + name[len(candidate[0]) :] in in_model
            for name in file_names
        )
        if all(candidate) and (n_names < max(2, fewest) or _is_number(candidate)):
            continue  # such as the numbers of layers
        if best is None or n_names > best.n_names:
            are_all = all(name.startswith(candidate[0]) for name in file_names)
            best = Prefixes(*candidate, n_names, are_all)
    if best is None or 2 * best.n_names <= fewest:
        return None
    return best


def _candidates(file_names: list[str], model_names: list[str]) -> Iterator[tuple[str, str]]:
    """Pairs of prefixes that make some name of the file one of the model."""
    by_suffix: dict[str, list[str]] = {}
    for name in model_names:
        for suffix in _suffixes(name):
            by_suffix.setdefault(suffix, []).append(name)
    tried: set[tuple[str, str]] = set()
    # The first name may be one that the model does not have.
    for name in file_names[:: max(1, len(file_names) // 4)]:
        for suffix in _suffixes(name):
            for other in by_suffix.get(suffix, [])[:_MAX_CANDIDATES]:
                found = name[: -len(suffix)], other[: -len(suffix)]
                if found[0] != found[1] and found not in tried:
                    tried.add(found)
                    yield found
            if suffix in by_suffix:
                break


def _is_number(prefixes: tuple[str, str]) -> bool:
    """Whether prefixes differ by the number of a layer."""
    return all(prefix.rstrip(".").rpartition(".")[2].isdigit() for prefix in prefixes)


def _suffixes(name: str) -> Iterator[str]:
    """The name, and what is left of it after each of its first points."""
    yield name
    place = name.find(".")
    for _ in range(_MAX_POINTS):
        if place < 0:
            return
        yield name[place + 1 :]
        place = name.find(".", place + 1)


def advice_on_names(file_names: Collection[str], model_names: Collection[str]) -> str | None:
    """A sentence for names that differ by their prefixes only, or by those of torch.compile."""
    found = find_prefixes(file_names, model_names)
    if found is not None:
        which = "the names differ by a prefix only"
        if found.n_names < max(len(file_names), len(model_names)):
            which = f"{found.n_names} of the names differ by a prefix only"
        return f"{which}: {found.advice()}"
    if differ_by_compiled_parts(file_names, model_names):
        return (
            f"the names differ by the prefix `{_COMPILED}` of compiled modules only: load the file "
            "into the model before parts of it are compiled, or save the model without them"
        )
    return None


def differ_by_compiled_parts(file_names: Collection[str], model_names: Collection[str]) -> bool:
    """Whether most names differ by what torch.compile puts into them, at whatever place."""
    plain = {name.replace(_COMPILED, "") for name in model_names}
    same = sum(name.replace(_COMPILED, "") in plain for name in file_names)
    return same > 0 and 2 * same > min(len(file_names), len(model_names))
