"""cfck.evaluate: what it says of two models, against sums written out here."""

import dataclasses
import math
import types

import cfck
import pytest
import torch
from torch import nn
from torch.nn import functional


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Fixed(nn.Module):
    """Gives the outputs it was made with, in whatever form, whatever the input."""

    def __init__(self, values: torch.Tensor, form=lambda values: values) -> None:
        super().__init__()
        self.values = nn.Parameter(values)
        self.form = form

    def forward(self, *_, **__):
        return self.form(self.values)


def pair(*shape: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(*shape, generator=generator)
    return a, a + 0.3 * torch.randn(*shape, generator=generator)


def kl(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    p, q = a.double().log_softmax(-1), b.double().log_softmax(-1)
    return functional.kl_div(q, p, reduction="none", log_target=True).sum(-1)


X = torch.zeros(6, 3)


def test_logits():
    a, b = pair(6, 10)
    labels = a.argmax(1).clone()
    labels[:2] = (labels[:2] + 1) % 10
    result = cfck.evaluate(Fixed(a), Fixed(b), [X], labels=[labels])
    cosines = functional.cosine_similarity(a.double(), b.double())
    assert (result.n_examples, result.n_rows) == (6, 6)
    assert result.cosine_mean == pytest.approx(float(cosines.mean()), abs=1e-12)
    assert result.cosine_min == pytest.approx(float(cosines.min()), abs=1e-12)
    assert result.kl == pytest.approx(float(kl(a, b).mean()), rel=1e-9)
    assert result.agreement == float((a.argmax(1) == b.argmax(1)).double().mean())
    assert result.top1_a == pytest.approx(4 / 6)
    assert result.top1_b == float((b.argmax(1) == labels).double().mean())
    assert result.top1_change == result.top1_b - result.top1_a
    assert result.perplexity_a is None


def test_batches_add_up():
    class Rows(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.layer = nn.Linear(8, 5)
            self.layer.weight = nn.Parameter(weight)

        def forward(self, x):
            return self.layer(x)

    a, b = pair(5, 8)
    first, second = Rows(a), Rows(b)
    second.layer.bias = first.layer.bias
    x = torch.randn(10, 8, generator=torch.Generator().manual_seed(2))
    labels = torch.arange(10) % 5
    whole = cfck.evaluate(first, second, [x], labels=[labels])
    assert whole.kl > 0 and whole.top1_a is not None
    parts = cfck.evaluate(
        first, second, [(x[i : i + 3], labels[i : i + 3]) for i in range(0, 10, 3)],
        inputs=lambda batch: batch[0], labels=lambda batch: batch[1],
    )  # fmt: skip
    assert parts.perplexity_a is None
    for name, value in dataclasses.asdict(whole).items():
        if value is not None:
            assert getattr(parts, name) == pytest.approx(value, rel=1e-6)


FORMS = {
    "tensor": lambda v: v,
    "tuple": lambda v: (torch.arange(3), v, -v),
    "logits": lambda v: types.SimpleNamespace(loss=v.sum(), logits=v, last_hidden_state=-v),
    "dict": lambda v: {"loss": v.sum(), "logits": v},
    "nested": lambda v: [None, {"a": torch.arange(2)}, (v,)],
}


@pytest.mark.parametrize("form", FORMS)
def test_outputs_are_found_in_what_models_return(form):
    a, b = pair(6, 10)
    expected = cfck.evaluate(Fixed(a), Fixed(b), [X], kind="logits")
    actual = cfck.evaluate(Fixed(a, FORMS[form]), Fixed(b, FORMS[form]), [X], kind="logits")
    assert actual == expected
    chosen = cfck.evaluate(
        Fixed(a, lambda v: {"first": v * 0, "other": v}), Fixed(b, lambda v: {"other": v}), [X],
        output=lambda out: out["other"], kind="logits",
    )  # fmt: skip
    assert chosen == expected


def test_hidden_states_are_pooled_over_positions_that_count():
    a, b = pair(4, 5, 8)
    mask = (torch.arange(5) < torch.tensor([[5], [2], [1], [3]])).long()
    hidden = {"form": lambda v: types.SimpleNamespace(last_hidden_state=v)}
    batches = [{"input_ids": torch.zeros(4, 5).long(), "attention_mask": mask}]
    first, second = Fixed(a, **hidden), Fixed(b, **hidden)

    def pooled(values):
        return torch.stack([row[m == 1].mean(0) for row, m in zip(values, mask, strict=True)])

    result = cfck.evaluate(first, second, batches)
    cosines = functional.cosine_similarity(pooled(a), pooled(b))
    assert result.n_rows == 4
    assert result.cosine_mean == pytest.approx(float(cosines.mean()), abs=1e-6)
    assert result.kl is None and result.agreement is None
    each = cfck.evaluate(first, second, batches, pool="none")
    assert each.n_rows == 11
    flat = functional.cosine_similarity(a[mask == 1], b[mask == 1])
    assert each.cosine_min == pytest.approx(float(flat.min()), abs=1e-6)
    start = cfck.evaluate(first, second, batches, pool="first")
    assert start.cosine_mean == pytest.approx(
        float(functional.cosine_similarity(a[:, 0], b[:, 0]).mean()), abs=1e-6
    )
    # The values of padding do not matter, NaN included.
    a[mask == 0] = math.nan
    assert cfck.evaluate(Fixed(a, **hidden), second, batches) == result


def test_perplexity_of_a_language_model():
    a, b = pair(3, 7, 20)
    tokens = torch.randint(0, 20, (3, 7), generator=torch.Generator().manual_seed(4))
    result = cfck.evaluate(Fixed(a), Fixed(b), [tokens], language_model=True)
    for logits, actual in ((a, result.perplexity_a), (b, result.perplexity_b)):
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        assert actual == pytest.approx(math.exp(float(loss)), rel=1e-5)
    assert result.perplexity_change == result.perplexity_b - result.perplexity_a
    assert result.n_rows == 18
    assert result.kl == pytest.approx(float(kl(a, b)[:, :-1].mean()), rel=1e-6)
    given = tokens.clone()
    given[:, 3:] = -100
    part = cfck.evaluate(Fixed(a), Fixed(b), [tokens], labels=[given])
    loss = functional.cross_entropy(a[:, :3].flatten(0, 1), tokens[:, :3].flatten())
    assert part.perplexity_a == pytest.approx(math.exp(float(loss)), rel=1e-5)
    assert part.n_rows == 21


def test_padding_is_not_predicted():
    a, b = pair(2, 6, 20)
    tokens = torch.ones(2, 6).long()
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0]])
    batches = [{"input_ids": tokens, "attention_mask": mask}]
    result = cfck.evaluate(Fixed(a), Fixed(b), batches, language_model=True)
    chances = a.double().log_softmax(-1)[..., 1]
    expected = -(chances[0, :3].sum() + chances[1, 0]) / 4
    assert result.perplexity_a == pytest.approx(math.exp(expected), rel=1e-9)


