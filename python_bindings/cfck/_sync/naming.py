"""Names of a version and of a model that differ by what wraps a module."""

from __future__ import annotations

from collections.abc import Collection

from .._common.text import printable
from .._io.prefixes import differ_by_compiled_parts, find_prefixes


def advice_on_versions(version_names: Collection[str], model_names: Collection[str]) -> str | None:
    """A clause that says which prefix differs and what to do about it; None: the names differ
    otherwise."""
    found = find_prefixes(version_names, model_names)
    if found is None:
        if differ_by_compiled_parts(version_names, model_names):
            return (
                "the names differ by the `_orig_mod.` of torch.compile: publish and follow the "
                "modules that were compiled, or compile them in place (module.compile())"
            )
        return None
    in_version, in_model = printable(found.in_file), printable(found.in_model)
    if not in_version:
        said = f"the names of the model begin with `{in_model}`, and those of the version do not"
        return said + _or_nothing(": give poll() {}", found.in_model)
    if not in_model:
        said = f"the names of the version begin with `{in_version}`, and those of the model do not"
        return said + _or_nothing(": publish {}.state_dict()", found.in_file)
    return (
        f"the names of the version begin with `{in_version}`, and those of the model with "
        f"`{in_model}`: publish and follow the same module"
    )


def _or_nothing(way: str, prefix: str) -> str:
    """What to do with the module inside, if the prefix names one, as code would."""
    parts = prefix.removesuffix(".").split(".")
    return way.format(f"model.{'.'.join(parts)}") if all(map(str.isidentifier, parts)) else ""
