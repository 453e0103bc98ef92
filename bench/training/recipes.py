"""How networks are trained, and other ways that were compared."""

from __future__ import annotations

from dataclasses import replace

from training.schemes import Recipe

# Float32 networks, and those that are compressed in training: the better of the rates of learning
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
# In as many epochs as those of LEARNED: network, bits per weight, name, recipe.
LONGER = (
    ("ResNet-20", 1.6, "1.6 bits, lr 1e-3", Recipe(lr=1e-3, step_lr=2e-2)),
    ("ResNet-20", 1.1, "1.1 bits, lr 1e-3", Recipe(lr=1e-3, step_lr=2e-2)),
    ("ResNet-20", 1.1, "1.1 bits, lr 2e-3", Recipe(lr=2e-3, step_lr=2e-2)),
    ("ResNet-56", 0.75, "0.75 bits, lr 4e-3", Recipe(lr=4e-3, step_lr=2e-2)),
    (
        "ResNet-56",
        0.75,
        "0.75 bits, slow fall",
        Recipe(lr=1e-3, step_lr=2e-2, bits=4, reach=0.6, snap=0.8),
    ),
)