def test_probabilities_are_taken_as_such():
    a, b = pair(6, 10)
    logits = cfck.evaluate(Fixed(a), Fixed(b), [X], kind="logits")
    for form in (lambda v: v.softmax(1), lambda v: v.log_softmax(1)):
        result = cfck.evaluate(Fixed(a, form), Fixed(b, form), [X])
        assert result.kl == pytest.approx(logits.kl, rel=1e-4)
        assert result.agreement == logits.agreement


def test_impossible_classes_cost_nothing():
    a, b = pair(6, 10)
    a[:, 3] = b[:, 3] = -math.inf
    result = cfck.evaluate(Fixed(a), Fixed(b), [X], kind="logits")
    kept = [c for c in range(10) if c != 3]
    assert result.kl == pytest.approx(float(kl(a[:, kept], b[:, kept]).mean()), rel=1e-9)


def test_a_ruined_model_shows():
    a, b = pair(6, 10)
    b[2] = math.nan
    result = cfck.evaluate(Fixed(a), Fixed(b), [X], kind="logits")
    assert math.isnan(result.kl) and math.isnan(result.cosine_mean)
    assert math.isnan(result.cosine_min)
    zero = cfck.evaluate(Fixed(a), Fixed(a * 0), [X])
    assert (zero.cosine_mean, zero.cosine_min) == (0, 0)


