"""A chain of checkpoints in a folder."""

import cfck.numpy
import numpy as np


def save_chain(folder):
    """Saves step0.cfck to step2.cfck, each but the first stored against the one before. Returns
    their paths, each with its arrays."""
    rng = np.random.default_rng(0)
    arrays = {"a": rng.standard_normal((600, 500)).astype(np.float16), "b": rng.random(900)}
    saved = []
    for step in range(3):
        path = folder / f"step{step}.cfck"
        base = folder / f"step{step - 1}.cfck" if step else None
        cfck.numpy.save_file(arrays, path, base=base, verify=True)
        saved.append((path, {name: array.copy() for name, array in arrays.items()}))
        bits = arrays["a"].view(np.uint16)
        bits[rng.random(bits.shape) < 0.02] ^= 1
    return saved
