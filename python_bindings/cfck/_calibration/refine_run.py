"""Refinement layer by layer, in the order in which they run."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from .. import _native
from .._common.progress import Counter, Progress
from .._evaluation.outputs import (
    attention_mask,
    count_examples,
    hooks,
    model_device,
    prepared,
    run_model,
    undisturbed,
)
from .._frameworks.torch_tensors import TorchFramework
from .._io.archive import Archive
from .._io.save import write_and_tell
from ..errors import InvalidArgumentError
from .calibration import Calibration
from .moments import input_columns, layer_input, pieces, where_it_counts
from .probes import Prober
from .request import Request
from .tensor import CalibratedTensor
from .weights import Weights

# All is done again at most so often with the step that corrected values need for the target.
_MOST_ROUNDS = 5
# One of so many batches is for judging.
_BATCHES_TO_JUDGE = 4
# The first step aims beyond the target, so that corrected values often meet it with the same step:
# they take somewhat fewer bits, and are somewhat further off.
_AIMS: dict[str, Callable[[Any], Any]] = {
    "nmse": lambda nmse: nmse * 0.965,
    "psnr": lambda psnr: psnr + 0.15,
    "bits_per_weight": lambda bits: bits * 1.003,
    "size": lambda size: int(size * 1.003),
}


@dataclasses.dataclass(frozen=True)
class RefineRequest:
    """The arguments of refine() that are no options of a file."""

    inputs: Callable[[Any], Any] | None
    output: Callable[[Any], torch.Tensor] | None
    pool: str
    n_examples: int | None
    damping: float


def run_refinement(
    model: nn.Module,
    batches: Iterable[Any],
    calibration: Calibration,
    request: RefineRequest,
    options: Mapping[str, Any],
    progress: Progress | None,
) -> Calibration:
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a torch.nn.Module as the model, not {type(model).__name__}")
    if calibration.source != "batches":
        raise InvalidArgumentError("feedback needs a calibration with data; give calibrate batches")
    calibration.check(
        {n: t for n, t in model.state_dict().items() if isinstance(t, torch.Tensor)},
        complete=False,
    )
    with undisturbed(model):
        kept = _first_batches(model, batches, request)
        return _Refiner(model, kept, calibration, request, options, progress).run()


def _first_batches(model: nn.Module, batches: Iterable[Any], request: RefineRequest) -> list[Any]:
    kept: list[Any] = []
    n_kept = 0
    device = model_device(model)
    for batch in batches:
        kept.append(prepared(batch, request.inputs, device))
        n_kept += count_examples(kept[-1])
        if request.n_examples is not None and n_kept >= request.n_examples:
            break
    if not kept:
        raise InvalidArgumentError("there are no batches")
    return kept


@dataclasses.dataclass(frozen=True)
class _Layer:
    """A layer of the model, and the same one of the copy that has the decoded weights."""

    name: str  # of its weight
    exact: nn.Module
    rounded: nn.Module


class _Reached(Exception):
    """A layer was; the rest of the model need not run."""


class _Refiner:
    def __init__(
        self,
        model: nn.Module,
        batches: list[Any],
        calibration: Calibration,
        request: RefineRequest,
        options: Mapping[str, Any],
        progress: Progress | None,
    ) -> None:
        self._model = model
        self._counter = Counter(progress)
        judging = batches[_BATCHES_TO_JUDGE - 1 :: _BATCHES_TO_JUDGE]
        taken = [b for i, b in enumerate(batches, 1) if i % _BATCHES_TO_JUDGE]
        self._batches = taken if judging else batches
        self._calibration = _unrefined(calibration)
        self._request = request
        self._options = dict(options)
        if progress is not None:
            self._options["progress"] = lambda done_bytes, total_bytes, name: self._counter.tell(
                name
            )
        self._framework = TorchFramework()
        self._copy = copy.deepcopy(model)
        self._weights = Weights(model)
        self._live = Weights(self._copy).tensors
        # A first guess, as long as it is not known which tensors are lossy.
        self._counter.total = len(self._layers(set(self._weights.tensors)))
        request_to_judge = _probe_request(calibration, request)
        self._prober = Prober(model, judging or batches, request_to_judge, self._counter)

    def run(self) -> Calibration:
        step, lossy = self._load(self._calibration, _aims(self._options))
        families = self._families(lossy)
        self._counter.total = sum(len(family) for family in families)
        for _ in range(_MOST_ROUNDS):
            corrected = self._correct(families, step)
            refined = self._with(corrected, step)
            found, _ = self._load(refined)
            if found == step:
                break
            step = found
        after = self._prober.distance_to(self._copy)
        step, _ = self._load(self._calibration)
        if after < self._prober.distance_to(self._copy):
            return refined
        return self._with({}, step)

    def _load(
        self, calibration: Calibration, changes: dict[str, Any] | None = None
    ) -> tuple[float, set[str]]:
        """Gives the copy what a file would decode to. The step that was found, and the tensors
        that have it."""
        state = {n: t for n, t in self._model.state_dict().items() if isinstance(t, torch.Tensor)}
        options: Any = self._options | (changes or {}) | {"calibration": calibration}
        data, summary = write_and_tell(self._framework, state, None, options)
        archive = self._read(data)
        decoded = archive.load_all(self._framework)
        for name, values in decoded.items():
            self._put(name, values)
        lossy = {name for name in archive.names() if archive.record(name).whole_file}
        return summary.step, lossy

    def _read(self, data: bytes) -> Archive:
        return Archive.from_bytes(data, {"threads": self._options["threads"], "verify": False})

    def _put(self, name: str, values: torch.Tensor) -> None:
        live = self._live.get(name)
        if live is not None:
            live.data.copy_(values)

    def _with(self, corrected: Mapping[str, np.ndarray], step: float) -> Calibration:
        tensors = {
            name: dataclasses.replace(tensor, corrected=corrected.get(tensor.tied_to or name))
            for name, tensor in self._calibration.items()
        }
        return _with_tensors(self._calibration, tensors, step)

    def _families(self, lossy: set[str]) -> list[list[_Layer]]:
        """The layers to refine, in the order in which they run, with those of the same input."""
        layers = self._layers(lossy)
        seen: list[tuple[_Layer, torch.Tensor]] = []  # inputs stay alive: none shares memory

        def listen(layer: _Layer) -> Callable[..., None]:
            def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
                given = layer_input(args, kwargs)
                if given is not None:
                    seen.append((layer, given))

            return hook

        with hooks() as handles:
            for layer in layers:
                hook = listen(layer)
                handles.append(layer.exact.register_forward_pre_hook(hook, with_kwargs=True))
            run_model(self._model, self._batches[0])
        counts = [layer.name for layer, _ in seen]
        families: list[list[_Layer]] = []
        last: tuple[Any, ...] = ()
        for layer, given in seen:
            if counts.count(layer.name) != 1:
                continue
            place = (*_place(given), _geometry(layer.exact))
            if place == last and not given.is_inference():
                families[-1].append(layer)
            else:
                families.append([layer])
            last = place
        return families

    def _layers(self, lossy: set[str]) -> list[_Layer]:
        shared = set(self._weights.tied_to.values())
        layers = []
        for exact, rounded in zip(self._model.modules(), self._copy.modules()):
            geometry = input_columns(exact)
            if geometry is None or geometry[0] != 1 or geometry[2] != 1:
                continue
            if isinstance(exact, nn.MultiheadAttention):
                continue
            weight: Any = exact.weight
            name = self._weights.name_of(weight)
            known = self._calibration.get(name) if name is not None else None
            if name is None or known is None or name not in lossy or name in shared:
                continue
            if known.second_moment is not None and known.second_moment.ndim == 3:
                layers.append(_Layer(name, exact, rounded))
        return layers

    def _correct(self, families: list[list[_Layer]], step: float) -> dict[str, np.ndarray]:
        """Values for the layers, each with those before it rounded in the copy."""
        corrected: dict[str, np.ndarray] = {}
        self._counter.done = 0
        for family in families:
            n_inputs, mixed, rounded = self._moments(family[0])
            for layer in family:
                values = self._corrected(layer.name, n_inputs, mixed, rounded)
                corrected[layer.name] = values
                self._put(layer.name, self._rounded(layer.name, values, step))
                self._counter.finish(layer.name)
        return corrected

    def _moments(self, layer: _Layer) -> tuple[int, torch.Tensor, torch.Tensor]:
        """How many inputs x the layer had; the sums of x y^T and of y y^T, y being what x has
        become in the copy."""
        n_inputs = 0
        n = input_columns(layer.exact)[1]  # type: ignore[index]
        mixed = torch.zeros((n, n), dtype=torch.float64)
        rounded = torch.zeros((n, n), dtype=torch.float64)
        for batch in self._batches:
            exact = _input_of(self._model, layer.exact, batch)
            other = _input_of(self._copy, layer.rounded, batch)
            before = _vectors(layer.exact, exact, batch)
            after = _vectors(layer.exact, other, batch)
            for x, y in zip(before, after):
                mixed += (x.T @ y).cpu()
                rounded += (y.T @ y).cpu()
                n_inputs += len(x)
            self._counter.tell(layer.name)
        return n_inputs, mixed, rounded

    def _corrected(
        self, name: str, n_inputs: int, mixed: torch.Tensor, rounded: torch.Tensor
    ) -> np.ndarray:
        """The weight w + d with the least sum of ((w + d) y - w x)^2 + l d^2, d being shrunk where
        there are few inputs."""
        weight = self._weights.tensors[name].data
        rows = weight.reshape(len(weight), -1).double().cpu()
        rows = torch.where(torch.isfinite(rows), rows, 0.0)
        n = len(rounded)
        ridge = self._request.damping * float(rounded.diagonal().mean())
        if ridge > 0 and np.isfinite(ridge):
            damped = rounded + ridge * torch.eye(n, dtype=torch.float64)
            added = torch.linalg.solve(damped, (mixed - rounded).T @ rows.T).T
            rows = rows + added * (n_inputs / (n_inputs + n))
        return rows.reshape(weight.shape).float().numpy()

    def _rounded(self, name: str, corrected: np.ndarray, step: float) -> torch.Tensor:
        """The values of a tensor that a file with this step holds."""
        known = dataclasses.replace(self._calibration[name], corrected=corrected)
        calibration = _with_tensors(self._calibration, {name: known}, step)
        # The calibration's step in place of a target, and so no codec that asks for one.
        changes = {"codec": "auto", "calibration": calibration}
        options: Any = self._options | dict.fromkeys((*_AIMS, "rules")) | changes
        tensor = self._weights.tensors[name].data
        data, _ = write_and_tell(self._framework, {name: tensor}, None, options)
        decoded: torch.Tensor = self._read(data).load_one(name, self._framework)
        return decoded


def _aims(options: Mapping[str, Any]) -> dict[str, Any]:
    """The target of the first step."""
    parsers = {"nmse": _native.parse_nmse, "psnr": _native.parse_psnr, "size": _native.parse_size}
    aims = {}
    for name, aim in _AIMS.items():
        value = options[name]
        if isinstance(value, str) and name in parsers:
            value = parsers[name](value)
        if value is not None:
            aims[name] = aim(value)
    return aims


def _unrefined(calibration: Calibration) -> Calibration:
    tensors = {n: dataclasses.replace(t, corrected=None) for n, t in calibration.items()}
    return _with_tensors(calibration, tensors, None)


def _with_tensors(
    calibration: Calibration, tensors: Mapping[str, CalibratedTensor], step: float | None
) -> Calibration:
    return Calibration(tensors, **(calibration._facts() | {"step": step}))


def _probe_request(calibration: Calibration, request: RefineRequest) -> Request:
    """The request for a Prober: the calibration's distance, unless only its caller knew it."""
    return Request(
        inputs=None,
        output=request.output,
        distance="auto" if calibration.distance == "custom" else calibration.distance,
        pool=request.pool,
        moments=False,
        loss=None,
        input_shape=None,
        n_examples=1,
        seed=calibration.seed,
        cap_octaves=calibration.cap_octaves,
        max_dim=0,
        max_moment_bytes=0,
    )


