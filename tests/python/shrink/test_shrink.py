"""cfck.shrink: files that keep what is asked for, and clear answers to bad input."""

import copy
import dataclasses
import json

import cfck
import pytest
import torch
from cfck._shrink.goals import exact
from cfck.torch import load_model
from conftest import bits
from torch import nn

pytestmark = pytest.mark.usefixtures("one_thread")


class Classifier(nn.Module):
    """A convolution, a norm, and layers; trained so that its classes differ."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 24, 3, padding=1)
        self.norm = nn.BatchNorm2d(24)
        self.wide = nn.Conv2d(24, 32, 3, padding=1, stride=2)
        self.first = nn.Linear(32, 128)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        x = torch.relu(self.wide(torch.relu(self.norm(self.conv(x)))))
        return self.head(torch.relu(self.first(x.mean((2, 3)))))


CENTRES = torch.randn(10, 3, 8, 8, generator=torch.Generator().manual_seed(4))


def images(n, seed=1, is_sorted=False):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (n,), generator=generator)
    if is_sorted:
        labels = labels.sort().values
    return CENTRES[labels] + 0.8 * torch.randn(n, 3, 8, 8, generator=generator), labels


@pytest.fixture(scope="module")
def model():
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(60):
        given, labels = images(128, seed=100 + step)
        loss = nn.functional.cross_entropy(model(given), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def batches(n=160, size=32, labelled=False, **options):
    given, labels = images(n, **options)
    pairs = list(zip(given.split(size), labels.split(size)))
    return pairs if labelled else [one for one, _ in pairs]


def quiet(model, path, **options):
    return cfck.shrink(model, path, report=False, progress=False, threads=1, **options)


def decoded(path):
    other = Classifier()
    load_model(other, path)
    return other.eval()


@pytest.fixture(scope="module")
def small(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("shrink") / "small.cfck"
    before = {name: bits(tensor) for name, tensor in model.state_dict().items()}
    model.train()
    said = []
    result = cfck.shrink(model, path, keep={"kl": 0.05}, batches=batches(), report=said.append,
                         progress=False, threads=1)  # fmt: skip
    assert all(module.training for module in model.modules())
    model.eval()
    assert before == {name: bits(tensor) for name, tensor in model.state_dict().items()}
    return path, result, said


def test_what_is_asked_for_is_kept_on_held_back_and_on_other_examples(model, small):
    path, result, _ = small
    assert 0 < result.kept["kl"] < result.bounds["kl"] <= 0.05
    assert result.goal == {"kl": 0.05}
    assert result.confidence == 0.95
    assert (result.n_held_back, result.n_used) == (40, 120)
    assert result.evaluation.kl == result.kept["kl"]
    other = cfck.evaluate(model, decoded(path), batches(400, seed=9), kind="logits")
    assert other.kl <= 0.05
    text = str(result)
    assert "(wanted 0.05) on 40 held-back examples" in text
    assert "on other examples of their kind kl is at most" in text
    assert "with a confidence of 95 %" in text
    with cfck.safe_open(path, framework="pt") as file:
        told = json.loads(file.metadata()["cfck.shrink"])
    assert told["goal"] == {"kl": 0.05} and told["n_held_back"] == 40
    assert told["confidence"] == 0.95
    assert told["kept"]["kl"] == pytest.approx(result.kept["kl"], rel=1e-5)
    assert told["bounds"]["kl"] == pytest.approx(result.bounds["kl"], rel=1e-5)


def test_the_result_says_what_is_in_the_file(model, small):
    path, result, said = small
    assert result.file_bytes == path.stat().st_size
    n_weights = sum(t.numel() for t in model.state_dict().values() if t.is_floating_point())
    assert result.n_weights == n_weights
    assert result.bits_per_weight == 8 * result.file_bytes / n_weights
    assert result.bits_per_weight < 8
    assert str(result) == said[-1]
    assert len(said) >= len(result.trials) + 2
    assert any(trial.met for trial in result.trials)
    chosen = [t for t in result.trials if t.bounds == result.bounds]
    assert chosen and all(trial.met for trial in chosen)
    # The file has what it keeps in its metadata too.
    smallest = min(trial.bits_per_weight for trial in result.trials if trial.met)
    assert smallest in [trial.bits_per_weight for trial in chosen]
    longer = result.bits_per_weight - smallest
    assert 0 <= longer * result.n_weights / 8 < 250


def test_the_file_decodes_to_what_was_judged(model, small):
    path, result, _ = small
    again = quiet(model, path.with_name("again.cfck"), keep={"kl": 0.05}, batches=batches())
    assert again.trials == result.trials
    assert path.read_bytes() == path.with_name("again.cfck").read_bytes()


def test_vectors_are_rounded_and_integers_are_not(model, small):
    path, result, _ = small
    other = decoded(path)
    assert other.norm.num_batches_tracked == model.norm.num_batches_tracked
    assert 4 <= result.vector_bits <= 12
    before, after = model.norm.running_mean.double(), other.norm.running_mean.double()
    assert not torch.equal(after, before)
    assert ((after - before).abs() <= before.abs() * 2.0**-result.vector_bits).all()


class _Words(nn.Module):
    """An encoder whose inputs are of one of two kinds, one of them unused, as in BERT."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(100, 64)
        self.kinds = nn.Embedding(2, 64)
        self.first = nn.Linear(64, 64)
        self.padding = nn.Parameter(torch.zeros(2, 16))

    def forward(self, words):
        kinds = self.kinds(torch.zeros_like(words))
        return self.first(torch.relu(self.words(words) + 3 * kinds)).mean(1)


