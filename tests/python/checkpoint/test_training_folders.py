"""Folders in which training programs leave their state are converted with all that is in them."""

import os
import random
import subprocess

import numpy as np
import pytest
import torch
from cfck.torch import load_checkpoint, load_file
from conftest import weights
from trees import assert_equal, trained


def convert(source, target, *options):
    return subprocess.run(
        ["cfck", "convert", "--verify", *options, source, target],
        check=True, capture_output=True, text=True,
    )  # fmt: skip


def files_below(folder):
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(map(os.fspath, found))


def lightning_checkpoint(epoch):
    """A checkpoint with the keys that Lightning writes."""
    model, optimizer, scheduler = trained()
    progress = {"ready": epoch, "completed": epoch}
    return {
        "epoch": epoch,
        "global_step": 4 * epoch,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": model.state_dict(prefix="net."),
        "loops": {"fit_loop": {"epoch_progress": {"total": progress, "current": dict(progress)}}},
        "callbacks": {"EarlyStopping{'monitor': 'loss'}": {"best_score": torch.tensor(0.5)}},
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [scheduler.state_dict()],
        "hparams_name": "kwargs",
        "hyper_parameters": {"width": 96, "betas": (0.9, 0.99)},
    }


def lay_out_lightning(folder):
    """A folder of a Trainer with a logger."""
    checkpoints = folder / "lightning_logs" / "version_0" / "checkpoints"
    checkpoints.mkdir(parents=True)
    for epoch in range(2):
        torch.save(
            lightning_checkpoint(epoch), checkpoints / f"epoch={epoch}-step={4 * epoch}.ckpt"
        )
    torch.save(lightning_checkpoint(1), checkpoints / "last.ckpt")
    (checkpoints.parent / "hparams.yaml").write_text("width: 96\n")
    (checkpoints.parent / "metrics.csv").write_text("epoch,loss\n0,0.5\n")


def lay_out_accelerate(folder):
    """A folder of ``Accelerator.save_state(..., safe_serialization=False)``."""
    folder.mkdir()
    model, optimizer, scheduler = trained()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    torch.save(optimizer.state_dict(), folder / "optimizer.bin")
    torch.save(scheduler.state_dict(), folder / "scheduler.bin")
    torch.save({"mean": weights(8), "n": 3}, folder / "custom_checkpoint_0.pkl")
    states = {
        "step": 3,
        "random_state": random.getstate(),
        "numpy_random_seed": np.random.get_state(),  # noqa: NPY002 (what accelerate saves)
        "torch_manual_seed": torch.get_rng_state(),
    }
    torch.save(states, folder / "random_states_0.pkl")


def check_lightning(source, target):
    """Converts the folder, and asserts that each checkpoint is the one it was."""
    said = convert(source, target)
    originals = [name for name in files_below(source) if name.endswith(".ckpt")]
    assert len(originals) >= 3
    converted = [name.removesuffix(".ckpt") + ".cfck" for name in originals]
    others = sorted(set(files_below(source)) - set(originals))
    assert files_below(target) == sorted(converted + others)
    for name in others:
        assert f"{name} ({(source / name).stat().st_size} B)" in said.stdout
        assert (target / name).read_bytes() == (source / name).read_bytes()
    for before, after in zip(originals, converted, strict=True):
        expected = torch.load(source / before, map_location="cpu", weights_only=True)
        assert_equal(load_checkpoint(target / after), expected)
    subprocess.run(["cfck", "verify", "--deep", target], check=True, capture_output=True)


def check_accelerate(source, target):
    """Converts the folder, and asserts that model, optimizer and own objects are what they were."""
    said = convert(source, target)
    copied = ["random_states_0.pkl", "scheduler.bin"]
    kept = ["custom_checkpoint_0.cfck", "model.cfck", "optimizer.cfck"]
    assert files_below(target) == sorted(kept + copied)
    assert "2 other files copied unchanged: random_states_0.pkl (" in said.stdout
    assert "scheduler.bin (" in said.stdout
    assert "2 files of training state converted, without loss" in said.stderr
    for before, after in (
        ("optimizer.bin", "optimizer.cfck"),
        ("custom_checkpoint_0.pkl", "custom_checkpoint_0.cfck"),
    ):
        expected = torch.load(source / before, weights_only=True)
        assert_equal(load_checkpoint(target / after), expected)
    assert_equal(dict(load_file(target)), dict(load_file(source)))
    subprocess.run(["cfck", "verify", "--deep", target], check=True, capture_output=True)


def test_a_folder_as_lightning_lays_it_out(tmp_path):
    lay_out_lightning(tmp_path / "run")
    check_lightning(tmp_path / "run", tmp_path / "run-cfck")


