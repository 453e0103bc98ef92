"""Maximum errors: that they hold, which tensors they reach, and what the caller learns."""

import dataclasses
import fractions
import json
import math
import pathlib
import pickle
import subprocess
import sys

import cfck
import cfck.numpy
import cfck.torch
import ml_dtypes
import numpy as np
import pytest
import torch
from cfck.torch import load, load_file, save, save_file
from conftest import (
    assert_same,
    bits,
    records,
    shares_memory,
    state,
    weights,
)

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
BOUNDS = ["max_abs_error", "max_rel_error", "max_sigma_error"]


def largest_error(actual, expected):
    return (actual.double() - expected.double()).abs().max().item()


def exact(values):
    """Finite values as fractions."""
    return [fractions.Fraction(value) for value in values.astype(np.float64).reshape(-1).tolist()]


def random_values(dtype, kind, seed):
    """48 rows of 32 values; ``kind`` says of what size."""
    generator = np.random.Generator(np.random.PCG64(seed))
    values = generator.standard_normal((48, 32))
    if kind == "sizes":
        span = {2: 4, 4: 30, 8: 200}[np.dtype(dtype).itemsize]
        values *= np.exp2(generator.uniform(-span, span, values.shape))
    elif kind == "rows":
        values *= np.exp2(generator.uniform(-5, 5, (48, 1)))
    elif kind == "sparse":
        values *= generator.random(values.shape) < 0.1
    return values.astype(dtype)


