"""Measures what calibrate, refine and shrink take and achieve: a table.

    CFCK_DATA=/path/to/data python bench calibration -o bench/results

bench/README.md says what the rows are.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from unittest import mock

import cfck
import torch
from cfck._evaluation.prefix import Prefix
from cfck.torch import load_model
from torch import nn

from common import cifar_resnet, models, report
from common.driver import Benchmark

SHRUNK_SENTENCES, OTHER_SENTENCES = 320, 200
SHRUNK_IMAGES, IMAGES_IN_BATCH = 600, 100
CALIBRATION_IMAGES, REFINING_IMAGES = 1000, 600
TEST_IMAGES = 10000
MOST_BITS = {"MiniLM": 2.9, "ResNet-20": 2.1, "ResNet-56": 2.1}
MOST_SECONDS = {"MiniLM": 360.0, "ResNet-20": 600.0, "ResNet-56": 600.0}


@dataclass(frozen=True)
class Timed:
    """The cost of an action, and its result."""

    wall: float
    processor: float
    n_calls: int  # of linear layers and convolutions
    result: Any


def timed(action: Callable[[], Any]) -> Timed:
    """Runs an action, and counts how often linear layers and convolutions ran."""
    calls = 0

    def counted(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            return forward(*given, **named)

        return run

    begin, used = time.monotonic(), time.process_time()
    with contextlib.ExitStack() as stack:
        for kind in (nn.Linear, nn.Conv2d):
            stack.enter_context(mock.patch.object(kind, "forward", counted(kind.forward)))
        result = action()
    return Timed(time.monotonic() - begin, time.process_time() - used, calls, result)


def llama() -> nn.Module:
    """15.6 million random weights in the shape of a small Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32000, hidden_size=256, intermediate_size=864, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=256,
        tie_word_embeddings=True,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def resnet44() -> nn.Module:
    """A ResNet-44 with random weights."""
    torch.manual_seed(0)
    return cifar_resnet.CifarResNet(44).eval()


