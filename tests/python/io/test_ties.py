"""Tensors that share memory are stored once and share it again; equal ones do not."""

import cfck
import pytest
import torch
from cfck.torch import load, load_file, save, save_file
from conftest import assert_same, shares_memory, weights


def test_tied_tensors_are_stored_once_and_come_back_tied():
    tensor = weights(300, 300)
    once = len(save({"a": tensor}))
    data = save({"a": tensor, "b": tensor, "c": tensor.detach()})
    assert len(data) < once + 300
    loaded = load(data)
    for name in "abc":
        assert_same(loaded[name], tensor)
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr() == loaded["c"].data_ptr()
    loaded["b"].zero_()
    assert not loaded["a"].any()


def test_equal_tensors_are_stored_once_and_come_back_separate():
    tensor = weights(300, 300)
    once = len(save({"a": tensor}))
    data = save({"a": tensor, "b": tensor.clone()})
    assert len(data) < once + 300
    loaded = load(data)
    assert_same(loaded["b"], tensor)
    assert not shares_memory(loaded["a"], loaded["b"])
    loaded["a"].zero_()
    assert_same(loaded["b"], tensor)


@pytest.mark.parametrize("order", [["base", "view"], ["view", "base"]])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t(),
        lambda x: x[3:7],
        lambda x: x[:, 2:9:3],
        lambda x: x.reshape(-1)[5:17],
        lambda x: x[4, 5],
        lambda x: x[2:3].expand(4, -1),
        lambda x: x.as_strided((4, 4), (3, 2), 7),
        lambda x: x.unsqueeze(1),
    ],
)
def test_views_keep_their_strides(make, order):
    base = weights(20, 30)
    tensors = {"base": base, "view": make(base)}
    loaded = load(save({name: tensors[name] for name in order}))
    assert list(loaded) == order
    assert_same(loaded["base"], base)
    assert_same(loaded["view"], tensors["view"])
    assert loaded["view"].storage_offset() == tensors["view"].storage_offset()
    for size, actual, expected in zip(
        loaded["view"].shape, loaded["view"].stride(), tensors["view"].stride(), strict=True
    ):
        assert size == 1 or actual == expected
    loaded["base"].zero_()
    assert not loaded["view"].any()


def test_halves_of_one_storage_are_ordinary_tensors():
    flat = weights(1000)
    loaded = load(save({"left": flat[:400], "right": flat[400:]}))
    assert_same(loaded["left"], flat[:400])
    assert_same(loaded["right"], flat[400:])
    assert not shares_memory(loaded["left"], loaded["right"])


def test_overlapping_pieces_share_a_storage_that_has_no_name(path):
    flat = weights(1000)
    save_file({"left": flat[:600], "right": flat[300:900]}, path)
    loaded = load_file(path)
    assert list(loaded) == ["left", "right"]
    assert_same(loaded["left"], flat[:600])
    assert_same(loaded["right"], flat[300:900])
    loaded["left"][300:].zero_()
    assert not loaded["right"][:300].any()
    with cfck.safe_open(path, "pt") as file:
        assert file.keys() == ["left", "right"]
        assert_same(file.get_tensor("right"), flat[300:900])
        assert_same(file.get_slice("right")[10:20], flat[310:320])


def test_views_of_another_dtype_are_stored_apart():
    tensor = weights(100)
    loaded = load(save({"float": tensor, "int": tensor.view(torch.int32)}))
    assert_same(loaded["int"], tensor.view(torch.int32))
    assert_same(loaded["float"], tensor)


def test_a_tie_survives_on_any_device_the_file_is_loaded_to(path):
    tensor = weights(10, 10)
    save_file({"a": tensor, "b": tensor.t()}, path)
    loaded = load_file(path, "meta")
    assert loaded["b"].stride() == (1, 10)
    assert loaded["a"].untyped_storage()._cdata == loaded["b"].untyped_storage()._cdata


def test_one_alias_alone_is_read_without_its_base(path):
    base = weights(1000, 100)
    save_file({"a": base, "row": base[7]}, path)
    with cfck.safe_open(path, "pt") as file:
        row = file.get_tensor("row")
        assert row.untyped_storage().nbytes() == 400
        assert_same(row, base[7])
        tied = file.get_tensors()
    assert shares_memory(tied["a"], tied["row"])


def test_float4_views(path):
    base = torch.arange(240, dtype=torch.uint8).reshape(12, 20)
    pairs = base.view(torch.float4_e2m1fn_x2)
    save_file({"a": pairs, "rows": pairs[2:5]}, path)
    loaded = load_file(path)
    assert torch.equal(loaded["rows"].view(torch.uint8), base[2:5])
    assert shares_memory(loaded["a"], loaded["rows"])


def test_what_no_view_has_is_not_saved():
    flat = torch.full((100_000,), -123456.789)
    flat[::99_999] = 1.0
    data = save({"ends": flat[::99_999], "first": flat[:1]}, codec="raw")
    assert flat[1:2].numpy().tobytes() not in data
    assert len(data) < 1000
    loaded = load(data)
    assert_same(loaded["ends"], flat[::99_999])
    assert shares_memory(loaded["ends"], loaded["first"])


def test_views_that_cannot_be_tied_without_what_is_between_them_are_stored_apart(path):
    flat = weights(6000)
    with pytest.warns(cfck.SharedMemoryWarning, match="stored separately.*: 'halves'"):
        summary = save_file({"halves": flat[::2], "thirds": flat[::3]}, path)
    assert summary.stored_apart == ("halves",)
    loaded = load_file(path)
    assert_same(loaded["thirds"], flat[::3])
    assert not shares_memory(loaded["halves"], loaded["thirds"])


def test_a_tensor_equal_to_one_that_has_ties_is_stored_once():
    tensor = weights(300, 300)
    once = len(save({"a": tensor}))
    for names in ("abc", "cab"):
        tensors = {name: tensor.clone() if name == "c" else tensor for name in names}
        data = save(tensors)
        assert len(data) < once + 300
        loaded = load(data)
        assert loaded["a"].data_ptr() == loaded["b"].data_ptr()
        assert not shares_memory(loaded["a"], loaded["c"])
        assert_same(loaded["c"], tensor)