@pytest.mark.parametrize("kind", ["weights", "sizes", "rows", "sparse"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_the_bound_holds_in_exact_arithmetic(path, dtype, kind):
    """Values of numpy to float64 and on to fractions: nothing is rounded on the way."""
    n_lossy = 0
    for seed, (name, value, per_row) in enumerate(
        (name, value, per_row)
        for name in BOUNDS
        for value in (1e-1, 3e-3, 1e-6)
        for per_row in (False, True)
        if not (per_row and name == "max_abs_error")
    ):
        array = random_values(dtype, kind, seed)
        options = {name: value, "per_row": per_row}
        cfck.numpy.save_file({"w": array}, path, fsync=False, codec="direct", **options)
        loaded = cfck.numpy.load_file(path)["w"]
        assert loaded.dtype == array.dtype
        n_lossy += loaded.tobytes() != array.tobytes()
        largest = fractions.Fraction(0)
        for x_row, y_row in zip(array, loaded) if per_row else [(array, loaded)]:
            x, y = exact(x_row), exact(y_row)
            error = max(abs(a - b) for a, b in zip(x, y))
            largest = max(largest, error)
            bound = fractions.Fraction(value)
            if name == "max_abs_error":
                assert error <= bound
            elif name == "max_rel_error":
                assert error <= bound * (max(x) - min(x))
            else:
                mean = sum(x) / len(x)
                variance = sum((a - mean) ** 2 for a in x) / len(x)
                assert error**2 <= bound**2 * variance
        measured = records(path)["w"].max_abs_error
        assert (measured or 0) == pytest.approx(float(largest), rel=1e-15)
    assert n_lossy >= 3


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_values_that_are_no_numbers_come_back_bit_for_bit(dtype):
    array = random_values(dtype, "weights", 1)
    unsigned = array.view(f"u{array.itemsize}")
    infinity = np.array(np.inf, dtype).view(unsigned.dtype)
    sign = unsigned.dtype.type(1 << (8 * array.itemsize - 1))
    places = [(3, 5), (17, 0), (30, 31), (40, 7)]
    for place, pattern in zip(
        places, [infinity, infinity | sign, infinity + 3, infinity | sign | 1]
    ):
        unsigned[place] = pattern
    array[5, 5] = -0.0
    for options in ({"max_abs_error": 1e-2}, {"max_sigma_error": 1e-2, "per_row": True}):
        loaded = cfck.numpy.load(cfck.numpy.save({"w": array}, codec="direct", **options))["w"]
        for place in places:
            assert loaded.view(unsigned.dtype)[place] == unsigned[place]
        assert loaded[5, 5] == 0
        with np.errstate(invalid="ignore"):  # of signalling NaN
            assert (np.isfinite(loaded) == np.isfinite(array)).all()


DEGENERATE = {
    "nan": np.full((40, 40), np.nan),
    "infinite": np.full((40, 40), -np.inf),
    "constant": np.full((40, 40), 0.1),
    "zeros": np.zeros((40, 40)),
    "empty": np.zeros((0, 40)),
    "scalar": np.array(0.1),
    "whole range": np.linspace(-1, 1, 1600).reshape(40, 40) * np.finfo(np.float64).max,
    "subnormal": np.arange(1600).reshape(40, 40) * 5e-324,
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("bound", BOUNDS)
def test_tensors_without_much_of_a_range(path, bound, name):
    array = DEGENERATE[name]
    options = {bound: 1e-2, "per_row": bound != "max_abs_error"}
    for call in (options, {"rules": {"*": options}}):
        summary = cfck.numpy.save_file({name: array}, path, **call)
        loaded = cfck.numpy.load_file(path)[name]
        assert loaded.shape == array.shape
        if name == "whole range":
            assert (np.abs(loaded / 2 - array / 2) <= 1e-2 * np.ptp(array / 2, axis=1).max()).all()
        elif name == "subnormal" and bound == "max_abs_error":
            assert np.abs(loaded - array).max() <= 1e-2
        elif bound != "max_abs_error" or name in ("nan", "infinite", "empty"):
            assert loaded.tobytes() == array.tobytes()
        else:
            assert np.abs(loaded - array).max(initial=0) <= 1e-2
        # Either the file says what was lost, or nothing was.
        record = records(path)[name]
        assert (record.bound is None) == (loaded.tobytes() == array.tobytes()) or array.size == 0
        if array.size and record.bound is None:
            assert set(summary.kept_lossless) == {name}


def test_the_summary_says_what_kept_every_bit_and_why(path):
    tensors = state()
    summary = save_file(tensors, path, max_abs_error=1e-3)
    assert summary.kept_lossless == {
        "layer.bias": "few_dimensions",
        "small.weight": "few_values",
        "tiny.weight": "near_zero",
        "a.exp_avg": "optimizer_state",
        "ids": "not_float",
        "constant.weight": "not_smaller",
    }
    assert summary.unmatched_rules == ()
    assert summary.n_records == len(tensors)
    assert summary.decoded_bytes == sum(t.numel() * t.element_size() for t in tensors.values())
    assert summary.file_bytes == path.stat().st_size
    assert summary.stored_bytes == sum(record.stored_bytes for record in records(path).values())
    loaded = load_file(path)
    for name, tensor in tensors.items():
        if name in summary.kept_lossless:
            assert_same(loaded[name], tensor)
        else:
            assert 0 < largest_error(loaded[name], tensor) <= 1e-3
    assert save_file(tensors, path).kept_lossless == {}


def test_what_every_function_reports(path):
    big = {"w": weights(64, 64)}
    arrays = {name: tensor.numpy() for name, tensor in big.items()}
    kept = {"b": "few_dimensions"}
    for call in (
        lambda **o: save_file({**big, "b": weights(9)}, path, **o),
        lambda **o: cfck.numpy.save_file({**arrays, "b": np.ones(9)}, path, **o),
        lambda **o: cfck.torch.save_checkpoint({**big, "b": weights(9), "n": 1}, path, **o),
        lambda **o: cfck.numpy.save_checkpoint({**arrays, "b": np.ones(9)}, path, **o),
        lambda **o: cfck.update(path, {"w": weights(64, 64, seed=2), "b": weights(9)}, **o),
    ):
        summary = call(max_sigma_error=1e-3)
        assert isinstance(summary, cfck.SaveSummary)
        assert summary.kept_lossless == kept
        assert summary.n_records == 2
        assert summary.file_bytes == path.stat().st_size
        record = records(path)["w"]
        assert (record.codec, record.bound_kind, record.bound) == ("direct", "sigma", 1e-3)
    with pytest.raises(AttributeError):
        summary.n_records = 3
    for data in (
        save(big, max_sigma_error=1e-3),
        cfck.numpy.save(arrays, max_sigma_error=1e-3),
    ):
        assert len(data) < len(save(big)) / 2
        assert 0 < largest_error(load(data)["w"], big["w"]) <= 1e-3 * 0.06


def test_what_is_returned_can_be_pickled_and_compared(path):
    summary = save_file(state(), path, max_abs_error=1e-3)
    for value in (summary, records(path)["layer.weight"]):
        assert pickle.loads(pickle.dumps(value)) == value
        assert dataclasses.replace(value) == value
        assert "layer" in repr(value)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_abs_error": 0}, ValueError, "positive and finite"),
        ({"max_abs_error": -1e-9}, ValueError, "positive and finite, not -1e-09; leave it out"),
        ({"max_rel_error": math.nan}, ValueError, "positive and finite"),
        ({"max_sigma_error": math.inf}, ValueError, "positive and finite"),
        ({"max_abs_error": 1e-310}, ValueError, "2\\^-1000"),
        ({"max_abs_error": 10**400}, ValueError, "max_abs_error is too large"),
        ({"max_abs_error": 1, "max_rel_error": 1}, ValueError, "give only one of"),
        ({"max_abs_error": 1, "per_row": True}, ValueError, "per_row"),
        ({"per_row": True}, ValueError, "per_row"),
        ({"codec": "direct"}, ValueError, "direct needs"),
        ({"codec": "lossless", "max_abs_error": 1}, ValueError, "do not take a maximum error"),
        ({"codec": "raw", "max_sigma_error": 1}, ValueError, "do not take a maximum error"),
        ({"codec": "zip"}, ValueError, 'unknown codec "zip".*direct'),
        ({"codec": None}, TypeError, "codec is str, not NoneType"),
        ({"max_abs_error": "1e-3"}, TypeError, "max_abs_error is a number, not str: '1e-3'"),
        ({"max_rel_error": True}, TypeError, "max_rel_error is a number, not bool"),
        ({"max_sigma_error": 1j}, TypeError, "max_sigma_error is a number, not complex"),
        ({"max_sigma_error": [1e-3]}, TypeError, "max_sigma_error is a number, not list"),
        ({"max_rel_error": 1, "per_row": 1}, TypeError, "per_row is bool, not int"),
    ],
    ids=str,
)
def test_wrong_options(path, options, error, message):
    path.write_bytes(b"old")
    tensors = {"w": weights(64, 64)}
    for call in (
        lambda: save_file(tensors, path, **options),
        lambda: save(tensors, **options),
        lambda: cfck.torch.save_model(torch.nn.Linear(40, 40), path, **options),
        lambda: cfck.torch.save_checkpoint(tensors, path, **options),
        lambda: cfck.numpy.save_file({"w": np.ones(3)}, path, **options),
        lambda: cfck.compress(tensors["w"], **options),
    ):
        with pytest.raises(error, match=message) as caught:
            call()
        assert "rule" not in str(caught.value)
    with pytest.raises(error, match=rf"rule '\*\.w'.*{message}"):
        save_file(tensors, path, rules={"a": {"max_abs_error": 1}, "*.w": options})
    assert path.read_bytes() == b"old"


def test_unknown_keywords_are_named(path):
    with pytest.raises(TypeError, match="'max_abs_eror'; did you mean max_abs_error"):
        save_file({}, path, max_abs_eror=1)
    with pytest.raises(TypeError, match="'verify'"):
        save({}, verify=True)
    with pytest.raises(TypeError, match="'rules'"):
        cfck.compress(weights(3), rules={})
    assert not path.exists()


def test_numbers_of_any_kind_are_bounds():
    expected = save({"w": weights(64, 64)}, max_abs_error=2**-10)
    for value in (np.float32(2**-10), np.float64(2**-10), fractions.Fraction(1, 1024)):
        assert save({"w": weights(64, 64)}, max_abs_error=value) == expected
    assert save({"w": weights(64, 64)}, max_abs_error=np.int64(1)) == save(
        {"w": weights(64, 64)}, max_abs_error=1
    )


@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (40, 50)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_compress_keeps_the_bound_for_any_shape(dtype, shape):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    data = cfck.compress(tensor, max_abs_error=0.125)
    loaded = cfck.decompress(data, framework="pt")
    assert loaded.dtype == dtype and loaded.shape == tensor.shape
    if tensor.numel():
        assert largest_error(loaded, tensor) <= 0.125
    if tensor.numel() > 1000:
        assert bits(loaded) != bits(tensor)
        assert len(data) < tensor.numel()
    if dtype != torch.bfloat16:
        assert cfck.compress(tensor.numpy(), max_abs_error=0.125) == data


def test_compress_of_integers_with_a_bound_is_an_error():
    for value in (torch.arange(10), np.arange(10), np.ones(3, np.bool_), np.ones(2, np.complex64)):
        with pytest.raises(cfck.InvalidArgumentError, match="F64, F32, BF16 and F16"):
            cfck.compress(value, max_abs_error=1)
        cfck.decompress(cfck.compress(value))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(50, 40)
        self.head = torch.nn.Linear(40, 50, bias=False)
        self.head.weight = self.embed.weight
        self.norm = torch.nn.BatchNorm1d(40)
        self.register_buffer("table", weights(60, 60, seed=8))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)