def test_a_folder_as_accelerate_lays_it_out(tmp_path):
    lay_out_accelerate(tmp_path / "run")
    check_accelerate(tmp_path / "run", tmp_path / "run-cfck")


def test_checkpoints_below_a_model_are_converted_too(tmp_path):
    lay_out_lightning(tmp_path / "run")
    torch.save(trained()[0].state_dict(), tmp_path / "run" / "pytorch_model.bin")
    convert(tmp_path / "run", tmp_path / "out")
    assert (tmp_path / "out" / "model.cfck").is_file()
    last = "lightning_logs/version_0/checkpoints/last"
    expected = torch.load(tmp_path / "run" / f"{last}.ckpt", weights_only=True)
    assert_equal(load_checkpoint(tmp_path / "out" / f"{last}.cfck"), expected)


def test_options_apply_to_checkpoints_but_not_to_their_optimizers(tmp_path):
    lay_out_lightning(tmp_path / "run")
    convert(tmp_path / "run", tmp_path / "out", "--max-sigma-error", "0.01")
    for path in sorted((tmp_path / "out").rglob("*.cfck")):
        original = (tmp_path / "run" / path.relative_to(tmp_path / "out")).with_suffix(".ckpt")
        expected, loaded = torch.load(original, weights_only=True), load_checkpoint(path)
        for name in ("net.0.weight", "net.2.weight"):
            before, after = expected["state_dict"][name], loaded["state_dict"][name]
            assert 0 < (before - after).abs().max() <= 0.01 * before.std()
            expected["state_dict"][name] = after
        assert_equal(loaded, expected)


def test_checkpoints_that_need_code_are_copied_and_named(tmp_path):
    lay_out_lightning(tmp_path / "run")
    checkpoints = tmp_path / "run" / "lightning_logs" / "version_0" / "checkpoints"
    with_code = {**lightning_checkpoint(2), "hyper_parameters": random.Random(1)}
    torch.save(with_code, checkpoints / "code.ckpt")
    said = convert(tmp_path / "run", tmp_path / "out")
    copied = tmp_path / "out" / (checkpoints / "code.ckpt").relative_to(tmp_path / "run")
    assert copied.read_bytes() == (checkpoints / "code.ckpt").read_bytes()
    assert "code.ckpt (" in said.stdout


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning")

    class Net(lightning.LightningModule):
        def __init__(self, width=96, betas=(0.9, 0.99)):
            super().__init__()
            self.save_hyperparameters()
            self.net = trained()[0]

        def training_step(self, batch, _):
            loss = self.net(batch[0]).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), betas=self.hparams.betas)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return {"optimizer": optimizer, "lr_scheduler": scheduler}

    data = torch.utils.data.TensorDataset(torch.randn(32, 64))
    saving = lightning.pytorch.callbacks.ModelCheckpoint(save_top_k=-1, save_last=True)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", default_root_dir=tmp_path / "run", callbacks=[saving],
        logger=lightning.pytorch.loggers.CSVLogger(tmp_path / "run"), log_every_n_steps=1,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Net(), torch.utils.data.DataLoader(data, 16))
    check_lightning(tmp_path / "run", tmp_path / "run-cfck")
    # The training goes on from what is written back.
    last = next((tmp_path / "run-cfck").rglob("last.cfck"))
    torch.save(load_checkpoint(last), tmp_path / "again.ckpt")
    again = lightning.Trainer(
        max_epochs=3, accelerator="cpu", default_root_dir=tmp_path / "again", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    again.fit(Net(), torch.utils.data.DataLoader(data, 16), ckpt_path=tmp_path / "again.ckpt")
    assert again.global_step == 6


@pytest.mark.parametrize("is_safe", [True, False])
def test_accelerate(tmp_path, is_safe):
    accelerate = pytest.importorskip("accelerate")

    class Means:
        def state_dict(self):
            return {"mean": weights(8), "n": 3}

        def load_state_dict(self, state):
            self.state = state

    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer, scheduler = accelerator.prepare(*trained())
    means = Means()
    accelerator.register_for_checkpointing(means)
    accelerator.save_state(os.fspath(tmp_path / "run"), safe_serialization=is_safe)
    check_accelerate(tmp_path / "run", tmp_path / "run-cfck")
    # The training goes on from what is written back.
    expected = optimizer.state_dict()
    for name in ("optimizer.bin", "custom_checkpoint_0.pkl"):
        converted = (tmp_path / "run-cfck" / name).with_suffix(".cfck")
        torch.save(load_checkpoint(converted), tmp_path / "run" / name)
    accelerator.load_state(os.fspath(tmp_path / "run"))
    assert_equal(optimizer.state_dict()["state"], expected["state"])
    assert_equal(means.state, Means().state_dict())
    accelerate.state.AcceleratorState._reset_state(True)
