"""Calls that mypy checks and nothing runs: the types that a caller sees.

A call that must be refused has an ignore with the code of mypy's error; strict mode reports an
ignore that is not needed.
"""

from __future__ import annotations

import cfck
import cfck.numpy
import cfck.torch
import numpy as np
import torch
from typing_extensions import assert_type

Either = torch.Tensor | np.ndarray


def tensors_of_a_file_are_those_of_the_framework(path: str, framework: str) -> None:
    with cfck.safe_open(path, framework="pt") as file:
        assert_type(file, cfck.safe_open[torch.Tensor])
        assert_type(file.get_tensor("w"), torch.Tensor)
        assert_type(file.get_tensors(), dict[str, torch.Tensor])
        assert_type(file.get_slice("w"), cfck.TensorSlice[torch.Tensor])
        assert_type(file.get_slice("w")[0:3, ..., 1], torch.Tensor)
        assert_type(file.get_slice("w")[[1, 2]], torch.Tensor)
        file.get_tensor("w", out=torch.empty(3))
        file.get_tensor("w", out=np.empty(3))  # type: ignore[arg-type]
    with cfck.safe_open(path, "np", threads=2, backend="mmap") as arrays:
        assert_type(arrays.get_tensor("w"), np.ndarray)
        assert_type(arrays.get_slice("w")[np.array([True])], np.ndarray)
    with cfck.safe_open(path, framework) as unknown:
        assert_type(unknown.get_tensor("w"), Either)


def one_tensor_comes_back_as_asked(data: bytes, tensor: torch.Tensor) -> None:
    assert_type(cfck.decompress(data), np.ndarray)
    assert_type(cfck.decompress(memoryview(data), framework="pt"), torch.Tensor)
    assert_type(cfck.decompress(data, tensor), torch.Tensor)
    assert_type(cfck.compress(tensor, codec="direct", max_abs_error=1e-3), bytes)
    assert_type(cfck.compress(np.zeros(3)), bytes)
    assert_type(cfck.deserialize(data)[0][1]["data"], bytearray)
    cfck.compress([1, 2])  # type: ignore[call-overload]
    cfck.compress(tensor, codec="best")  # type: ignore[call-overload]


def options_are_known_by_name(path: str, state: dict[str, torch.Tensor]) -> None:
    cfck.torch.save_file(state, path, bits_per_weight=3, rules={"*.bias": {"codec": "raw"}})
    cfck.torch.save_file(state, path, bits_per_wait=3)  # type: ignore[call-arg]
    cfck.numpy.save_file({"a": np.zeros(3)}, path, {"key": "value"}, size="60MB")
    cfck.update(path, {"w": np.zeros(3)}, remove=["v"], max_abs_error=3)
    assert_type(cfck.torch.load_file(path, "cuda", threads=3), dict[str, torch.Tensor])
    assert_type(cfck.numpy.load_file(path, limits={"max_records": 3}), dict[str, np.ndarray])
    cfck.numpy.load_file(path, thread=3)  # type: ignore[call-arg]
    cfck.load_calibration(path, verify=True)  # type: ignore[call-arg]


def names_are_known() -> None:
    assert_type(cfck.torch.calibrate(torch.nn.Linear(3, 3)), cfck.Calibration)
    cfck.torch.save_fiel({})  # type: ignore[attr-defined]


def options_are_a_dict_too(path: str, state: dict[str, torch.Tensor], data: bytes) -> None:
    saving = cfck.SaveOptions(quality="high", rules={"*.bias": {"codec": "raw"}})
    cfck.torch.save_file(state, path, options=saving, verify=True)
    cfck.torch.save(state, options=saving)
    cfck.numpy.save_checkpoint({"a": 1}, path, options={"max_abs_error": 1e-3}, default=str)
    cfck.torch.save_file(state, path, options={"qualty": "high"})  # type: ignore[arg-type]
    cfck.torch.save_file(state, path, options=3)  # type: ignore[arg-type]
    reading = cfck.LoadOptions(threads=2, limits={"max_records": 3})
    assert_type(cfck.torch.load_file(path, options=reading), dict[str, torch.Tensor])
    assert_type(cfck.torch.load(data, options=reading), dict[str, torch.Tensor])
    cfck.safe_open(path, "pt", options=reading).keys()
    cfck.LoadOptions(thread=2)  # type: ignore[typeddict-unknown-key]
    shrinking = cfck.ShrinkOptions(confidence=0.9, inputs=lambda batch: batch[0])
    cfck.shrink(
        torch.nn.Linear(3, 3), path, keep={"cosine": 0.9}, batches=[], options=shrinking, seed=3
    )


def a_compressed_model_is_the_model(path: str, model: torch.nn.Linear, data: bytes) -> None:
    assert_type(cfck.torch.compressed(model, path), torch.nn.Linear)
    cfck.torch.compressed(model, data, strict=False, prefetch=False, threads=2)
    cfck.torch.compressed(model, path, progress=True)  # type: ignore[call-arg]
    cfck.torch.compressed({}, path)  # type: ignore[type-var]


def models_take_any_batches(
    model: torch.nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]]
) -> None:
    assert_type(cfck.calibrate(model), cfck.Calibration)
    calibration = cfck.calibrate(
        model,
        batches,
        inputs=lambda batch: batch[0],
        output=lambda returned: returned.logits,
        loss=lambda returned, batch: torch.nn.functional.cross_entropy(returned, batch[1]),
    )
    cfck.calibrate(model, batches, distance=lambda a, b: float((a - b).norm()), loss="sampled")
    calibration.check(model.state_dict())
    assert_type(calibration["w"].second_moment, np.ndarray | None)
    cfck.evaluate(model, model, batches, inputs=lambda b: b[0], labels=lambda b: b[1])
    cfck.evaluate(model, model, batches, inputs=lambda b: b[0], labels=[b[1] for b in batches])
    refined = cfck.refine(model, batches, calibration, inputs=lambda b: b[0], bits_per_weight=2)
    cfck.torch.save_model(model, "small.cfck", calibration=refined, bits_per_weight=2)
