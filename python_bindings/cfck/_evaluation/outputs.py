"""Running a model and taking apart what it returns; the same for calibrate and evaluate."""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from .._common.text import with_article
from .._frameworks.torch_tensors import has_plain_storage
from ..errors import InvalidArgumentError

DISTANCES = ("auto", "kl", "cosine", "mse")
POOLS = ("auto", "mean", "first", "none")


@dataclasses.dataclass(frozen=True)
class Output:
    """The tensor of a model's output that counts.

    Attributes:
        values: floats.
        role: "logits" or "hidden" where the model names it so, else "plain".
        mask: which positions count, for values of three dimensions; None: all of them.
    """

    values: torch.Tensor
    role: str
    mask: torch.Tensor | None


def model_device(model: torch.nn.Module) -> torch.device | None:
    """Where the model is; None for models without tensors or on several devices."""
    devices = {tensor.device for tensor in model.parameters()}
    devices |= {tensor.device for tensor in model.buffers()}
    return devices.pop() if len(devices) == 1 else None


def moved(batch: Any, device: torch.device | None) -> Any:
    """The batch with its tensors on the device."""
    if device is None:
        return batch
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: moved(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(moved(value, device) for value in batch) if _is_plain(batch) else batch
    return batch


def prepared(batch: Any, inputs: Callable[[Any], Any] | None, device: torch.device | None) -> Any:
    """The input of the model for a batch."""
    return moved(batch if inputs is None else inputs(batch), device)


def _is_plain(batch: Any) -> bool:
    return type(batch) in (tuple, list)


def run_model(model: torch.nn.Module, batch: Any) -> Any:
    """A mapping gives keyword arguments, a tuple or list positional ones."""
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, tuple | list):
        return model(*batch)
    return model(batch)


def check_batches(batches: Any, name: str = "batches") -> None:
    """Raises InvalidArgumentError for what is no iterable of batches."""
    if isinstance(batches, torch.Tensor | Mapping | str | bytes):
        raise InvalidArgumentError(
            f"{name} is an iterable of batches, not {with_article(type(batches).__name__)}; "
            "put a single batch into a list"
        )
    if not isinstance(batches, Iterable) and not hasattr(batches, "__getitem__"):
        raise InvalidArgumentError(
            f"{name} is an iterable of model inputs, not {with_article(type(batches).__name__)}"
        )


def check_has_examples(batch: Any, position: int) -> None:
    """``position``: from 0 up, as messages name batches."""
    if count_examples(batch) == 0:
        raise InvalidArgumentError(f"batch {position} has no examples")