def test_equal_models_are_equal_and_print():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4))
    labels = torch.zeros(6).long()
    result = cfck.evaluate(model, model, [X + 1], labels=[labels])
    assert (result.cosine_mean, result.kl, result.agreement, result.top1_change) == (1, 0, 1, 0)
    lines = str(result).splitlines()
    assert lines[0] == "6 examples, 6 rows"
    assert [line.split()[0] for line in lines[1:]] == ["cosine", "agreement", "KL", "top-1"]
    a, b = pair(3, 7, 20)
    text = str(cfck.evaluate(Fixed(a), Fixed(b), [torch.ones(3, 7).long()], language_model=True))
    assert "perplexity" in text and "None" not in text
    assert "KL" not in str(cfck.evaluate(Fixed(X + 1), Fixed(X + 2), [X]))


def test_neither_model_is_changed():
    def make():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4))

    a, b = make(), make()
    a.train()
    a[1].eval()
    b.eval()
    before = [{k: v.clone() for k, v in m.state_dict().items()} for m in (a, b)]
    state = torch.get_rng_state()
    seen = []
    a.register_forward_hook(lambda m, _, out: seen.append((m.training, out.requires_grad)))
    result = cfck.evaluate(a, b, [torch.randn(6, 3, generator=torch.Generator().manual_seed(1))])
    assert result.cosine_min == pytest.approx(1)
    assert set(seen) == {(False, False)}
    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in a] == [True, False, True, True]
    assert not any(m.training for m in b.modules())
    for model, values in zip((a, b), before, strict=True):
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, values[name])
    assert not any(len(m._forward_hooks) for m in a)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batches": []}, "no batches with any rows"),
        ({"labels": [torch.zeros(5).long()]}, r"batch 0: labels.*integers of shape \[6\]"),
        ({"labels": [torch.zeros(6)]}, "not torch.float32"),
        ({"labels": [torch.full((6,), 10)]}, "label 10, but the outputs have 10 classes"),
        ({"labels": []}, "labels for only 0 batches"),
        ({"labels": [], "language_model": True}, "give no labels"),
        ({"language_model": True}, "a language model takes integers"),
        ({"kind": "tokens"}, "kind is one of"),
        ({"pool": "max"}, "pool is one of"),
        ({"b": torch.zeros(6, 9)}, r"batch 0: the outputs have shapes \[6, 10\] and \[6, 9\]"),
        ({"output": lambda out: [out]}, "output= returned list"),
    ],
)
def test_refusals(arguments, message):
    a, b = pair(6, 10)
    second = Fixed(arguments.pop("b", b))
    batches = arguments.pop("batches", [X])
    with pytest.raises(cfck.InvalidArgumentError, match=message):
        cfck.evaluate(Fixed(a), second, batches, **arguments)


def test_outputs_without_floats_are_refused():
    model = Fixed(torch.zeros(3, 4), lambda v: {"ids": v.long()})
    with pytest.raises(cfck.InvalidArgumentError, match="returns dict without a floating tensor"):
        cfck.evaluate(model, model, [X])
    with pytest.raises(TypeError, match="expected a torch.nn.Module as the model, not dict"):
        cfck.evaluate(model, {}, [X])


# What is not known