def _place(given: torch.Tensor) -> tuple[Any, ...]:
    """The memory of an input, and how often it was changed."""
    version = None if given.is_inference() else given._version
    return given.data_ptr(), given.shape, given.stride(), version


def _geometry(layer: nn.Module) -> tuple[Any, ...]:
    """Layers that agree in this take the same vectors out of an input."""
    names = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
    return (input_columns(layer), *(getattr(layer, name, None) for name in names))


def _input_of(model: nn.Module, layer: nn.Module, batch: Any) -> torch.Tensor:
    """Runs the model until it comes to the layer."""
    found: list[torch.Tensor] = []

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        given = layer_input(args, kwargs)
        if given is not None:
            found.append(given)
        raise _Reached

    with hooks() as handles, contextlib.suppress(_Reached):
        handles.append(layer.register_forward_pre_hook(hook, with_kwargs=True))
        run_model(model, batch)
    if not found:
        raise InvalidArgumentError("a layer runs for some batches only, and cannot be refined")
    return found[0]


def _vectors(layer: nn.Module, given: torch.Tensor, batch: Any) -> Iterator[torch.Tensor]:
    """The vectors that the rows of the weight are multiplied by, where a mask lets them count."""
    given = where_it_counts(layer, given, attention_mask(batch))
    for piece in pieces(layer, given, given):
        yield piece[0]