def check_integer(name: str, value: Any, least: int | None) -> None:
    """Raises for anything but an int that is at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is int, not {type(value).__name__}: {value!r}")
    if least is not None and value < least:
        raise InvalidArgumentError(f"{name} is at least {least}, not {value}")


def first_tensor(batch: Any) -> torch.Tensor | None:
    if isinstance(batch, torch.Tensor):
        return batch
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, tuple | list):
        for value in batch:
            tensor = first_tensor(value)
            if tensor is not None:
                return tensor
    return None


def count_examples(batch: Any) -> int:
    """The leading dimension of the first tensor of a batch."""
    tensor = first_tensor(batch)
    return int(tensor.shape[0]) if tensor is not None and tensor.dim() else 1


def first_examples(batch: Any, count: int) -> Any:
    """The first examples of a batch whose tensors all have as many; another batch as it is."""
    n_examples = count_examples(batch)
    if count >= n_examples:
        return batch

    def cut(value: Any) -> Any:
        return value[:count] if isinstance(value, torch.Tensor) else value

    def is_cut(value: Any) -> bool:
        if isinstance(value, torch.Tensor):
            return value.dim() > 0 and len(value) == n_examples
        return value is None or isinstance(value, bool | int | float | str)

    if isinstance(batch, torch.Tensor):
        return cut(batch)
    if isinstance(batch, Mapping) and all(map(is_cut, batch.values())):
        return {name: cut(value) for name, value in batch.items()}
    if type(batch) in (tuple, list) and all(map(is_cut, batch)):
        return type(batch)(map(cut, batch))
    return batch


def attention_mask(batch: Any) -> torch.Tensor | None:
    """The positions that count, as bool, where a batch says so the way transformers do."""
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if isinstance(mask, torch.Tensor) and mask.dim() == 2:
        return mask != 0
    return None


def find_output(
    returned: Any, batch: Any, choose: Callable[[Any], torch.Tensor] | None = None
) -> Output:
    """The output that counts: the choice of ``choose``, .logits, .last_hidden_state, or the first
    floating tensor."""
    if choose is not None:
        values, role = choose(returned), "plain"
        if not isinstance(values, torch.Tensor) or not values.is_floating_point():
            raise InvalidArgumentError(
                f"output= returned {type(values).__name__}, not a floating torch.Tensor"
            )
    else:
        found = _named_output(returned) or _first_floating(returned)
        if found is None:
            raise InvalidArgumentError(
                f"the model returns {type(returned).__name__} without a floating tensor; "
                "output= can select a tensor"
            )
        values, role = found
    if values.dim() == 0:
        raise InvalidArgumentError(
            "the model's output is a scalar, perhaps a loss; output= can select another tensor"
        )
    if values.dim() == 1:
        values = values.unsqueeze(1)
    mask = attention_mask(batch)
    if mask is not None and (values.dim() != 3 or mask.shape != values.shape[:2]):
        mask = None
    return Output(values, role, mask)


def _named_output(returned: Any) -> tuple[torch.Tensor, str] | None:
    for name, role in (("logits", "logits"), ("last_hidden_state", "hidden")):
        if isinstance(returned, Mapping):
            value = returned.get(name)
        else:
            value = getattr(returned, name, None)
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value, role
    return None


def _first_floating(returned: Any) -> tuple[torch.Tensor, str] | None:
    if isinstance(returned, torch.Tensor):
        return (returned, "plain") if returned.is_floating_point() else None
    if isinstance(returned, Mapping):
        returned = list(returned.values())
    elif dataclasses.is_dataclass(returned):
        returned = [getattr(returned, field.name) for field in dataclasses.fields(returned)]
    if isinstance(returned, tuple | list):
        for value in returned:
            found = _first_floating(value)
            if found is not None:
                return found
    return None


def choose_distance(model: torch.nn.Module, batch: Any, output: Any) -> str:
    """Runs the model once to find out what its output is: "kl", "cosine" or "mse"."""
    made_by_linear: list[torch.Tensor] = []
    vocabularies: set[int] = set()
    with hooks() as handles:
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                handles.append(
                    module.register_forward_hook(lambda _m, _i, made: made_by_linear.append(made))
                )
            elif isinstance(module, torch.nn.Embedding):
                vocabularies.add(module.num_embeddings)
        found = find_output(run_model(model, batch), batch, output)
    if found.role != "plain":
        return "kl" if found.role == "logits" else "cosine"
    values = found.values
    if values.dim() > 3 or values.shape[-1] < 2:
        return "mse"
    is_head = any(made is values for made in made_by_linear)
    if is_head or values.shape[-1] in vocabularies or are_distributions(values):
        return "kl"
    return "cosine"


def are_distributions(values: torch.Tensor) -> bool:
    """Probabilities or their logarithms."""
    rows = values.reshape(-1, values.shape[-1])
    if bool((rows > 0).any()) and bool((rows < 0).any()):
        return False
    rows = rows.double()
    one = torch.ones(len(rows), dtype=torch.float64, device=rows.device)
    if (rows >= 0).all():
        return bool(torch.allclose(rows.sum(1), one, atol=1e-3))
    return bool((rows <= 0).all() and torch.allclose(rows.exp().sum(1), one, atol=1e-3))


def rows_of(output: Output, distance: str, pool: str) -> torch.Tensor:
    """The output as (rows, features) in double precision."""
    return narrow_rows_of(output, distance, pool).double()


def narrow_rows_of(output: Output, distance: str, pool: str) -> torch.Tensor:
    """Likewise, in the precision of the output where nothing is averaged."""
    values = output.values
    if distance == "mse" or values.dim() == 2:
        return values.reshape(len(values), -1)
    if values.dim() > 3:
        return values.reshape(-1, values.shape[-1])
    if pool == "auto":
        pool = "mean" if distance == "cosine" else "none"
    if pool == "first":
        return values[:, 0]
    if pool == "none":
        return values[output.mask] if output.mask is not None else values.flatten(0, 1)
    values = values.double()
    if output.mask is None:
        return values.mean(1)
    weights = output.mask.double().unsqueeze(2)
    # Multiplying would let a NaN of a position that does not count through.
    kept = torch.where(output.mask.unsqueeze(2), values, 0.0)
    return kept.sum(1) / weights.sum(1).clamp(min=1)


def log_probabilities(rows: torch.Tensor, known: bool | None = None) -> torch.Tensor:
    """Log probabilities of logits, or of probabilities that a softmax has made already; ``known``:
    whether it has."""
    if are_distributions(rows) if known is None else known:
        return rows.log() if bool((rows >= 0).all()) else rows
    return rows.log_softmax(1)


def divergences(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Kullback-Leibler, in nats, row by row, of log probabilities."""
    terms = before.exp() * (before - after)
    # A class that was impossible costs nothing, whatever it has become.
    return torch.where(before == -torch.inf, 0.0, terms).sum(1)


