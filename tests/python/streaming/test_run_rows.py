"""Embeddings decode the rows that are looked up."""

import numpy as np
import pytest
import torch
from cfck._streaming import rows as rows_module
from cfck.torch import compressed, save_file, save_model
from conftest import assert_same, weights
from streamed_models import assert_equal_outputs, loaded, pair, scrambled
from torch import nn

# Several chunks of 2**12 values, of 64 rows each; the last one is shorter.
N_ROWS, WIDTH = 1000, 64


@pytest.fixture(params=[{}, {"codec": "raw"}, {"bits_per_weight": 4}], ids=str)
def table(path, request):
    """A large embedding that runs from a file, and one that was loaded."""
    model = nn.Embedding(N_ROWS, WIDTH)
    with torch.no_grad():
        model.weight.copy_(weights(N_ROWS, WIDTH))
    return pair(model, path, chunk_elems=4096, **request.param)


def test_rows_are_those_of_the_table(table):
    streamed, expected = table
    generator = torch.Generator().manual_seed(1)
    for shape in [(), (1,), (5,), (3, 7), (2, 3, 4), (2000,), (0,), (2, 0)]:
        for _ in range(3):
            ids = torch.randint(0, N_ROWS, shape, generator=generator)
            assert_same(streamed(ids), expected(ids))
            assert_same(streamed(ids.int()), expected(ids.int()))
    for ids in (torch.arange(N_ROWS), torch.arange(N_ROWS).flip(0), torch.full((9,), N_ROWS - 1)):
        assert_same(streamed(ids), expected(ids))
        assert_same(streamed(ids[::3]), expected(ids[::3]))


def test_rows_that_replace_others(table, monkeypatch):
    monkeypatch.setattr(rows_module, "_KEPT_BYTES", 10 * WIDTH * 4)
    streamed, expected = table
    generator = torch.Generator().manual_seed(2)
    for n_ids in [3, 8, 2, 12, 9, 1, 10, 11, 40] * 5:
        ids = torch.randint(0, 60, (n_ids,), generator=generator)
        assert_same(streamed(ids), expected(ids))
    monkeypatch.setattr(rows_module, "_KEPT_BYTES", 0)
    streamed.half(), expected.half()
    for _ in range(3):
        ids = torch.randint(0, 60, (7,), generator=generator)
        assert_same(streamed(ids), expected(ids))


def test_each_chunk_is_decoded_once(table, monkeypatch):
    streamed, expected = table
    archive = streamed._cfck_supply.archive
    boxes = []
    read = archive.load_box

    def watched(name, starts, stops, *others):
        boxes.append((starts[0], stops[0]))
        return read(name, starts, stops, *others)

    monkeypatch.setattr(archive, "load_box", watched)
    monkeypatch.setattr(archive, "load_one", None)  # nothing decodes the whole
    ids = torch.tensor([[70, 3, 999, 70], [64, 127, 5, 3]])
    assert_same(streamed(ids), expected(ids))
    assert boxes == [(3, 6), (64, 128), (999, 1000)]
    boxes.clear()
    assert_same(streamed(ids), expected(ids))
    assert boxes == []  # they were kept
    streamed(torch.tensor([3, 66]))
    assert boxes == [(66, 67)]