def test_matrices_of_few_values_are_kept_well(tmp_path):
    model = _Words().eval()
    words = torch.randint(0, 100, (128, 12), generator=torch.Generator().manual_seed(1))
    quiet(model, tmp_path / "s.cfck", keep={"cosine": 0.99}, batches=list(words.split(32)))
    state = cfck.torch.load_file(tmp_path / "s.cfck")
    for name, errors in (("kinds.weight", 1e-4), ("words.weight", None), ("padding", 0)):
        before, after = model.state_dict()[name], state[name]
        nmse = float((before - after).square().sum() / before.square().sum().clamp_min(1e-30))
        assert nmse > 1e-3 if errors is None else nmse <= errors, name


def test_more_is_kept_with_more_bits(model, small, tmp_path):
    _, result, _ = small
    better = quiet(model, tmp_path / "a.cfck", keep={"kl": 0.002}, batches=batches())
    assert better.kept["kl"] <= 0.002
    assert better.bits_per_weight > result.bits_per_weight + 0.2


@pytest.mark.parametrize(
    "keep",
    [{"cosine": 0.98}, {"agreement": 0.9}, {"top1": -10.0}, {"cosine": 0.9, "kl": 0.2}],
    ids=lambda keep: "+".join(keep),
)
def test_other_goals(model, tmp_path, keep):
    path = tmp_path / "a.cfck"
    result = quiet(model, path, keep=keep, batches=batches(labelled=True))
    assert set(result.kept) == set(keep)
    for name, value in keep.items():
        kept, bound = result.kept[name], result.bounds[name]
        assert (kept <= bound <= value) if name == "kl" else (kept >= bound >= value)


def test_a_number_of_ones_own(model, tmp_path):
    given, labels = images(200, seed=5)

    def accuracy(one):
        with torch.no_grad():
            return (one(given).argmax(1) == labels).float().mean()

    before = float(accuracy(model))
    keep = {"keep": accuracy, "at_least": before - 0.05}
    result = quiet(model, tmp_path / "a.cfck", batches=batches(), **keep)
    assert result.kept["score"] >= before - 0.05
    assert float(accuracy(decoded(tmp_path / "a.cfck"))) == pytest.approx(result.kept["score"])
    # Less may be better, and no examples are needed.
    result = quiet(model, tmp_path / "b.cfck", keep=lambda one: 1 - accuracy(one), at_most=0.5)
    assert result.kept["score"] <= 0.5


def test_a_size_or_a_number_of_bits(model, tmp_path):
    result = quiet(model, tmp_path / "a.cfck", size="8kB", batches=batches())
    assert 7000 < result.file_bytes <= 8000
    assert set(result.kept) == {"kl"}
    result = quiet(model, tmp_path / "b.cfck", bits_per_weight=6, batches=batches())
    assert 5.5 < result.bits_per_weight <= 6
    result = quiet(model, tmp_path / "c.cfck", bits_per_weight=6)
    assert 5.5 < result.bits_per_weight <= 6
    assert result.kept == {} and result.n_held_back == 0


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_any_gradient_mode(model, small, tmp_path, context):
    with context():
        result = quiet(model, tmp_path / "a.cfck", keep={"kl": 0.05}, batches=batches())
        assert torch.is_grad_enabled() == (context is torch.enable_grad)
    assert result.trials == small[1].trials


