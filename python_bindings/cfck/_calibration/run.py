"""Calibration step by step: look at the inputs once, then disturb one tensor after another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .._common.progress import Counter, Progress
from .._evaluation.outputs import (
    afterwards,
    attention_mask,
    check_batches,
    check_has_examples,
    count_examples,
    find_output,
    first_examples,
    log_probabilities,
    model_device,
    prepared,
    rows_of,
    run_model,
    undisturbed,
)
from ..errors import InvalidArgumentError
from .calibration import Calibration
from .inputs import generate
from .moments import Accumulator, MomentHooks
from .probes import Prober
from .request import Request
from .tensor import with_steps
from .weights import Weights


def run_calibration(
    model: torch.nn.Module,
    batches: Iterable[Any] | None,
    request: Request,
    progress: Progress | None,
) -> Calibration:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"expected a torch.nn.Module as the model, not {type(model).__name__}")
    request.check(batches is not None)
    if batches is not None:
        check_batches(batches)
    weights = Weights(model)
    has_batches = batches is not None
    listens = has_batches if request.moments is None else request.moments
    with undisturbed(model):
        source = "batches"
        if batches is None:
            made = generate(model, request.n_examples, request.seed, request.input_shape)
            batches, source = made.batches, made.source
        counter = Counter(progress, len(weights.to_probe()))
        reader = _Reader(model, weights, request, listens, counter)
        kept = reader.run(batches)
        prober = Prober(model, kept, request, counter)
        measured = prober.run(weights)
    tensors = weights.describe(measured, reader.accumulators)
    return Calibration(
        with_steps(tensors, request.cap_octaves),
        distance=prober.distance_name,
        source=source,
        n_examples=sum(count_examples(batch) for batch in kept),
        n_moment_examples=reader.n_examples,
        seed=request.seed,
        cap_octaves=float(request.cap_octaves),
    )


class _Reader:
    """One pass over the batches: moments of all, and the first ones kept for the probes."""

    def __init__(
        self,
        model: torch.nn.Module,
        weights: Weights,
        request: Request,
        listens: bool,
        counter: Counter,
    ) -> None:
        self.accumulators: dict[str, Accumulator] = {}
        self.n_examples = 0
        self._model = model
        self._weights = weights
        self._request = request
        self._listens = listens
        self._counter = counter
        self._device = model_device(model)

    def run(self, batches: Iterable[Any]) -> list[Any]:
        request = self._request
        kept: list[Any] = []
        n_kept = 0
        with self._listening() as hooks:
            for number, batch in enumerate(batches, 1):
                given = prepared(batch, request.inputs, self._device)
                check_has_examples(given, number - 1)
                if n_kept < request.n_examples:
                    kept.append(self._first(given, request.n_examples - n_kept))
                    n_kept += count_examples(kept[-1])
                elif hooks is None:
                    break
                if hooks is not None:
                    self._listen(hooks, batch, given)
                self._counter.tell(f"batch {number}")
        if not kept:
            raise InvalidArgumentError("there are no batches; without any, pass batches=None")
        return kept

    def _first(self, given: Any, count: int) -> Any:
        """As many examples of a batch, where the model takes fewer than there are."""
        some = first_examples(given, count)
        if some is not given:
            try:
                torch.manual_seed(self._request.seed)
                run_model(self._model, some)
            except Exception:  # whatever a model raises for inputs that it does not take
                return given
        return some

    @contextlib.contextmanager
    def _listening(self) -> Iterator[MomentHooks | None]:
        request = self._request
        if not self._listens:
            yield None
            return
        hooks = MomentHooks(
            self._model,
            self._weights.name_of,
            request.max_dim,
            request.max_moment_bytes,
            request.loss is not None,
        )
        with hooks.listening():
            yield hooks
        self.accumulators = hooks.accumulators

    def _listen(self, hooks: MomentHooks, batch: Any, given: Any) -> None:
        n_examples = count_examples(given)
        self.n_examples += n_examples
        hooks.mask = attention_mask(given)
        torch.manual_seed(self._request.seed)
        if self._request.loss is None:
            run_model(self._model, given)
            return
        # The loss is a mean: each example's own gradient is this much larger.
        hooks.gradient_scale = float(n_examples)
        weights = self._weights.trainable()
        frozen = [tensor for tensor in weights if not tensor.requires_grad]

        def freeze() -> None:
            for tensor in frozen:
                tensor.requires_grad_(False)

        with afterwards(freeze), torch.enable_grad():
            for tensor in frozen:
                tensor.requires_grad_(True)
            loss = self._loss(run_model(self._model, given), batch, given)
            # Hooks on the way take what they need; no .grad is touched.
            torch.autograd.grad(loss, weights, allow_unused=True)

    def _loss(self, returned: Any, batch: Any, given: Any) -> torch.Tensor:
        if callable(self._request.loss):
            loss = self._request.loss(returned, batch)
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
                raise InvalidArgumentError(
                    "loss must return one number, a torch.Tensor that depends on the model's output"
                )
            return loss.reshape(())
        rows = rows_of(find_output(returned, given, self._request.output), "kl", self._request.pool)
        chances = log_probabilities(rows)
        labels = torch.multinomial(chances.detach().exp(), 1)
        # A mean over examples, not over positions: all positions of one add up.
        return -chances.gather(1, labels).sum() / count_examples(given)
