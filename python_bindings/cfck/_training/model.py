"""A model whose weights are trained as a file will have them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from .._common.progress import Counter, Progress, shown
from .._evaluation.outputs import check_batches
from .._io.module_versions import with_versions
from .._io.save import write_stored
from .._io.summary import SaveSummary
from ..errors import InvalidArgumentError
from . import files
from .aim import octaves_to_rate
from .contents import file_sources, file_steps, originals, plain_state, plain_tensors
from .modes import outside_inference_mode
from .names import plain_name, refuse_wrappers, without_compiler
from .norms import reestimate_norms
from .places import (
    Place,
    check_finite,
    check_kinds,
    check_places,
    check_present,
    find_places,
    unchanged_if_failing,
)
from .target import Target
from .training_warnings import warn_of_dead_weights, warn_of_early_snap, warn_of_result
from .trellis import check_states, n_trials, try_trellises
from .weight import FileSteps

# Frequency tables are fitted anew at every so many calls of bits_per_weight(), and as soon as the
# bits of the weights have moved by such a part of all: an estimate that moves by 10 % can be off by
# 6 % (tests/python/training/test_rate.py).
FIT_INTERVAL = 20
FIT_MOVEMENT = 0.02


class SpectralModel:
    """The handle of a model in training, which cfck.train.spectral returns.

    The model is parametrised in place: its weights are values that a file decodes to, and their
    originals and the steps are what optimizers change. All that training has found is in the state
    dict of the model, but for the target and its multiplier: see training_state_dict().

    Args:
        model: one that cfck.train.spectral has changed, or a copy of it.

    Raises:
        InvalidArgumentError: no weight of the model is compressed; something other than
            torch.compile wraps it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = without_compiler(model)
        refuse_wrappers(self.model)
        self._all_places = find_places(self.model)
        if not self._all_places:
            raise InvalidArgumentError(
                "no weight of the model is compressed; call spectral() first"
            )
        self._target: Target | None = None
        self._n_values = sum(tensor.numel() for _, tensor in self._counted())
        # Steps of training, rates and weights of the rate, from rate_loss().
        self.history: list[tuple[int, float, float]] = []

    def parameters(self) -> Iterator[nn.Parameter]:
        """The steps alone, those of tied weights once."""
        for place in self._places:
            yield from place.weight.steps()

    def param_groups(
        self, lr: float, step_lr: float | None = None, weight_decay: float | None = None
    ) -> list[dict[str, Any]]:
        """Disjoint groups for an optimizer: what the model had, and the steps.

        Args:
            lr: of weights, biases and the like.
            step_lr: of steps, which are log2; None: ten times ``lr``. They have no weight decay.
                Those that snap() has rounded are listed as well, so that the state of an optimizer
                can be loaded after that of the training.
            weight_decay: of the first group; None: that of the optimizer.
        """
        steps = {id(p) for p in self.parameters()}
        rest = [p for p in self.model.parameters() if id(p) not in steps and p.requires_grad]
        first: dict[str, Any] = {"params": rest, "lr": lr}
        if weight_decay is not None:
            first["weight_decay"] = weight_decay
        learned = [p for place in self._places for p in place.weight.learned_steps()]
        step_lr = 10 * lr if step_lr is None else step_lr
        groups = [first, {"params": learned, "lr": step_lr, "weight_decay": 0.0}]
        return [group for group in groups if group["params"]]

    def bits_per_weight(self) -> torch.Tensor:
        """Bits for each value of all float tensors of two or more dimensions, differentiable.

        Each coefficient counts with the cost of its level in the frequency table that codes it, and
        each record with what it has beside coefficients. Both are fitted to an encoded record at
        every 20th call, and where the estimate has moved by 2 % since; lossless tensors count with
        what they took then. Without gradients, as under torch.no_grad(), and after finish() it is
        the rate of a file, and nothing is fitted: such calls do not change the training.
        """
        if self.is_finished or not torch.is_grad_enabled():
            return torch.tensor(self._rate_of_file(), dtype=torch.float32, device="cpu")
        n_calls = int(self._of_model[0])
        if n_calls % FIT_INTERVAL == 0:
            self.fit_rate()
        self._of_model[0] += 1
        bits = self._bits_of_places()
        if self._have_moved(bits):
            self.fit_rate()
            bits = self._bits_of_places()
        rate: torch.Tensor = (bits.sum() + float(self._of_model[1])) / self._n_values
        return rate.float()

    def _bits_of_places(self) -> torch.Tensor:
        return torch.stack([p.weight.bits(p.original()).cpu() for p in self._places])

    def _have_moved(self, bits: torch.Tensor) -> bool:
        """Whether bits are far from those of the last fit."""
        fitted = torch.stack([place.weight.fitted_bits for place in self._places]).cpu()
        moved = (bits.detach().double() - fitted).abs().sum()
        return bool(moved > FIT_MOVEMENT * fitted.sum())

    @outside_inference_mode
    def fit_rate(self) -> float:
        """Fits the estimate to the weights as they are; returns the bits per weight of a file."""
        if self.is_finished:
            return float(self._of_model[2])
        check_finite(self._places)
        before = [float(place.weight.fitted_bits) for place in self._places]
        stored: float = sum(self._map(lambda place: place.weight.fit_rate(place.original())))
        self._of_model[1] = self._lossless_bits()
        warn_of_dead_weights(self._places, before)
        return (stored + float(self._of_model[1])) / self._n_values

    def _rate_of_file(self) -> float:
        """The bits per weight of a file of the weights as they are. Fits nothing."""
        if self.is_finished:
            return float(self._of_model[2])
        check_finite(self._places)
        stored = sum(self._map(lambda place: place.weight.stored_bits(place.original())))
        return (stored + self._lossless_bits()) / self._n_values

    def target(self, bits_per_weight: float, by: int) -> None:
        """Sets the size that is to be reached within ``by`` calls of rate_loss().

        Raises:
            InvalidArgumentError: an argument that is not positive; a rate that lossless tensors
                exceed alone; finish() was called.
        """
        self._check_unfinished()
        target = Target(bits_per_weight, by)
        least = self._lossless_bits() / self._n_values
        if bits_per_weight <= least:
            raise InvalidArgumentError(
                f"weights that stay lossless take {least:.3f} bits per weight of the model alone: "
                "ask for more, or have them compressed too (include, exclude)"
            )
        self._target = target

    def rate_loss(self) -> torch.Tensor:
        """The rate times a weight that is found in training, so that target() is reached.

        To be added to the loss of the task, once in each step of training. The rate falls
        geometrically to the target and is kept there: the weight grows while the rate is above what
        is wanted by then, and shrinks while it is below.

        Raises:
            InvalidArgumentError: target() was not called, or finish() was.
        """
        self._check_unfinished()
        if self._target is None:
            raise InvalidArgumentError("call target() first: rate_loss() needs a size to reach")
        rate = self.bits_per_weight()
        known = float(rate.detach())
        weight = self._target.advance(known)
        self.history.append((self._target.step, known, weight))
        return weight * rate

    def describe(self) -> str:
        """A line for a log: the rate of a file as the weights are, and the last weight of it.

        It does not change the training.
        """
        line = f"{self._rate_of_file():.3f} bits per weight"
        if self._target is not None:
            weight = self.history[-1][2] if self.history else self._target.multiplier
            line += (
                f", target {self._target.bits_per_weight:g} by step {self._target.by}"
                f" (at {self._target.step}), rate weight {weight:.4g}"
            )
        return line

    @outside_inference_mode
    def snap(self) -> None:
        """Rounds the steps to those of a file and ends learning them; weights are trained on.

        After target() all steps that were learned are multiplied by one factor between 1/4 and 4,
        so that the rate is the one wanted by then: from step ``by`` on the target. It may still
        fall as weights are trained on. If this fails or is interrupted, steps are what they were.

        Raises:
            FloatingPointError: a weight or a step is not finite.
            InvalidArgumentError: layers or parametrisations were changed since spectral().
        """
        # Loops call this at every step: of those that are snapped nothing is kept.
        unsnapped = [p.weight for p in self._places if not bool(p.weight.is_snapped)]
        before = [(weight, weight.kept_steps()) for weight in unsnapped]
        try:
            learned = self._snap_steps()
            if self._target is not None and self._target.step > 0 and learned:
                self._scale_steps(learned, self._target.wanted())
                warn_of_early_snap(self._target)
        except BaseException:
            for weight, steps in before:
                weight.undo_snap(steps)
            raise

    @outside_inference_mode
    def finish(
        self,
        evaluate: Callable[[nn.Module], float] | None = None,
        *,
        trellis_states: Iterable[int] = (8,),
        norm_batches: Iterable[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> None:
        """Gives the weights the values that a file has; they are no longer trained.

        Args:
            evaluate: returns how good the model is, more being better, in evaluation mode. With it
                the weights are quantised by trellises as well, at no more bytes, and the best kept.
            trellis_states: the trellises that are tried, of 4, 8 or 64 states.
            norm_batches: inputs of the model, on which the statistics of batch norms are measured
                anew; at least one.
            progress: called as progress(done, total, name), of evaluations and encoded files; None:
                a line on stderr, if that is a terminal; True: in any case; False: nothing.

        If this fails, also in ``evaluate``, ``progress`` or on ``norm_batches``, the model is as
        it was, and can be trained on; but steps are snapped.

        Raises:
            FloatingPointError: a weight or a step is not finite, or statistics of batch norms.
            InvalidArgumentError: layers or parametrisations were changed since spectral();
                ``evaluate`` returned NaN; other ``trellis_states``.
            TypeError: ``evaluate`` is no function, or does not return a number.
        """
        states = check_states(trellis_states)
        if evaluate is not None and not callable(evaluate):
            raise TypeError(f"evaluate is called with the model; it is {evaluate!r}")
        learned = self._snap_steps()
        changes = evaluate is not None or norm_batches is not None
        with (
            shown(progress, "finish") as listener,
            unchanged_if_failing(self.model) if changes else nullcontext(),
        ):
            counter = Counter(listener, 1 if evaluate is None else 1 + n_trials(states))
            if norm_batches is not None:
                counter.tell("measuring statistics of batch norms")
                check_batches(norm_batches)
                norm_batches = list(norm_batches)
                reestimate_norms(self.model, norm_batches)
            if evaluate is not None:
                try_trellises(self.model, self._places, states, evaluate, norm_batches, counter)
            counter.tell("encoding")
            rate = self._rate_of(self._encoded(only_tensors=True).data)
            counter.finish("encoded")
        self._of_model[2] = rate
        self._hold_weights_if_finished()
        warn_of_result(self._places, rate, self._target, snapped_before=not learned)

    @property
    def is_finished(self) -> bool:
        """Whether finish() has been called."""
        return float(self._of_model[2]) > 0

    def state_dict(self) -> dict[str, Any]:
        """The state dict of the plain model, weights as a file has them."""
        return plain_state(self.model, self._places)

    def training_state_dict(self) -> dict[str, Any]:
        """All that training needs to go on bit for bit, beside the optimizer's state."""
        return {
            "model": self.model.state_dict(),
            "target": self._target.state_dict() if self._target else None,
            "history": list(self.history),
        }

    @outside_inference_mode
    def load_training_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what training_state_dict() has returned, for a model made in the same way.

        Raises:
            InvalidArgumentError: a state of something else. The model stays as it is.
        """
        try:
            of_model, of_target = state["model"], state["target"]
            target = Target(**of_target) if of_target else None
            history = [(int(step), float(rate), float(w)) for step, rate, w in state["history"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"this is not what training_state_dict() returns: {error}"
            ) from None
        try:
            check_kinds(self.model, of_model)
            with unchanged_if_failing(self.model):
                self.model.load_state_dict(of_model)
                for place in self._places:
                    place.weight.check_state(place.name, place.original())
        except (RuntimeError, TypeError, AttributeError) as error:
            raise InvalidArgumentError(f"this is a state of another model: {error}") from None
        self._target, self.history = target, history
        self._hold_weights_if_finished()

    def save(
        self,
        filename: str | os.PathLike[str],
        metadata: Mapping[str, str] | None = None,
        **options: Any,
    ) -> SaveSummary:
        """Saves the model to a file that decodes to just these weights, which is checked.

        Snaps the steps if that was not done.

        Args:
            filename, metadata: as of cfck.torch.save_file.
            options: chunk_elems, threads, entropy, level, progress, verify, fsync and replace_base,
                as there.

        Raises:
            InvalidArgumentError: another option: how tensors are stored, training has chosen.
            CfckError: the file would not decode to these weights; and as save_file.
            FloatingPointError: a weight is not finite.
        """
        self._snap_steps()
        complete = with_versions(metadata, self.model.state_dict(keep_vars=True))
        encoded = self._encoded(complete, options)
        write_stored(encoded.data, filename, complete, options)
        return encoded.summary

    def to_bytes(self, metadata: Mapping[str, str] | None = None, **options: Any) -> bytes:
        """The file of save() in memory."""
        self._snap_steps()
        complete = with_versions(metadata, self.model.state_dict(keep_vars=True))
        return self._encoded(complete, options).data

    @outside_inference_mode
    def remove(self) -> nn.Module:
        """Makes the model a plain one with the weights that it has, and returns it.

        After snap(), finish() or save() they are those of a file. What was interrupted is completed
        by another call.
        """
        for place in list(self._places):
            place.remove()
            self._all_places.remove(place)
        return self.model

    def file_steps(self) -> dict[str, FileSteps]:
        """The steps of each weight as the file has them, by name. Requires: they are snapped."""
        return file_steps(self._places)

    def _hold_weights_if_finished(self) -> None:
        for place in self._places:
            if self.is_finished:
                place.weight.hold(place.original())
            else:  # any more: a state of before was loaded
                place.weight.let_go(place.original())

    def _snap_steps(self) -> list[Place]:
        """Returns the weights whose steps were learned until now; changes none of a model that
        cannot be a file."""
        check_places(self.model, self._places)
        check_finite(self._places)
        learned = []
        for place in self._places:
            if not bool(place.weight.is_snapped):
                place.weight.snap()
                if place.weight.learns_steps:
                    learned.append(place)
        return learned

    def _scale_steps(self, places: list[Place], wanted: float) -> None:
        before = [place.weight.scale.detach().clone() for place in places]

        def rate_at(octaves: float) -> float:
            for place, scale in zip(places, before, strict=True):
                place.weight.set_scale(scale + octaves)
            return self.fit_rate()

        octaves_to_rate(rate_at, wanted)

    def _check_unfinished(self) -> None:
        if self.is_finished:
            raise InvalidArgumentError(
                "finish() was called: the weights have the values of a file, and their rate stays"
            )

    def _map(self, function: Callable[[Place], float]) -> list[float]:
        """The function of each weight, on as many threads as PyTorch has."""
        if torch.get_num_threads() == 1:
            return [function(place) for place in self._places]
        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            return list(threads.map(function, self._places))

    def _lossless_bits(self) -> float:
        """Of the weights that are not compressed."""
        names = {name for place in self._places for name in place.names}
        lossless = {name: t for name, t in self._plain_tensors() if name not in names}
        if not lossless:
            return 0.0
        return float(sum(files.stored_bits(files.encode(lossless, {}).data).values()))

    def _encoded(
        self,
        metadata: Mapping[str, str] | None = None,
        options: Any = None,
        only_tensors: bool = False,
    ) -> files.Encoded:
        """A file that decodes to the model, or to its tensors."""
        places = self._places
        state = (plain_tensors if only_tensors else plain_state)(self.model, places)
        return files.encode_exactly(
            state,
            file_sources(state, places),
            originals(places),
            file_steps(places),
            metadata,
            options,
        )

    def _rate_of(self, data: bytes) -> float:
        stored = files.stored_bits(data)
        return sum(stored[name] for name, _ in self._counted()) / self._n_values

    def _plain_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Originals and all else that counts as weights, by their names in the plain model."""
        for name, tensor in self.model.state_dict().items():
            plain = plain_name(name)
            is_weight = isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
            if plain is not None and is_weight and tensor.dim() >= 2:
                yield plain, tensor

    def _counted(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The plain tensors, tied weights once."""
        again = {name for place in self._places for name in place.names[1:]}
        return ((name, t) for name, t in self._plain_tensors() if name not in again)

    @property
    def _places(self) -> list[Place]:
        check_present(self._all_places)
        return self._all_places

    @property
    def _of_model(self) -> torch.Tensor:
        return self._places[0].weight.of_model

    @property
    def places(self) -> list[Place]:
        """The weights, in the order of the model."""
        return self._places