def test_a_generator_is_read_once(model, small, tmp_path):
    result = quiet(model, tmp_path / "a.cfck", keep={"kl": 0.05}, batches=iter(batches()))
    assert result.trials == small[1].trials

    def endless():
        while True:
            yield images(32)[0]

    result = quiet(model, tmp_path / "b.cfck", keep={"kl": 0.05}, batches=endless(), n_examples=64)
    assert result.n_used + result.n_held_back == 64
    assert "the first 64 examples were read" in result.notes[0]


def test_batches_sorted_by_class_are_spread(model, tmp_path):
    for labelled in (False, True):
        given = batches(200, 20, labelled=labelled, is_sorted=True)
        result = quiet(model, tmp_path / "a.cfck", keep={"kl": 0.05}, batches=given)
        assert any("sorted by class" in note for note in result.notes)
        assert "sorted by class" in str(result)
        other = cfck.evaluate(
            model, decoded(tmp_path / "a.cfck"), batches(400, seed=9), kind="logits"
        )
        assert other.kl < 0.15
    result = quiet(model, tmp_path / "a.cfck", keep={"kl": 0.05}, batches=given, n_examples=100)
    assert "5 of 10 batches were read, spread evenly" in result.notes[0]


def test_shuffled_batches_are_not_said_to_be_sorted(small):
    assert not any("sorted" in note for note in small[1].notes)


class _Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return torch.ones(len(x), 5) + 0 * self.layer(x)[:, :5]


class _Broken(Classifier):
    def forward(self, x):
        return super().forward(x) * torch.nan


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "keep, size or bits_per_weight, and none of them"),
        ({"keep": {"kl": 1}, "size": 10}, "keep and size were given"),
        ({"keep": {}}, "keep is empty"),
        ({"keep": {"cosin": 0.9}}, "did you mean cosine"),
        ({"keep": {"cosine": 1.5}}, "between 0 and 1"),
        ({"keep": {"cosine": True}}, "between 0 and 1"),
        ({"keep": {"kl": -1}}, "above 0"),
        ({"keep": {"top1": 1.0}}, "below 0"),
        ({"keep": {"perplexity": 0.9}}, "above 1"),
        ({"keep": {"kl": 0.1}, "batches": None}, "needs batches"),
        ({"keep": {"kl": 0.1}, "at_least": 1.0}, "for a function"),
        ({"keep": lambda _: 1.0}, "needs at_least="),
        ({"keep": lambda _: float("nan"), "at_least": 0.5}, "gave NaN"),
        ({"keep": lambda _: "good", "at_least": 0.5}, "gives a number, not str"),
        ({"keep": lambda _: 0.4, "at_least": 0.5}, "0.4 for the model as it is"),
        ({"keep": {"top1": -1.0}}, "needs labels"),
        ({"keep": {"perplexity": 1.1}}, "needs labels"),
        ({"keep": {"kl": 0.1}, "batches": []}, "batches is empty"),
        ({"keep": {"kl": 0.1}, "batches": iter([])}, "can be read only once"),
        ({"keep": {"kl": 0.1}, "batches": images(9)[0]}, "put a single batch into a list"),
        ({"keep": {"kl": 0.1}, "batches": batches(4)}, "4 examples in 1 batches, too few"),
        ({"keep": {"kl": 0.1}, "n_examples": 0}, "at least 1"),
        ({"keep": {"kl": 0.1}, "confidence": 90}, "from 0.5 .* to 0.999"),
        ({"keep": {"kl": 0.1}, "confidence": True}, "from 0.5 .* to 0.999"),
        ({"size": 10**6, "batches": None, "held_back": batches(32)}, "needs batches= too"),
        ({"keep": {"kl": 0.1}, "held_back": []}, "held_back= is like batches=: .* is empty"),
        ({"size": -3}, "above 0"),
        ({"bits_per_weight": "3"}, "above 0"),
        ({"bits_per_weight": float("inf")}, "finite number above 0"),
        ({"bits_per_weight": float("nan")}, "finite number above 0"),
        ({"size": float("inf")}, "finite number above 0"),
        ({"size": 10**6, "threads": -1}, "threads is a number from 0"),
        ({"keep": {"kl": 0.1}, "batches": [images(9)[0][:0]] * 9}, "batch 0 has no examples"),
    ],
)
def test_refusals(model, tmp_path, options, message, monkeypatch):
    monkeypatch.setattr("cfck._shrink.run.calibrate", lambda *_, **__: pytest.fail("called"))
    path = tmp_path / "a.cfck"
    path.write_bytes(b"before")
    with pytest.raises(cfck.InvalidArgumentError, match=message):
        cfck.shrink(
            model, path, **{"batches": batches(32), "report": False, "threads": 1, **options}
        )
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_kept_says_what_can(model, tmp_path):
    with pytest.raises(cfck.InvalidArgumentError, match=r"cannot be met.*bits per weight.*keep kl"):
        quiet(model, tmp_path / "a.cfck", keep={"kl": 1e-15}, batches=batches(64))
    assert not list(tmp_path.iterdir())


