"""python -m cfck.embeddings.bench: what it prints and writes, and what it says of bad input."""

import json
import os
import sys

import numpy as np
import pytest
import torch
from cfck._embedding_bench.command import main
from conftest import weights

DIM = 8


def lookup(n_rows, n_table=40, seed=1):
    ids = torch.randint(0, n_table, (n_rows,), generator=torch.Generator().manual_seed(seed))
    return weights(n_table, DIM, seed=seed)[ids].numpy(), ids.numpy()


def write_raw(folder, table, iteration, n_rows=300, seed=1):
    rows, ids = lookup(n_rows, seed=seed)
    rows.tofile(folder / f"EMB_{table}_iter_{iteration}.bin")
    ids.tofile(folder / f"IDS_{table}_iter_{iteration}.bin")
    return rows


@pytest.fixture
def dumps(tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    return folder


def run(capsys, *arguments):
    code = main([*map(str, arguments), "--dim", str(DIM)])
    said = capsys.readouterr()
    return code, said.out, said.err


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def measured(capsys, tmp_path, *arguments):
    out = tmp_path / "out.jsonl"
    code, _, err = run(capsys, *arguments, "--jsonl", out, "--force")
    assert code == 0, err
    return {(at["table"], at["iteration"], at["encoder"]): at for at in lines_of(out)}


def test_lines_of_raw_dumps(dumps, tmp_path, capsys):
    for table in (0, 1, 10):
        for iteration in (0, 64):
            write_raw(dumps, table, iteration, seed=table + 1)
    found = measured(capsys, tmp_path, dumps, "--bound", "0.03")
    assert {key[0] for key in found} == {"0", "1", "10", "all"}
    for (table, _, encoder), line in found.items():
        assert {"ratio", "encode_gbps", "decode_gbps"} <= set(line)
        assert line["ratio"] == pytest.approx(line["f32_bytes"] / line["bytes"])
        if table != "all":
            assert line["unique_inputs"] == line["unique_rows"] <= 40 and line["n_rows"] == 300
            if encoder != "fp16":
                assert line["largest_error"] <= 0.03 * line["range"] * (1 + 1e-9)
    ours = found["1", 64, "row_dictionary"]
    assert ours["ratio"] > found["1", 64, "huffman"]["ratio"] > 3
    assert ours["break_even_gbps"] > 0 and ours["speed_up"]["1.25"] > 0
    assert found["1", 64, "vector-lz"]["encode_gbps"] is None
    # One packet has all tables of an iteration.
    alone = sum(found[t, 0, "row_dictionary"]["bytes"] for t in ("0", "1", "10"))
    assert found["all", 0, "row_dictionary"]["bytes"] < alone
    zlib = sum(found[t, 0, "deflate"]["bytes"] for t in ("0", "1", "10"))
    assert found["all", 0, "deflate"]["bytes"] == zlib


def test_npz_and_pt_have_the_lines_of_raw_dumps(dumps, tmp_path, capsys):
    rows = write_raw(dumps, "t", 3)
    ids = np.fromfile(dumps / "IDS_t_iter_3.bin", np.int64)
    np.savez(tmp_path / "a.npz", EMB_t_iter_3=rows, IDS_t_iter_3=ids)
    tensors = {("t", 3): torch.from_numpy(rows), ("t", 3, "ids"): torch.from_numpy(ids)}
    torch.save(tensors, tmp_path / "a.pt")
    sizes = []
    for source in (dumps, tmp_path / "a.npz", tmp_path / "a.pt"):
        found = measured(capsys, tmp_path, source)
        sizes.append(
            {key: (line["bytes"], line.get("unique_inputs")) for key, line in found.items()}
        )
    assert sizes[0] == sizes[1] == sizes[2]
    torch.save({"users": torch.from_numpy(rows).bfloat16()}, tmp_path / "b.pt")
    assert ("users", 0, "direct") in measured(capsys, tmp_path, tmp_path / "b.pt")


def test_latencies_and_shared_cores_count(dumps, tmp_path, capsys):
    write_raw(dumps, 0, 0)
    results = tmp_path / "gpu.csv"
    results.write_text("table,iteration,encoder,ratio,encode_gbps,decode_gbps\n0,0,gpu,5,100,200\n")
    arguments = (dumps, "--bandwidth", "0.01", "--import-csv", results)
    latency = ("--latency", "1.5", "4", "--ranks-per-core", "2")
    found = measured(capsys, tmp_path, *arguments, *latency)
    line = found["all", 0, "row_dictionary"]
    size = line["f32_bytes"] / 1e9
    work = 2 * size * (1 / line["encode_gbps"] + 1 / line["decode_gbps"])
    expected = (size / 0.01 + 1.5e-3) / (size / line["ratio"] / 0.01 + work + 4e-3)
    assert line["speed_up"]["0.01"] == pytest.approx(expected)
    assert line["break_even_gbps"] == pytest.approx(
        size * (1 - 1 / line["ratio"]) / (work + 2.5e-3)
    )
    # How much is sent at once is not known of an imported line.
    assert found["0", 0, "gpu"]["speed_up"] is None
    assert measured(capsys, tmp_path, *arguments)["0", 0, "gpu"]["speed_up"]["0.01"] > 4
    found = measured(capsys, tmp_path, *arguments, "--latency", "4", "0")
    assert found["all", 0, "row_dictionary"]["break_even_gbps"] is None  # it always saves time
    code, out, _ = run(capsys, *arguments, *latency)
    assert code == 0 and "gpu" in out


@pytest.mark.parametrize("option, what", [
    (("--latency", "-1", "2"), "--latency is two numbers from 0 on, not -1.0"),
    (("--latency", "1", "nan"), "--latency is two numbers from 0 on, not nan"),
    (("--ranks-per-core", "0"), "--ranks-per-core is a positive number, not 0.0"),
])  # fmt: skip
def test_costs_are_numbers(dumps, capsys, option, what):
    write_raw(dumps, 0, 0)
    code, _, err = run(capsys, dumps, *option)
    assert code != 0 and what in err


def test_the_table_fits_a_terminal(dumps, capsys):
    write_raw(dumps, 0, 0)
    rates = [f"--bandwidth={rate}" for rate in (0.0125, 0.125, 1.25, 12.5)]
    code, out, _ = run(capsys, dumps, *rates)
    assert code == 0 and "row_dictionary" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_page_with_plots(dumps, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for iteration in (0, 1):
        write_raw(dumps, "<b>$x_1$", iteration)
    results = tmp_path / "gpu.csv"
    results.write_text(
        "table,iteration,encoder,ratio,encode_gbps,decode_gbps,note\n"
        "<b>$x_1$,0,<i>nvCOMP,5.5,100,200,x\n<b>$x_1$,1,<i>nvCOMP,6.5,,,\n"
    )
    page = tmp_path / "page.html"
    code, out, err = run(capsys, dumps, "--html", page, "--import-csv", results)
    assert code == 0, err
    text = page.read_text()
    assert text.count("<svg") == 2 and "&lt;i&gt;nvCOMP" in text and "<i>" not in text
    assert "http" not in text.replace("http://www.w3.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "")
    (own,) = [line for line in out.splitlines() if line.startswith("<i>nvCOMP")]
    assert own.split()[1] == "5.96"  # harmonic: all bytes together


def test_imported_results_that_are_none(dumps, tmp_path, capsys):
    write_raw(dumps, 0, 0)
    head = "table,iteration,encoder,ratio,encode_gbps,decode_gbps\n"
    for text, words in [
        ("table,encoder\n", "no column iteration, ratio"),
        (head + "0,0,gpu,fast,1,1\n", "line 2: ratio is 'fast'"),
        (head + "0,0,gpu,-1,1,1\n", "not a positive number"),
        (head + "0,0,gpu\n", "line 2: ratio is ''"),
        (head + "0,x,gpu,2,1,1\n", "iteration is 'x'"),
        (head + "0,0,row_dictionary,2,1,1\n", "is measured here"),
        (head + ",0,gpu,2,1,1\n", "has no name"),
    ]:
        (tmp_path / "x.csv").write_text(text)
        code, _, err = run(capsys, dumps, "--import-csv", tmp_path / "x.csv")
        assert code in (2, 4) and words in err, err
    assert run(capsys, dumps, "--import-csv", tmp_path / "none.csv")[0] == 3


def test_rows_that_are_constant_or_not_finite_or_none(tmp_path, capsys):
    rows, _ = lookup(200)
    holed = rows.copy()
    holed[3], holed[7, 1] = np.nan, np.inf
    spiked = rows.copy()
    spiked[0, 0] = 1e30
    np.savez(
        tmp_path / "a.npz",
        constant=np.full((50, DIM), 7, np.float32),
        nan=np.full((50, DIM), np.nan, np.float32),
        holed=holed,
        spiked=spiked,
        empty=np.zeros((0, DIM), np.float32),
    )
    found = measured(capsys, tmp_path, tmp_path / "a.npz")
    assert found["empty", 0, "row_dictionary"]["ratio"] is None
    assert found["constant", 0, "deflate"]["exceptions"] == 0
    assert found["constant", 0, "deflate"]["largest_error"] == 0
    assert found["holed", 0, "deflate"]["exceptions"] == DIM + 1
    assert found["nan", 0, "deflate"]["exceptions"] == 50 * DIM
    for table in ("holed", "nan", "spiked"):
        for encoder in ("row_dictionary", "direct", "deflate", "huffman", "vector-lz"):
            assert found[table, 0, encoder]["largest_error"] is not None
            assert (
                found[table, 0, encoder]["largest_error"]
                <= 0.03 * found[table, 0, encoder]["range"]
            )


def test_short_batches_are_filled(dumps, tmp_path, capsys):
    write_raw(dumps, 0, 0, n_rows=100)
    repeated = measured(capsys, tmp_path, dumps, "--pad", "repeat:1000")
    drawn = measured(capsys, tmp_path, dumps, "--pad", "resample:1000")
    line = drawn["0", 0, "vector-lz"]
    assert line["n_rows"] == 1000 == repeated["0", 0, "vector-lz"]["n_rows"]
    assert line["unique_rows"] == repeated["0", 0, "vector-lz"]["unique_rows"]
    # Copies in order are what deflate finds.
    assert drawn["0", 0, "deflate"]["bytes"] > repeated["0", 0, "deflate"]["bytes"]
    code, _, err = run(capsys, dumps, "--pad", "zero:10")
    assert code == 2 and "--pad is repeat:ROWS" in err


def test_bounds_of_tables(dumps, tmp_path, capsys):
    write_raw(dumps, "a", 0)
    write_raw(dumps, "b", 0)
    found = measured(capsys, tmp_path, dumps, "--bound", "0.05", "--bound", "b=0.01")
    assert found["a", 0, "direct"]["bound"] == 0.05 and found["b", 0, "direct"]["bound"] == 0.01
    assert found["a", 0, "direct"]["bytes"] < found["b", 0, "direct"]["bytes"]
    assert measured(capsys, tmp_path, dumps, "--bound", "auto")["a", 0, "ans"]["bound"] == 0.05
    for bound in ("c=0.1", "0", "nan", "2", "x"):
        code, _, err = run(capsys, dumps, "--bound", bound)
        assert code == 2 and "bound" in err


def test_what_exists_is_kept(dumps, tmp_path, capsys):
    write_raw(dumps, 0, 0)
    out = tmp_path / "out.jsonl"
    out.write_text("kept")
    code, _, err = run(capsys, dumps, "--jsonl", out)
    assert code == 8 and "--force" in err and out.read_text() == "kept"
    code, _, err = run(capsys, dumps, "--jsonl", tmp_path / "no" / "out.jsonl")
    assert code == 2 and "folder does not exist" in err
    assert run(capsys, dumps, "--bandwidth", "0")[0] == 2


def test_dumps_that_are_none(tmp_path, capsys):
    rows, ids = lookup(100)
    raw = tmp_path / "EMB_0_iter_0.bin"
    raw.write_bytes(rows.tobytes()[:-5])
    np.savez(tmp_path / "wide.npz", EMB_0_iter_0=np.zeros((4, DIM + 1), np.float32))
    np.savez(tmp_path / "flat.npz", a=np.zeros(8, np.float32))
    np.savez(tmp_path / "integers.npz", a=np.zeros((4, DIM), np.int32))
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    np.savez(tmp_path / "ids.npz", EMB_0_iter_0=rows, IDS_0_iter_0=ids[:-1])
    np.savez(tmp_path / "all.npz", all=rows)
    whole = (tmp_path / "ids.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "damaged.npz").write_bytes(whole[:2000] + b"\xff" * 50 + whole[2050:])
    (tmp_path / "noise.pt").write_bytes(b"\x80\x02cos\nsystem\n.")
    torch.save([1], tmp_path / "list.pt")
    torch.save({"a": 1}, tmp_path / "number.pt")
    torch.save({3: torch.zeros(4, DIM)}, tmp_path / "key.pt")
    (tmp_path / "other.txt").write_text("x")
    (tmp_path / "folder").mkdir()
    for name, code, words in [
        ("EMB_0_iter_0.bin", 4, "is truncated, or --dim is another"),
        ("wide.npz", 2, f"rows have {DIM + 1} values, not {DIM}"),
        ("flat.npz", 2, "two dimensions"),
        ("integers.npz", 2, "int32"),
        ("objects.npz", 4, "cannot be read"),
        ("ids.npz", 2, "one for each of 100 rows"),
        ("all.npz", 2, "no table is named 'all'"),
        ("cut.npz", 4, "cannot be read"),
        ("damaged.npz", 4, "cannot be read"),
        ("noise.pt", 4, "cannot be read"),
        ("list.pt", 2, "not a dict"),
        ("number.pt", 2, "no tensor"),
        ("key.pt", 2, "keys are names"),
        ("other.txt", 2, "a dump is"),
        ("folder", 2, "no rows in"),
        ("nowhere", 3, "no such file"),
    ]:
        found, out, err = run(capsys, tmp_path / name)
        assert found == code and words in err and not out, (name, found, err)
    good = tmp_path / "good.npz"
    np.savez(good, EMB_0_iter_0=rows)
    raw.write_bytes(rows.tobytes())
    found, _, err = run(capsys, good, raw)
    assert found == 2 and "are both the rows of table" in err


def test_what_is_not_measured_is_said_after_the_arguments_are_checked(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "lz4.block", None)  # as if it were not installed
    _, _, err = run(capsys, tmp_path / "nowhere")
    assert "lz4" not in err
    np.savez(tmp_path / "good.npz", EMB_0_iter_0=np.ones((4, 8), np.float32))
    _, _, err = run(capsys, tmp_path / "good.npz")
    assert "lz4 is not measured: pip install lz4" in err


@pytest.mark.parametrize(
    "tensor, words",
    [
        (torch.ones(4, DIM).to_sparse(), "is a sparse tensor"),
        (torch.ones(4, DIM, device="meta"), "has no values"),
        (torch.zeros(1).expand(1 << 34, DIM), "more than"),
    ],
    ids=["sparse", "meta", "expanded"],
)
def test_tensors_that_are_no_rows_in_memory(tensor, words, tmp_path, capsys):
    torch.save({"EMB_0_iter_0": tensor}, tmp_path / "a.pt")
    code, _, err = run(capsys, tmp_path / "a.pt")
    assert code != 0 and words in err and "EMB_0_iter_0" in err


def test_names_with_digits_that_are_no_numbers(tmp_path, capsys):
    names = ["10", "2", "²", "٣", "7" * 5000, "007"]
    arrays = {f"EMB_{name}_iter_0": lookup(30)[0] for name in names}
    np.savez(tmp_path / "a.npz", **arrays)
    found = measured(capsys, tmp_path, tmp_path / "a.npz")
    order = [key[0] for key in dict.fromkeys(found)]
    assert list(dict.fromkeys(order)) == ["2", "007", "10", "7" * 5000, "²", "٣", "all"]


@pytest.mark.parametrize("iteration", ["9" * 5000, "٣", "-1", ""])
def test_imported_iterations_that_are_none(iteration, dumps, tmp_path, capsys):
    write_raw(dumps, 0, 0)
    path = tmp_path / "a.csv"
    path.write_text(
        "table,iteration,encoder,ratio,encode_gbps,decode_gbps\n" + f"0,{iteration},x,2,1,1\n",
        encoding="utf-8",
    )
    code, _, err = run(capsys, dumps, "--import-csv", path)
    assert code != 0 and "iteration is" in err


def test_batches_are_not_filled_beyond_what_a_packet_may_have(dumps, capsys):
    write_raw(dumps, 0, 0)
    for rows in ("99999999999999", "2097153", "9" * 5000):
        code, _, err = run(capsys, dumps, "--pad", f"repeat:{rows}")
        assert code == 2 and "1 to 2097152 rows" in err


def test_a_pipe_is_no_dump(tmp_path, capsys):
    os.mkfifo(tmp_path / "EMB_0_iter_0.bin")
    code, _, err = run(capsys, tmp_path / "EMB_0_iter_0.bin")
    assert code == 2 and "neither a file nor a folder" in err