@pytest.mark.parametrize("scale", [1e-5, 1e-20, 1e-36, 1e20, 1e36])
def test_cosines_do_not_depend_on_the_scale(scale):
    a, b = pair(6, 10)
    expected = cfck.evaluate(Fixed(a), Fixed(b), [X], kind="embeddings")
    result = cfck.evaluate(Fixed(scale * a), Fixed(scale * b), [X], kind="embeddings")
    assert result.cosine_mean == pytest.approx(expected.cosine_mean, abs=1e-6)
    assert result.cosine_min == pytest.approx(expected.cosine_min, abs=1e-6)
    assert expected.cosine_min < 0.99


def test_zero_rows_have_no_direction():
    a, b = pair(6, 10)
    a[0], b[1], a[2], b[2] = 0, 0, 0, 0
    result = cfck.evaluate(Fixed(a), Fixed(b), [X], kind="embeddings")
    assert result.cosine_min == 0
    assert cfck.evaluate(Fixed(a), Fixed(a), [X], kind="embeddings").cosine_min == 1


def test_a_single_column_says_nothing():
    a, b = pair(6, 1)
    result = cfck.evaluate(Fixed(a), Fixed(b), [X])
    assert math.isnan(result.cosine_mean) and math.isnan(result.cosine_min)
    result = cfck.evaluate(Fixed(a), Fixed(b), [X], kind="logits")
    assert math.isnan(result.agreement) and math.isnan(result.kl)


def test_nan_agrees_with_nothing():
    a, b = pair(6, 10)
    b[3, 2] = torch.nan
    result = cfck.evaluate(Fixed(a), Fixed(b), [X], labels=[a.argmax(1)])
    assert math.isnan(result.agreement) and math.isnan(result.kl)
    assert result.top1_a == 1 and math.isnan(result.top1_b)


def test_perplexity_of_nan_is_nan():
    a, b = pair(3, 7, 11)
    b[0, 0, 0] = torch.nan
    result = cfck.evaluate(Fixed(a), Fixed(b), [torch.ones(3, 7).long()], language_model=True)
    assert math.isfinite(result.perplexity_a) and math.isnan(result.perplexity_b)


class Counting(nn.Module):
    """Changes its buffers whenever it runs."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.Linear(40, 32)
        self.register_buffer("n_calls", torch.zeros(()))
        self.register_buffer("mean", torch.full((40,), torch.nan))
        self.register_buffer("cache", torch.zeros(0), persistent=False)

    def forward(self, x):
        self.n_calls += 1
        self.mean = x.mean(0)
        if len(self.cache) < len(x):
            self.cache = torch.ones(len(x))
        return self.layer(x)


@pytest.mark.parametrize("inference", [False, True])
def test_buffers_are_what_they_were(inference):
    with torch.inference_mode(inference):
        model, other = Counting(), Counting()
        n_calls, mean = model.n_calls, model.mean
        cfck.evaluate(model, other, [torch.randn(4, 40)])
        assert model.n_calls is n_calls and model.mean is mean
        assert (float(n_calls), float(other.n_calls)) == (0, 0)
        assert bool(mean.isnan().all())
        assert len(model.cache) == 4  # it has grown, and is right


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batches": None}, "iterable of model inputs, not a NoneType"),
        ({"batches": X}, "put a single batch into a list"),
        ({"batches": [X[:0]]}, "batch 0 has no examples"),
        ({"labels": torch.zeros(6).long()}, "one entry, a tensor, for each batch, not one tensor"),
        ({"labels": 5}, "one entry, a tensor, for each batch, not int"),
    ],
)
def test_batches_and_labels_of_the_wrong_kind(arguments, message):
    a, b = pair(6, 10)
    batches = arguments.pop("batches", [X])
    with pytest.raises(cfck.InvalidArgumentError, match=message):
        cfck.evaluate(Fixed(a), Fixed(b), batches, **arguments)