def test_save_model_keeps_buffers_and_ties(path):
    model = Net()
    summary = cfck.torch.save_model(model, path, max_sigma_error=1e-2)
    assert summary.kept_lossless == {
        "norm.weight": "few_dimensions",
        "norm.bias": "few_dimensions",
        "norm.running_mean": "buffer",
        "norm.running_var": "buffer",
        "norm.num_batches_tracked": "not_float",
        "table": "buffer",
    }
    other = Net()
    assert cfck.torch.load_model(other, path) == (set(), [])
    assert other.head.weight is other.embed.weight
    assert_same(other.table, model.table)
    sigma = model.embed.weight.detach().double().std(correction=0).item()
    error = largest_error(other.embed.weight.detach(), model.embed.weight.detach())
    assert 0 < error <= 1e-2 * sigma
    found = records(path)
    assert found["head.weight"].kind == "alias"
    assert found["head.weight"].shares_with == "embed.weight"
    assert found["head.weight"].max_abs_error == found["embed.weight"].max_abs_error == error
    # A rule reaches a buffer.
    summary = cfck.torch.save_model(model, path, rules={"table": {"max_abs_error": 1e-3}})
    assert summary.kept_lossless == {}
    assert records(path)["table"].bound == 1e-3


def test_tied_tensors_lose_something_only_together(path):
    base = weights(64, 64)
    tensors = {"a": base, "b": base.view(64, 64), "part": base[3:9]}
    rules = {"*": {"max_abs_error": 1e-3, "force": True}}
    summary = save_file(tensors, path, rules=rules)
    assert summary.kept_lossless == dict.fromkeys(tensors, "shared_memory")
    assert shares_memory(*list(load_file(path).values())[:2])
    del tensors["part"]
    assert save_file(tensors, path, max_abs_error=1e-3).kept_lossless == {}
    loaded = load_file(path)
    assert shares_memory(*loaded.values())
    assert 0 < largest_error(loaded["b"], base) <= 1e-3
    summary = save_file(tensors, path, max_abs_error=1e-3, rules={"a": {}})
    assert summary.kept_lossless == {"b": "shared_memory"}
    assert_same(load_file(path)["b"], base)