def test_chunks_of_blocks_are_known(path):
    state = {"w": weights(2000, 300), "s": weights(2000, 300, seed=2)}
    save_file(state, path, rules={"s": {"bits_per_weight": 3}})
    from cfck._io.archive import Archive

    archive = Archive.open(path, {})
    found = {name: rows_module._rows_per_piece(archive, name) for name in state}
    whole = 2**18 // 300
    assert found["w"] == whole
    n_chunks = archive.record("s").n_chunks
    assert -(-2000 // found["s"]) == n_chunks


@pytest.mark.parametrize("wrong", [1, 7, 65, 1000])
def test_a_wrong_guess_of_chunks_is_slower_only(table, wrong):
    streamed, expected = table
    streamed(torch.tensor([1]))
    streamed._parameters["weight"].weight.rows()._piece = wrong
    ids = torch.randint(0, N_ROWS, (50,), generator=torch.Generator().manual_seed(3))
    assert_same(streamed(ids), expected(ids))


def test_rows_out_of_range(table):
    streamed, expected = table
    for bad in (N_ROWS, -1, 1 << 40):
        for one in (streamed, expected):
            with pytest.raises(IndexError, match="index out of range in self"):
                one(torch.tensor([0, bad]))
    for one in (streamed, expected):
        with pytest.raises(RuntimeError, match="indices"):
            one(torch.tensor([0.5]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 5, -1])
def test_bags(path, mode, padding):
    model = nn.EmbeddingBag(N_ROWS, WIDTH, mode=mode, padding_idx=padding)
    streamed, expected = pair(model, path, chunk_elems=4096)
    generator = torch.Generator().manual_seed(4)
    for last in (8, N_ROWS):
        ids = torch.randint(0, last, (40,), generator=generator)
        ids[3] = 5
        assert_equal_outputs(streamed, expected, ids, torch.tensor([0, 4, 4, 30]))
        assert_equal_outputs(streamed, expected, ids.reshape(8, 5))
        if mode == "sum":
            scales = torch.randn(8, 5, generator=generator)
            assert_same(
                streamed(ids.reshape(8, 5), per_sample_weights=scales),
                expected(ids.reshape(8, 5), per_sample_weights=scales),
            )


def test_subclasses_and_functions_read_rows(path, monkeypatch):
    class Scaled(nn.Embedding):
        def forward(self, ids):
            return super().forward(ids + 2) * 8

    streamed, expected = pair(Scaled(N_ROWS, WIDTH, padding_idx=0), path)
    monkeypatch.setattr(streamed._cfck_supply.archive, "load_one", None)
    ids = torch.tensor([3, 5])
    assert_equal_outputs(streamed, expected, ids)
    rows = nn.functional.embedding(ids, streamed.weight)
    assert_same(rows, nn.functional.embedding(ids, expected.weight))


def test_other_uses_of_a_table_decode_it(table):
    streamed, expected = table
    x = weights(3, WIDTH)
    assert_same(x @ streamed.weight.t(), x @ expected.weight.t())
    linear = nn.functional.linear
    assert_same(linear(x, streamed.weight), linear(x, expected.weight))
    assert_same(streamed.weight[3:5], expected.weight[3:5].detach())
    assert_same(streamed.weight.detach(), expected.weight.detach())
    assert_same(streamed.weight.data.clone(), expected.weight.data)
    assert streamed.weight.norm() == expected.weight.norm()


def test_a_table_that_changes_its_rows_is_loaded(path):
    model = nn.Embedding(N_ROWS, WIDTH, max_norm=0.5)
    save_model(model, path)
    streamed = compressed(scrambled(model), path)
    assert type(streamed) is nn.Embedding
    ids = torch.arange(10)
    assert_equal_outputs(streamed, loaded(model, path), ids)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_rows_of_other_dtypes(path, dtype):
    model = nn.Embedding(N_ROWS, WIDTH, dtype=dtype)
    streamed, expected = pair(model, path, chunk_elems=4096)
    ids = torch.arange(0, N_ROWS, 7)
    assert_equal_outputs(streamed, expected, ids)
    assert_equal_outputs(streamed.half(), expected.half(), ids)
    assert_equal_outputs(streamed.float(), expected.float(), ids)


def test_rows_of_a_part_of_a_tensor(path):
    base = weights(N_ROWS, 2 * WIDTH)
    save_file({"all": base, "weight": base[::2, WIDTH:]}, path, chunk_elems=4096)
    streamed = compressed(nn.Embedding(N_ROWS // 2, WIDTH), path, strict=False)
    for ids in (torch.tensor([3, 499, 0]), torch.arange(500)):
        assert_same(streamed(ids), base[::2, WIDTH:][ids])


def test_rows_of_safetensors(tmp_path):
    import safetensors.torch

    model = nn.Embedding(N_ROWS, WIDTH)
    safetensors.torch.save_model(model, tmp_path / "a.safetensors")
    streamed = compressed(scrambled(model), tmp_path / "a.safetensors")
    for seed in range(3):
        ids = torch.from_numpy(np.random.default_rng(seed).integers(0, N_ROWS, 100))
        assert_same(streamed(ids), model(ids).detach())