def test_arguments_of_the_wrong_kind(model, tmp_path):
    for options in ({"report": 5}, {"seed": "a"}, {"n_examples": "a"}, {"metadata": {"a": 1}}):
        with pytest.raises(TypeError, match=next(iter(options))):
            cfck.shrink(model, tmp_path / "a.cfck", keep={"kl": 0.1}, batches=batches(), **options)


class _Column(Classifier):
    def forward(self, x):
        return super().forward(x)[:, :1].exp()


def test_a_single_column_has_no_direction(tmp_path):
    with pytest.raises(cfck.InvalidArgumentError, match="single column.*give a function as keep="):
        quiet(_Column(), tmp_path / "a.cfck", keep={"cosine": 0.9}, batches=batches(64))
    result = quiet(_Column(), tmp_path / "a.cfck", bits_per_weight=8, batches=batches(64))
    assert result.kept == {}


def test_labels_that_do_not_count_are_told(model, tmp_path, monkeypatch):
    monkeypatch.setattr("cfck._shrink.run.calibrate", lambda *_, **__: pytest.fail("called"))
    pairs = [(x, torch.full_like(y, -100)) for x, y in batches(64, labelled=True)]
    with pytest.raises(cfck.InvalidArgumentError, match="top1.*no label of the held-back"):
        quiet(model, tmp_path / "a.cfck", keep={"top1": -1.0}, batches=pairs)


def test_a_goal_near_one_is_told_in_full(model, tmp_path):
    with pytest.raises(cfck.InvalidArgumentError, match=r"keep cosine=0\.9999999999999") as told:
        quiet(model, tmp_path / "a.cfck", keep={"cosine": 1 - 1e-14}, batches=batches(64))
    assert "cosine=1;" not in str(told.value)


def test_numbers_are_told_with_enough_digits():
    assert exact(0.5) == "0.5"
    assert exact(1.0) == "1"
    assert exact(1 - 1e-12) == "0.999999999999"
    assert exact(1.00001234) == "1.0000123"
    assert exact(float("nan")) == "nan"


def test_double_precision(model, tmp_path):
    double = copy.deepcopy(model).double()
    given = [one.double() for one in batches()]
    result = quiet(double, tmp_path / "a.cfck", keep={"kl": 0.05}, batches=given)
    assert result.kept["kl"] <= 0.05
    assert result.bits_per_weight < 16


class _Zero(_Constant):
    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.layer.weight)


def test_a_model_without_tensors_to_measure_is_told(tmp_path):
    with pytest.raises(cfck.InvalidArgumentError, match="no tensor of the model could be measured"):
        quiet(_Zero(), tmp_path / "a.cfck", keep={"cosine": 0.9}, batches=[torch.randn(64, 64)])


class _Counting(Classifier):
    def __init__(self):
        super().__init__()
        self.register_buffer("n_calls", torch.zeros(1))

    def forward(self, x):
        self.n_calls += 1
        return super().forward(x)


def test_buffers_are_what_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr("cfck._shrink.judge._MAX_BYTES", 0)  # the original runs each time
    counting = _Counting()
    quiet(counting, tmp_path / "a.cfck", keep={"kl": 0.05}, batches=batches())
    assert float(counting.n_calls) == 0
    assert float(cfck.torch.load_file(tmp_path / "a.cfck")["n_calls"]) == 0


