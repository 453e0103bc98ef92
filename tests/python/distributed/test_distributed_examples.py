"""The examples for torchrun, on two ranks, with few steps and little data of the same form."""

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from cfck.torch import load_checkpoint, load_file
from safetensors.numpy import save_file

EXAMPLES = Path(__file__).parents[3] / "examples"


def torchrun(name: str, *arguments: object) -> str:
    # A port of its own, so that several runs on one machine do not meet.
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, EXAMPLES / "distributed" / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def checkpoints(stem: Path) -> list[dict]:
    return [load_checkpoint(f"{stem}-{rank}.cfck") for rank in range(2)]


def equal(one: dict, other: dict) -> bool:
    return set(one) == set(other) and all(torch.equal(t, other[name]) for name, t in one.items())


def test_resnet20(tmp_path):
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (140, 32, 32, 3), dtype=np.uint8)
    with zipfile.ZipFile(tmp_path / "cifar10_train_jpeg.zip", "w") as archive:
        for i, one in enumerate(pixels):
            jpeg = io.BytesIO()
            image.fromarray(one).save(jpeg, "JPEG")
            archive.writestr(f"train/class{i % 10}/{i:04}.jpg", jpeg.getvalue())
    np.savez(tmp_path / "cifar10_test.npz", images=pixels[:40], labels=np.arange(40) % 10)
    stem = tmp_path / "run"
    arguments = (tmp_path, "--ratio", 0.01, "-o", stem)
    told = torchrun("resnet20.py", *arguments, "--epochs", 1)
    assert re.search(r"^top-1 [\d.]+ %; epoch 0, ratio 0\.\d+: [\d,]+ bytes sent", told), told
    first, second = checkpoints(stem)
    weights = {name for name in first["model"] if "running" not in name and "num" not in name}
    assert all(torch.equal(first["model"][name], second["model"][name]) for name in weights)
    # Each rank has not sent other values, and its file has them.
    left = [saved["gradients"]["velocity"]["conv1.weight"] for saved in (first, second)]
    assert left[0].any() and not torch.equal(*left)
    told = torchrun("resnet20.py", *arguments, "--epochs", 2, "--batches", 1, "--resume")
    assert re.match(r"top-1 [\d.]+ %; epoch 1, ", told) and checkpoints(stem)[1]["epoch"] == 2


def test_gpt_local_steps(tmp_path):
    scope: dict = {"__name__": "example"}
    exec((EXAMPLES / "train_small_gpt.py").read_text(), scope)
    weights = {f"model.{n}": 0.1 * t.numpy() for n, t in scope["Gpt"]().state_dict().items()}
    save_file(weights, tmp_path / "gpt_step01000.safetensors")
    words = np.random.default_rng(1).integers(0, 8192, 2200).astype(np.uint16)
    np.savez(tmp_path / "wikitext2_tokens.npz", train=words, valid=words[:200])
    stem = tmp_path / "run"
    told = torchrun("gpt_local_steps.py", tmp_path, "--steps", 4, "--every", 2, "-o", stem)
    lines = told.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["step 2", "step 4"]
    assert re.search(
        r"perplexity [\d.]+; 4 steps, 2 meetings: [\d,]+ bytes sent in 4 calls", lines[1]
    ), told
    first, second = checkpoints(stem)
    assert equal(first["model"], second["model"])
    assert not equal(first["local"]["residual"], second["local"]["residual"])


def test_gpt_local_steps_needs_no_files(tmp_path):
    told = torchrun("gpt_local_steps.py", "--steps", 1, "--every", 1, "-o", tmp_path / "run")
    assert told.startswith("step 1: perplexity ")
    first, second = checkpoints(tmp_path / "run")
    assert equal(first["model"], second["model"])


def test_fsdp2(tmp_path):
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(getattr(fsdp, "FSDPModule", None), "set_custom_reduce_scatter"):
        pytest.skip("FSDP2 of torch 2.8 or newer")
    told = torchrun("fsdp2.py", "--steps", 3, "-o", tmp_path / "gpt.cfck")
    assert re.search(r"^step 3: loss [\d.]+$", told, re.M), told
    assert re.search(r"^weights: [\d,]+ bytes sent in \d+ calls, \d+\.\d%", told, re.M)
    assert re.search(r"^gradients: [\d,]+ bytes sent", told, re.M)
    assert re.search(r"gpt\.cfck: [\d,]+ bytes, loss [\d.]+$", told, re.M)
    assert load_file(tmp_path / "gpt.cfck")["wte.weight"].shape == (8192, 128)