def optimizer_state():
    torch.manual_seed(3)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
    model(torch.randn(8, 64)).square().sum().backward()
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: {"optimizer": state},
        lambda state: {"optimizer_state_dict": state},
        lambda state: {"optim": state["state"]},
        lambda state: {"D_Optimizer": [state["state"]]},
        lambda state: {"anything": {"nested": state}},
        lambda state: {"lists": [1, (state,)]},
    ],
)
def test_optimizer_state_in_a_checkpoint_keeps_every_bit(path, wrap):
    model, optimizer = optimizer_state()
    tree = {"model": model.state_dict(), **wrap(optimizer.state_dict())}
    summary = cfck.torch.save_checkpoint(tree, path, max_sigma_error=1e-2)
    kept = dict(summary.kept_lossless)
    assert kept.pop("model.bias") == "few_dimensions"
    assert len(kept) == 2 * 4 and set(kept.values()) == {"optimizer_state"}
    loaded = cfck.torch.load_checkpoint(path)
    assert 0 < largest_error(loaded["model"]["weight"], model.weight.detach())
    plain = cfck.torch.save_checkpoint(tree, path)
    assert plain.kept_lossless == {}
    exact = load_file(path)
    cfck.torch.save_checkpoint(tree, path, max_sigma_error=1e-2)
    for name, tensor in load_file(path).items():
        if name != "model.weight":
            assert_same(tensor, exact[name])
    # A rule reaches it.
    rules = {"*exp_avg_sq": {"max_sigma_error": 1e-2, "codec": "direct", "force": True}}
    cfck.torch.save_checkpoint(tree, path, rules=rules)
    lossy = {name for name, record in records(path).items() if record.bound}
    assert len(lossy) == 4
    assert lossy == {name for name in exact if name.endswith("exp_avg_sq")}