class Calibration(Benchmark):
    """Seconds, layers that ran, bits and outcomes."""

    name = "calibration"
    rows: ClassVar[Mapping[str, Callable[[Calibration], None]]] = {
        "llama": lambda self: self.measure_calibrate(
            "Llama, 15.6 M, made-up tokens", llama(), None
        ),
        "resnet44": lambda self: self.measure_resnet44(),
        "minilm": lambda self: self.shrink_minilm(),
        "resnet20": lambda self: self.shrink_resnet(20),
        "resnet56": lambda self: self.shrink_resnet(56),
    }

    def __init__(self, *given: Any) -> None:
        """An empty table."""
        super().__init__(*given)
        self.costs: list[list[str]] = []
        self.shrunk: list[list[str]] = []
        self.failures: list[str] = []

    def measure_calibrate(self, what: str, model: nn.Module, batches: list[Any] | None) -> Any:
        """A calibration with whole passes, and with those that leave out what ran before."""
        return self._compare(
            f"calibrate, {what}",
            lambda: cfck.calibrate(model, batches, progress=False),
            lambda calibration: {n: t.sensitivity for n, t in calibration.items() if t.is_measured},
        )

    def measure_resnet44(self) -> None:
        """Calibration with 1,000 images, and refinement with 600."""
        model = resnet44()
        images = models.image_batches("cifar10_calibration.npz", CALIBRATION_IMAGES)[0]
        calibration = self.measure_calibrate("ResNet-44, 1,000 images", model, images)
        few = models.image_batches("cifar10_calibration.npz", REFINING_IMAGES, IMAGES_IN_BATCH)[0]
        self._compare(
            "refine, ResNet-44, 600 images",
            lambda: cfck.refine(model, few, calibration, bits_per_weight=2, progress=False),
            lambda refined: {n: t.corrected.tobytes() for n, t in refined.items()
                             if t.corrected is not None},
        )  # fmt: skip

    def _compare(
        self,
        what: str,
        action: Callable[[], Any],
        numbers: Callable[[Any], Mapping[str, Any]],
    ) -> Any:
        new = timed(action)
        self.say(f"{what}: {new.wall:.1f} s")
        with mock.patch.object(Prefix, "_keep", lambda *_: None):
            whole = timed(action)
        same = numbers(new.result) == numbers(whole.result)
        if not same:
            self.failures.append(f"{what}: results differ from those of whole passes")
        self.costs.append(
            [
                what,
                f"{whole.wall:.1f}, {new.wall:.1f}",
                f"{whole.processor:.1f}, {new.processor:.1f}",
                f"{whole.n_calls:,}, {new.n_calls:,}",
                f"{new.processor / whole.processor:.2f}, {new.n_calls / whole.n_calls:.2f}",
                "yes" if same else "NO",
            ]
        )
        return new.result

    def shrink_minilm(self) -> None:
        """To a cosine of 0.99, judged on other sentences."""
        model = models.load_minilm()
        others = models.sentence_batches(models.sentences(OTHER_SENTENCES))
        texts = models.other_sentences(SHRUNK_SENTENCES, OTHER_SENTENCES)
        batches = models.sentence_batches(texts)

        def judge(decoded: nn.Module) -> str:
            found = cfck.evaluate(model, decoded, others)
            return f"cosine {found.cosine_mean:.4f} on {found.n_examples} other sentences"

        self._shrink("MiniLM", model, {"cosine": 0.99}, batches, models.load_minilm, judge)

    def shrink_resnet(self, depth: int) -> None:
        """To a divergence of 0.05, judged on test images."""
        model = models.load_resnet(depth)
        images = models.image_batches("cifar10_calibration.npz", SHRUNK_IMAGES, IMAGES_IN_BATCH)[0]
        n_test = TEST_IMAGES // 10 if self.options.quick else TEST_IMAGES
        tests = list(zip(*models.image_batches(count=n_test), strict=True))

        def judge(decoded: nn.Module) -> str:
            found = cfck.evaluate(
                model, decoded, tests, inputs=lambda pair: pair[0], labels=lambda pair: pair[1]
            )
            points = 100 * (found.top1_change or 0.0)
            return f"KL {found.kl:.4f}, top-1 {points:+.2f} points on {n_test} test images"

        self._shrink(
            f"ResNet-{depth}", model, {"kl": 0.05}, images,
            lambda: models.load_resnet(depth), judge,
        )  # fmt: skip

    def _shrink(
        self,
        name: str,
        model: nn.Module,
        keep: dict[str, float],
        batches: list[Any],
        fresh: Callable[[], nn.Module],
        judge: Callable[[nn.Module], str],
    ) -> None:
        path = self.scratch / "small.cfck"
        used = time.process_time()
        result = cfck.shrink(model, path, keep=keep, batches=batches, report=self.say)
        used = time.process_time() - used
        decoded = fresh()
        load_model(decoded, path, strict=False)
        goal, value = next(iter(keep.items()))
        met = result.bits_per_weight <= MOST_BITS[name] and result.seconds <= MOST_SECONDS[name]
        self.shrunk.append(
            [
                name,
                f"{goal} {value:g}",
                f"{result.bits_per_weight:.3f} ({MOST_BITS[name]:g})",
                f"{result.seconds:.0f} ({MOST_SECONDS[name]:.0f}), {used:.0f}",
                f"{result.kept[goal]:.4f} on {result.n_held_back}",
                judge(decoded),
                "met" if met else "MISSED",
            ]
        )
        if not met:
            self.failures.append(f"{name}: more bits or seconds than wanted")

    def fail(self, row: str, reason: str) -> None:
        """Errors stand below the tables."""
        self.failures.append(f"{row}: {reason}")

    def failed(self) -> bool:
        """Whether a row failed or missed its target."""
        return bool(self.failures)

    def facts(self) -> dict[str, str]:
        """Threads of PyTorch."""
        return {"threads": str(torch.get_num_threads()), "cfck": cfck.__version__}

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        text = "\n".join(report.page_head("Calibration and shrinking", command, facts)) + "\n"
        if self.costs:
            columns = ["", "wall s", "processor s", "layer calls", "ratios", "same result"]
            text += "\nWhole passes, then passes that leave out what ran before:\n\n"
            text += report.markdown_table(columns, self.costs)
        if self.shrunk:
            columns = ["cfck.shrink", "keep", "bits per weight, whole file (must)",
                       "wall s (must), processor s", "kept, held back", "judged", ""]  # fmt: skip
            text += "\n" + report.markdown_table(columns, self.shrunk)
        text += "".join(f"\n- {failure}" for failure in self.failures)
        return {f"calibration-{report.file_stem(facts)}.md": text}


COMMAND = Calibration
