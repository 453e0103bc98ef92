"""numpy arrays in the tree of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._common.text import with_article
from .plain import NotStorable, expect_text, type_name
from .skeleton_writer import AddTensor


class ArrayValues:
    """Encodes and decodes arrays; numpy scalars are plain values."""

    kind = "numpy"
    record_tags = ("array",)
    value_tags: Mapping[str, Callable[[Any], Any]] = {}
    container_tags: Mapping[str, Callable[[list[Any]], Any]] = {}

    def encode(self, value: Any, add: AddTensor) -> Any | None:
        if not isinstance(value, np.ndarray):
            return None
        if type(value) is not np.ndarray:
            raise NotStorable(
                f"is {with_article(type_name(value))}; store np.asarray(x), and a mask separately"
            )
        if value.dtype.kind in "OSUVMm" and value.dtype.isbuiltin != 2:
            raise NotStorable(
                f"is an array of dtype {value.dtype}, which files cannot store; store x.tolist(), "
                "or convert it"
            )
        return {"array": add(value)}

    def record_name(self, tag: str, content: Any) -> str:
        return expect_text(content)

    def finish(self, tag: str, content: Any, tensor: Any) -> Any:
        return tensor