def test_names_that_only_remind_of_optimizers(path):
    tree = {"optimal_transport": {"weight": weights(64, 64)}, "state": weights(64, 64, seed=2)}
    assert cfck.torch.save_checkpoint(tree, path, max_abs_error=1e-3).kept_lossless == {}


def test_a_tensor_of_the_model_that_the_optimizer_has_too(path):
    weight = weights(64, 64)
    tree = {"model": {"w": weight}, "optimizer": {"copies": [weight]}}
    summary = cfck.torch.save_checkpoint(tree, path, max_abs_error=1e-3)
    kept = {"model.w": "optimizer_state", "optimizer.copies.0": "optimizer_state"}
    assert summary.kept_lossless == kept


def test_arrays_in_a_checkpoint(path):
    tree = {"w": weights(64, 64).numpy(), "optimizer": {"m": weights(64, 64, seed=2).numpy()}}
    summary = cfck.numpy.save_checkpoint(tree, path, max_abs_error=1e-3)
    assert summary.kept_lossless == {"optimizer.m": "optimizer_state"}
    loaded = cfck.numpy.load_checkpoint(path)
    np.testing.assert_array_equal(loaded["optimizer"]["m"], tree["optimizer"]["m"])
    assert 0 < np.abs(loaded["w"] - tree["w"]).max() <= 1e-3