def test_outputs_that_do_not_react_are_told(tmp_path):
    with pytest.raises(cfck.InvalidArgumentError, match="do not react"):
        quiet(_Constant(), tmp_path / "a.cfck", keep={"cosine": 0.9},
              batches=[torch.randn(64, 64)])  # fmt: skip


def test_outputs_that_are_no_numbers_are_told(tmp_path):
    with pytest.raises(cfck.InvalidArgumentError, match="NaN or infinities"):
        quiet(_Broken(), tmp_path / "a.cfck", keep={"cosine": 0.9}, batches=batches(64))


def test_embeddings_have_no_divergence(tmp_path):
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh())
    with pytest.raises(cfck.InvalidArgumentError, match="keep a cosine"):

        class Hidden(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = model

            def forward(self, x):
                return {"last_hidden_state": self.body(x).unsqueeze(1)}

        quiet(Hidden(), tmp_path / "a.cfck", keep={"kl": 0.1}, batches=[torch.randn(64, 64)])


def test_few_examples_are_warned_of(model, tmp_path):
    given = batches(24, 8, labelled=True)
    options = {"keep": {"top1": -20.0}, "batches": given}
    with pytest.raises(
        cfck.InvalidArgumentError,
        match=r"confidence of 0\.95 by 6 held-back .* about \d\d examples in batches= .* would do",
    ):
        quiet(model, tmp_path / "a.cfck", **options)
    assert not list(tmp_path.iterdir())
    result = quiet(model, tmp_path / "a.cfck", confidence=0.5, **options)
    assert any("only 6 examples were held back" in note for note in result.notes)
    assert result.bounds == result.kept


def test_labels_are_needed_for_each_example(model, tmp_path):
    pairs = [(x, y[:3]) for x, y in batches(64, labelled=True)]
    with pytest.raises(cfck.InvalidArgumentError, match="needs labels"):
        quiet(model, tmp_path / "a.cfck", keep={"top1": -1.0}, batches=pairs)
    dicts = [{"image": x, "label": y[:3]} for x, y in batches(64, labelled=True)]
    with pytest.raises(cfck.InvalidArgumentError, match="batch 1 has no labels"):
        quiet(model, tmp_path / "a.cfck", keep={"top1": -1.0}, batches=dicts,
              inputs=lambda b: b["image"], labels=lambda b: b["label"])  # fmt: skip
    dicts = [{"image": x, "label": y} for x, y in batches(96, labelled=True)]
    result = quiet(model, tmp_path / "a.cfck", keep={"top1": -20.0}, batches=dicts,
                   inputs=lambda b: b["image"], labels=lambda b: b["label"])  # fmt: skip
    assert result.bounds["top1"] >= -20


def test_progress_is_told_and_can_end_the_call(model, tmp_path):
    told = []
    cfck.shrink(model, tmp_path / "a.cfck", keep={"kl": 0.1}, batches=batches(64), report=False,
                progress=lambda *one: told.append(one))  # fmt: skip
    stages = [name.split()[0] for _, _, name in told]
    assert list(dict.fromkeys(stages)) == ["calibrate", "norms", "try", "refine", "write"]
    assert all(0 <= done < total for done, total, _ in told)

    class Stop(Exception):
        pass

    def stop(done, total, name):
        if name.startswith("refine"):
            raise Stop

    before = [bits(tensor) for tensor in model.state_dict().values()]
    with pytest.raises(Stop):
        cfck.shrink(model, tmp_path / "b.cfck", keep={"kl": 0.1}, batches=batches(64),
                    report=False, progress=stop)  # fmt: skip
    assert not (tmp_path / "b.cfck").exists()
    assert before == [bits(tensor) for tensor in model.state_dict().values()]


@pytest.mark.parametrize(
    ("file_bytes", "text"),
    [
        (250, "4.0 times smaller"),
        (1010, "about the size of the original"),
        (2000, "2.0 times larger"),
    ],
)
def test_files_may_be_larger(file_bytes, text):
    fields = dict.fromkeys(field.name for field in dataclasses.fields(cfck.ShrinkResult))
    fields |= dict(filename="m.cfck", original_bytes=1000, file_bytes=file_bytes, seconds=1.0)
    fields |= dict(bits_per_weight=8.0, kept={}, goal={}, bounds={}, trials=(), notes=(), n_used=0)
    assert text in str(cfck.ShrinkResult(**fields))
