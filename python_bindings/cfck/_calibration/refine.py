"""A last improvement of a calibration: layers make up for the errors of those before them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .._common.progress import Progress, shown
from .._evaluation.types import Batch, Pool
from .._options.kinds import RefineOptions, Unpack
from .._options.signatures import chosen, complete, takes
from ..errors import InvalidArgumentError
from .calibration import Calibration

if TYPE_CHECKING:
    import torch


@takes(RefineOptions)
def refine(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    calibration: Calibration,
    *,
    inputs: Callable[[Batch], object] | None = None,
    output: Callable[..., torch.Tensor] | None = None,
    pool: Pool = "auto",
    n_examples: int | None = None,
    damping: float = 0.02,
    progress: Progress | bool | None = None,
    options: RefineOptions | None = None,
    **fields: Unpack[RefineOptions],
) -> Calibration:
    """Lets each layer make up for what the errors of those before it do to its inputs.

    The model is encoded with feedback for the target given, and its layers are gone through in
    the order in which they run: of each, the weights are replaced by those whose outputs for the
    inputs that errors have changed come nearest to what they were, and encoded anew. Then the
    whole file is, until it meets the target with the step that all this was done with. Every
    fourth batch is left out of this: only if the decoded model's outputs for those have come
    nearer, in the calibration's distance, do the new values stay. (Of fewer than four batches all
    are used for both.)

    Save the model with the same options, and the result as calibration::

        refined = cfck.refine(model, batches, calibration, bits_per_weight=2)
        save_file(model.state_dict(), "small.cfck", calibration=refined, bits_per_weight=2)

    Without a target the refined calibration's own step is taken. With another target its values
    make up for errors that are not those made: refine again.

    Args:
        model: the model that was calibrated. It is copied, and not changed.
        batches: inputs of the model, as for calibrate(): many, and none of those that results are
            judged by. The layers' inputs should be ten times as many as they are long, or more.
            Read once, and kept.
        calibration: with second moments of data.
        inputs, output, pool: as for calibrate().
        n_examples: the model runs on so many twice for each layer, up to that layer. None: all.
        damping: added to the diagonal of the inputs' second moment, in units of its mean.
        progress: called as progress(done, total, name) after each pass of the model and while the
            file is encoded: layers that are done, layers in all (about, until the first is at
            hand), and the tensor at hand, or "batch 3" while outputs are judged; once more from
            the start if the step had to change. What it raises ends the call. None: after three
            seconds a line on stderr tells the same, if that is a terminal; True: at once, in any
            case; False: nothing does.
        options: those that the file will be saved with: a dict, or cfck.SaveOptions. One of the
            targets is needed, and steps="feedback" is the default.

    Returns:
        A calibration with ``corrected`` values of the layers that could be refined, and the
        ``step`` that they are for. Layers: Linear and convolutions with one group that run once,
        whose weights are lossy and not shared.

    Raises:
        InvalidArgumentError: no target, no batches, a calibration without second moments of data
            or of another model, what save_file raises.

    Other threads must not use the model meanwhile.
    """
    from .._evaluation.outputs import check_integer
    from .refine_run import RefineRequest, run_refinement

    checked = complete(RefineOptions, chosen(RefineOptions, options, fields))
    if all(checked[name] is None for name in ("nmse", "psnr", "bits_per_weight", "size")):
        raise InvalidArgumentError("refine needs the target that the file will be saved with")
    if checked["steps"] not in (None, "feedback"):
        raise InvalidArgumentError(f'refine is for steps="feedback", not {checked["steps"]!r}')
    if not isinstance(calibration, Calibration):
        raise TypeError(
            f"calibration is what cfck.calibrate returns, not {type(calibration).__name__}"
        )
    if n_examples is not None:
        check_integer("n_examples", n_examples, 1)
    if not 0 < damping < 1e6:
        raise InvalidArgumentError(f"damping is a positive number, not {damping}")
    request = RefineRequest(inputs, output, pool, n_examples, damping)
    with shown(progress, "refine") as listener:
        return run_refinement(
            model, batches, calibration, request, checked | {"steps": "feedback"}, listener
        )