def test_records_say_what_was_asked_and_lost(path):
    tensors = {"w": weights(300, 400), "twin": weights(300, 400), "ids": torch.arange(5)}
    save_file(tensors, path, max_rel_error=1e-3, per_row=True)
    with cfck.safe_open(path, "pt") as file:
        assert [record.name for record in file.records()] == ["w", "twin", "ids"]
        record = file.get_record("w")
        assert file.records()[0] == record
        for wrong in ("v", ""):
            with pytest.raises(cfck.NotFoundError, match="does not contain"):
                file.get_record(wrong)
    with pytest.raises(cfck.CfckError, match="not open"):
        file.records()
    errors = load_file(path)["w"].double() - tensors["w"].double()
    assert (record.bound_kind, record.bound, record.per_row) == ("rel", 1e-3, True)
    assert record.max_abs_error == errors.abs().max().item()
    assert record.rmse == pytest.approx(errors.square().mean().sqrt().item(), rel=1e-9)
    assert (record.dtype, record.shape, record.n_elems) == ("F32", (300, 400), 120000)
    assert (record.codec, record.entropy, record.kind) == (
        "direct",
        cfck._native.default_entropy(),
        "chunked",
    )
    assert record.decoded_bytes == 480000
    assert record.bits_per_weight == 8 * record.stored_bytes / 120000
    twin = records(path)["twin"]
    assert (twin.kind, twin.shares_with, twin.stored_bytes) == ("duplicate", "w", 0)
    assert (twin.bound, twin.rmse, twin.digest) == (record.bound, record.rmse, record.digest)
    ids = records(path)["ids"]
    assert ids.codec in ("raw", "lossless") and ids.shares_with is None
    lost = (ids.bound_kind, ids.bound, ids.per_row, ids.max_abs_error, ids.rmse)
    assert lost == (None,) * 5
    json.dumps([vars(record) for record in records(path).values()])


def test_records_say_what_the_program_says(path):
    base = weights(64, 64)
    tensors = {"w": base, "tied": base.view(64, 64), "twin": base.clone(), "ids": torch.arange(5)}
    rules = {"rows": {"max_rel_error": 1e-2, "per_row": True}}
    save_file({**tensors, "rows": weights(40, 50)}, path, max_sigma_error=1e-3, rules=rules)
    program = pathlib.Path(sys.executable).parent / "cfck-inspect"
    shown = subprocess.run([program, "--json", path], capture_output=True, check=True).stdout
    of_program = {record["name"]: record for record in json.loads(shown)["records"]}
    assert set(of_program) == set(records(path))
    for name, record in records(path).items():
        ours = json.loads(json.dumps(dataclasses.asdict(record)))
        assert of_program[name].items() <= ours.items()
        missing = {name: ours[name] for name in ours.keys() - of_program[name].keys()}
        assert not any(missing.values()), missing


def test_parts_of_a_lossy_tensor_are_those_of_the_whole(path):
    save_file({"w": weights(900, 700)}, path, max_abs_error=1e-3)
    whole = load_file(path)["w"]
    with cfck.safe_open(path, "pt") as file:
        part = file.get_slice("w")
        assert_same(part[100:777, ::3], whole[100:777, ::3].contiguous())
        assert_same(part[-1], whole[-1])


def test_the_bytes_do_not_depend_on_threads_or_framework():
    tensors = {f"w{i}": weights(300, 400 + i, seed=i) for i in range(4)}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    options = {"max_sigma_error": 1e-3, "rules": {"w2": {"max_abs_error": 1e-4}}}
    one = save(tensors, threads=1, **options)
    assert save(tensors, threads=3, **options) == one
    assert cfck.numpy.save(arrays, threads=2, **options) == one


def test_a_lossy_file_is_verified_and_can_be_saved_again(path):
    save_file({"w": weights(900, 700)}, path, max_abs_error=1e-3, verify=True)
    once = load_file(path)
    save_file(once, path, max_abs_error=1e-3, verify=True)
    assert largest_error(load_file(path)["w"], once["w"]) <= 1e-3


def test_saving_without_bounds_has_no_trace_of_them(path):
    save_file({"w": weights(64, 64)}, path)
    plain = path.read_bytes()
    nothing = {"max_abs_error": None, "max_rel_error": None, "max_sigma_error": None}
    save_file({"w": weights(64, 64)}, path, **nothing, per_row=False, rules={}, codec="auto")
    assert path.read_bytes() == plain
