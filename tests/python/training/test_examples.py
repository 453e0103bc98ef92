"""The examples of training, on little data of the same form."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(name: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def weights_of(module_file: str, kind: str) -> dict[str, np.ndarray]:
    scope: dict = {"__name__": "example"}
    exec((EXAMPLES / module_file).read_text(), scope)
    return {name: t.numpy() for name, t in scope[kind]().state_dict().items()}


def test_resnet(tmp_path):
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(1)
    save_file(weights_of("train_small_resnet.py", "ResNet20"), tmp_path / "resnet20.safetensors")
    pixels = random.integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    with zipfile.ZipFile(tmp_path / "cifar10_train_jpeg.zip", "w") as archive:
        for i, one in enumerate(pixels):
            jpeg = io.BytesIO()
            image.fromarray(one).save(jpeg, "JPEG")
            archive.writestr(f"train/class{i % 10}/{i:04}.jpg", jpeg.getvalue())
    np.savez(tmp_path / "cifar10_test.npz", images=pixels, labels=np.arange(40) % 10)
    told = run("train_small_resnet.py", tmp_path, "--epochs", 3, "-o", tmp_path / "small.cfck",
               "--plot", tmp_path / "curve.png")  # fmt: skip
    assert "epoch 3: top-1" in told and "the same outputs: True" in told
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_gpt(tmp_path):
    weights = weights_of("train_small_gpt.py", "Gpt")
    named = {f"model.{name}": values * np.float32(0.1) for name, values in weights.items()}
    save_file(named, tmp_path / "gpt_step01000.safetensors")
    words = np.random.default_rng(1).integers(0, 8192, 2200).astype(np.uint16)
    np.savez(tmp_path / "wikitext2_tokens.npz", train=words, valid=words[:200])
    told = run("train_small_gpt.py", tmp_path, "--epochs", 1, "--batches", 2,
               "-o", tmp_path / "small.cfck")  # fmt: skip
    assert "epoch 1: perplexity" in told and "the same outputs: True" in told