def angles(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """1 - cosine, row by row, exact where it is small, whatever the scale of the rows. Between a
    zero row and another: 1."""
    a, b = _directions(before), _directions(after)
    zero = (a == 0).all(1) ^ (b == 0).all(1)
    return torch.where(zero, 1.0, (a - b).square().sum(1) / 2)


def _directions(rows: torch.Tensor) -> torch.Tensor:
    """Rows of length 1. Their largest entry is made 1 first: squares of it neither underflow nor
    overflow, and torch takes no row for a short one."""
    largest = rows.abs().amax(1, keepdim=True) if rows.shape[1] else rows.new_ones(len(rows), 1)
    scaled = rows / torch.where(largest == 0, 1.0, largest)
    return torch.nn.functional.normalize(scaled, dim=1)


@contextlib.contextmanager
def afterwards(restore: Callable[[], None]) -> Iterator[None]:
    """Calls ``restore`` however the context ends; twice, so that Ctrl-C cannot cut it short."""
    try:
        try:
            yield
        finally:
            restore()
    finally:
        restore()


@contextlib.contextmanager
def kept_buffers(*models: torch.nn.Module) -> Iterator[None]:
    """Afterwards buffers that the models changed when they ran, such as counters and running
    statistics, are again what they were.

    Buffers that have another shape by then stay: a cache that has grown is still right, and the
    module may know its size.
    """
    places = [
        (module, name, buffer)
        for model in models
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and _is_plain_tensor(buffer)
    ]
    saved = {id(buffer): (buffer, buffer.detach().clone()) for _, _, buffer in places}

    def restore() -> None:
        for module, name, buffer in places:
            current = module._buffers.get(name)
            if current is not None and current is not buffer and _is_alike(current, buffer):
                module._buffers[name] = buffer
        for buffer, before in saved.values():
            if _is_alike(buffer, before) and not _has_same_bits(buffer, before):
                with torch.inference_mode(buffer.is_inference()):
                    buffer.data.copy_(before)

    with afterwards(restore):
        yield


def _is_plain_tensor(tensor: torch.Tensor) -> bool:
    return (
        not torch.nn.parameter.is_lazy(tensor)
        and has_plain_storage(tensor)
        and tensor.layout == torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
    )


def _is_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)


def _has_same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """NaN is the same as itself."""
    if bool(torch.equal(one, other)):
        return True
    flat = (part.detach().contiguous().reshape(-1).view(torch.uint8) for part in (one, other))
    return torch.equal(*flat)


@contextlib.contextmanager
def undisturbed(*models: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, fused attention off (it would pass hooks by); afterwards
    everything as before, buffers and random numbers included."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    fused = torch.backends.mha.get_fastpath_enabled()
    differentiates = torch.is_grad_enabled()

    def restore() -> None:
        torch.set_grad_enabled(differentiates)
        torch.backends.mha.set_fastpath_enabled(fused)
        for module, mode in modes:
            module.training = mode

    devices = sorted(
        {
            tensor.device.index
            for model in models
            for tensor in model.parameters()
            if tensor.is_cuda and tensor.device.index is not None
        }
    )
    with torch.random.fork_rng(devices), kept_buffers(*models), afterwards(restore):
        torch.set_grad_enabled(False)
        torch.backends.mha.set_fastpath_enabled(False)
        for module, _ in modes:
            module.training = False
        yield


@contextlib.contextmanager
def hooks() -> Iterator[list[Any]]:
    """Handles of hooks go into the list; in the end they are taken off their modules."""
    handles: list[Any] = []

    def remove_all() -> None:
        while handles:
            handles[-1].remove()
            handles.pop()

    with afterwards(remove_all):
        yield handles


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidArgumentError(f"{name} is one of {', '.join(known)}, not {value!r}")
