"""What shrink() promises of other examples, and what it keeps when it is interrupted."""

import dataclasses

import cfck
import pytest
import torch
from cfck.torch import load_model
from torch import nn

pytestmark = pytest.mark.usefixtures("one_thread")


def quiet(model, path, **options):
    options.setdefault("report", False)
    return cfck.shrink(model, path, progress=False, threads=1, **options)


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 24)).eval()


def batches(n, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return list((scale * torch.randn(n, 24, generator=generator)).split(32))


def test_other_examples_than_those_held_back_keep_the_goal_too(tmp_path):
    model = small_model()
    for seed in range(2):
        path = tmp_path / "a.cfck"
        result = quiet(model, path, keep={"cosine": 0.98}, batches=batches(96, seed))
        assert 0.98 <= result.bounds["cosine"] < result.kept["cosine"]
        decoded = small_model()
        load_model(decoded, path)
        assert cfck.evaluate(model, decoded, batches(2000, 99)).cosine_mean >= 0.98


def test_more_confidence_takes_more_bits(tmp_path):
    given = {"keep": {"cosine": 0.98}, "batches": batches(64, 1)}
    results = [
        quiet(small_model(), tmp_path / "a.cfck", confidence=one, **given) for one in (0.5, 0.999)
    ]
    assert results[0].bits_per_weight < results[1].bits_per_weight
    assert [one.confidence for one in results] == [0.5, 0.999]


def test_examples_to_judge_by_can_be_given(tmp_path):
    path = tmp_path / "a.cfck"
    options = {"keep": {"kl": 0.01}, "batches": batches(64, 1)}
    result = quiet(small_model(), path, held_back=iter(batches(80, 2)), **options)
    assert (result.n_used, result.n_held_back) == (64, 80)
    assert result.evaluation.n_examples == 80
    assert result.bounds["kl"] <= 0.01
    assert "kl is at most" in str(dataclasses.replace(result, bounds=result.kept))
    assert not [note for note in result.notes if "trained on" in note]
    with pytest.raises(cfck.InvalidArgumentError, match="batch 1 of held_back= is one of batches="):
        quiet(small_model(), path, held_back=batches(80, 2)[:1] + batches(64, 1), **options)
    # Inputs of which the model is much surer.
    known = batches(64, 1, scale=100.0)
    result = quiet(small_model(), path, keep={"kl": 0.5}, batches=known, held_back=batches(80, 2))
    assert [note for note in result.notes if "looks as if it was trained on batches" in note]


@pytest.mark.parametrize("kind", [{"keep": {"cosine": 0.97}}, {"size": "4kB"}], ids=str)
def test_the_best_file_is_kept_when_a_call_is_interrupted(tmp_path, kind):
    path = tmp_path / "a.cfck"
    path.write_bytes(b"before")
    said = []

    def listen(sentence):
        said.append(sentence)
        if sentence.startswith("file") and sum(one.startswith("file") for one in said) == at:
            raise KeyboardInterrupt

    model = small_model()
    whole = quiet(model, tmp_path / "whole.cfck", batches=batches(64, 1), **kind)
    at = next(i for i, trial in enumerate(whole.trials, 1) if trial.met)
    with pytest.raises(cfck.ShrinkInterrupted, match="best file so far was written") as told:
        quiet(model, path, batches=batches(64, 1), report=listen, **kind)
    result = told.value.result
    assert result.interrupted and len(result.trials) == at and result.trials[-1].met
    assert "interrupted: the best file so far is written" in said
    assert "smaller files may keep as much" in str(result)
    decoded = small_model()
    load_model(decoded, path)
    found = cfck.evaluate(model, decoded, batches(400, 9)).cosine_mean
    assert found > 0.97 if "keep" in kind else path.stat().st_size <= 4000


def test_an_interrupt_before_any_file_keeps_everything_leaves_nothing(tmp_path):
    path = tmp_path / "a.cfck"
    path.write_bytes(b"before")

    def listen(sentence):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as told:
        quiet(small_model(), path, keep={"cosine": 0.97}, batches=batches(64, 1), report=listen)
    assert not isinstance(told.value, cfck.ShrinkInterrupted)
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


class _Writer(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.words = nn.Embedding(64, 48)
        self.body = nn.GRU(48, 48, batch_first=True)
        self.head = nn.Linear(48, 64)

    def forward(self, tokens):
        return self.head(self.body(self.words(tokens))[0])


def test_perplexity_of_a_language_model(tmp_path):
    model = _Writer()
    generator = torch.Generator().manual_seed(1)
    starts = torch.randint(0, 64, (192, 1), generator=generator)
    tokens = (starts + 3 * torch.arange(12)) % 64
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(40):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    given = list(tokens.split(32))
    result = quiet(model, tmp_path / "a.cfck", keep={"perplexity": 1.05}, batches=given)
    assert result.kept["perplexity"] <= result.bounds["perplexity"] <= 1.05
    assert result.evaluation.perplexity_b == pytest.approx(
        result.kept["perplexity"] * result.evaluation.perplexity_a
    )
