"""How networks are trained, and other ways that were compared."""

from __future__ import annotations

from dataclasses import dataclass, replace

from training.schemes import Recipe

# Float32 networks, and those that are compressed in training: the better of the learning rates
# that were tried for each; the float32 ResNet-56 has that of ResNet-20.
PLAIN = {"ResNet-20": Recipe(lr=1e-3), "ResNet-56": Recipe(lr=1e-3), "GPT": Recipe(lr=2e-3)}
LEARNED = {
    "ResNet-20": Recipe(lr=4e-3, step_lr=2e-2),
    "ResNet-56": Recipe(lr=1e-3, step_lr=2e-2),
    "GPT": Recipe(lr=2e-3, step_lr=2e-2),
}
FEW_LEVELS = Recipe(lr=2e-3)

# In a few epochs of ResNet-20, to COMPARED_RATE bits per weight.
COMPARED_EPOCHS = 3
COMPARED_RATE = 1.0
_SLOW = Recipe(lr=1e-3, step_lr=1e-2, snap=0.9)
FAST = Recipe(lr=3e-3, step_lr=1e-2, snap=0.9)
_FAST_STEPS = replace(FAST, bits=3.0, step_lr=3e-2, reach=0.1)
COMPARED = {
    "slopes": _SLOW,
    "curvature": replace(_SLOW, options={"batch_size": 128}),
    "steps not learned": replace(_SLOW, bits=2.5, options={"learn": ("weights",)}),
    "early target": replace(_SLOW, bits=3.0, reach=0.1),
    "lr 2e-3 and slow steps": Recipe(lr=2e-3, step_lr=5e-3, snap=0.9),
    "lr 3e-3": FAST,
    "lr 3e-3 and slow steps": replace(FAST, step_lr=3e-3, reach=0.1),
    "lr 3e-3 and fast steps": _FAST_STEPS,
    "lr 3e-3, fast steps, batches of 64": replace(_FAST_STEPS, batch=64),
    "lr 3e-3, fast steps, rows": replace(
        _FAST_STEPS, options={"fields": ("bands", "columns", "rows")}
    ),
    "lr 3e-3, no transform": replace(FAST, reach=0.1, options={"block": (1, 1)}),
    "lr 6e-3": replace(FAST, lr=6e-3, reach=0.1),
}


@dataclass(frozen=True)
class Run:
    """A run of a network for a rate, in bits per weight; without one of the float32 network."""

    data: str
    epochs: int
    rate: float | None
    recipe: Recipe
    remark: str = ""
    teacher: str | None = None  # the float32 network of that name
    teacher_epochs: int | None = None  # that it was trained for; None: as many

    def is_like(self, other: Run) -> bool:
        """Whether only the recipes differ."""
        return replace(self, recipe=other.recipe, remark=other.remark) == other

    @property
    def label(self) -> str:
        """As it is called in tables."""
        parts = ["float32" if self.rate is None else f"{self.rate:g} bits"]
        if self.teacher_epochs is not None:
            parts.append(f"taught by {self.teacher} of {self.teacher_epochs} epochs")
        elif self.teacher is not None:
            parts.append("taught" if self.teacher == self.data else f"taught by {self.teacher}")
        return ", ".join([*parts, self.remark] if self.remark else parts)


TAUGHT = {
    "ResNet-20": (
        Run("ResNet-20", 10, 1.6, LEARNED["ResNet-20"], teacher="ResNet-20"),
        Run("ResNet-20", 10, 1.6, LEARNED["ResNet-20"], teacher="ResNet-56"),
    ),
    "ResNet-56": (
        Run("ResNet-56", 6, 0.75, LEARNED["ResNet-56"], teacher="ResNet-56"),
        Run("ResNet-56", 6, 0.745, LEARNED["ResNet-56"], teacher="ResNet-56", teacher_epochs=10),
    ),
}
_MEDIUM = Recipe(lr=2e-3, step_lr=2e-2)
_GENTLE = Recipe(lr=1e-3, step_lr=2e-2)
LONGER = (
    Run("ResNet-20", 10, 2.2, _MEDIUM, "lr 2e-3"),
    Run("ResNet-20", 10, 1.6, _GENTLE, "lr 1e-3"),
    Run("ResNet-20", 10, 1.1, _GENTLE, "lr 1e-3"),
    Run("ResNet-20", 10, 1.1, _MEDIUM, "lr 2e-3"),
    Run("ResNet-56", 10, None, PLAIN["ResNet-56"]),
    Run("ResNet-56", 10, 0.745, LEARNED["ResNet-56"], teacher="ResNet-56"),
    Run("ResNet-56", 6, 0.75, LEARNED["ResNet-20"], "lr 4e-3"),
    Run("ResNet-56", 6, 0.75, replace(_GENTLE, bits=4, reach=0.6, snap=0.8), "slow fall"),
)
