"""Loads onto a CUDA device: cfck against plain copies and other loaders, in one run.

    python bench/gpu.py [--gigabytes 4] [--repeat 5] [-o RESULTS.json]

Values are random, of a spread that differs from row to row, as those of a network are. Files lie in
the page cache. Each way is timed in turn, several times over, and the median counts; rates are
decoded bytes by seconds. The copy rate is that of pinned memory in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cfck
import torch
from cfck.torch import load_file, save_file

Way = Callable[[], Any]


def network(n_bytes: int, dtype: torch.dtype, n_tensors: int) -> dict[str, torch.Tensor]:
    """Matrices of 1024 columns, together about n_bytes."""
    rows = n_bytes // (dtype.itemsize * 1024 * n_tensors)
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for i in range(n_tensors):
        spread = torch.exp2(-4 - 2 * torch.rand(rows, 1, generator=generator))
        tensors[f"layer{i}"] = (torch.randn(rows, 1024, generator=generator) * spread).to(dtype)
    return tensors


def seconds(ways: dict[str, Way], repeat: int) -> dict[str, float]:
    """The median time of each, taken in turn; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeat + 1):
        for name, way in ways.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            result = way()
            torch.cuda.synchronize()
            if turn:
                times[name].append(time.perf_counter() - start)
            del result
    return {name: statistics.median(values) for name, values in times.items()}


def copy_rate(n_bytes: int, repeat: int) -> float:
    """Bytes by second from pinned memory to the device."""
    host = torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
    return n_bytes / seconds({"copy": lambda: device.copy_(host)}, repeat)["copy"]


def loaders(path: Path, plain: Path) -> dict[str, Way]:
    """Every way that is installed here."""
    ways: dict[str, Way] = {
        "cfck, decoded by the device": lambda: load_file(path, "cuda:0", decode="device"),
        "cfck, decoded by the host": lambda: load_file(path, "cuda:0", decode="host"),
    }
    try:
        from safetensors.torch import load_file as load_safetensors

        ways["safetensors"] = lambda: load_safetensors(plain, device="cuda:0")
    except ImportError:
        pass
    return ways


def measure(
    name: str, tensors: dict[str, torch.Tensor], folder: Path, repeat: int, **options: Any
) -> dict[str, Any]:
    """One row: sizes, and the rate of each way."""
    path, plain = folder / "model.cfck", folder / "model.safetensors"
    save_file(tensors, path, **options)
    try:
        from safetensors.torch import save_file as save_safetensors

        save_safetensors(tensors, plain)
    except ImportError:
        pass
    on_host = load_file(path)
    for key, tensor in load_file(path, "cuda:0", decode="device").items():
        if not torch.equal(tensor.cpu(), on_host[key]):
            raise SystemExit(f"{name}: {key} differs")
    del on_host
    decoded = sum(t.numel() * t.element_size() for t in tensors.values())
    times = seconds(loaders(path, plain), repeat)
    return {
        "name": name,
        "decoded_bytes": decoded,
        "stored_bytes": path.stat().st_size,
        "gigabytes_per_second": {way: decoded / t / 1e9 for way, t in times.items()},
    }


def main() -> None:
    """Prints a row for each kind of file, and writes them where -o says."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if reason := cfck.cuda.why_not(0):
        raise SystemExit(f"nothing can be measured here: {reason}")
    n_bytes = int(given.gigabytes * 1e9)
    rate = copy_rate(min(n_bytes, 1 << 30), given.repeat)
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "pinned_copy_gigabytes_per_second": rate / 1e9,
        "rows": [],
    }
    print(f"{results['device']}: pinned copy {rate / 1e9:.1f} GB/s")
    cases = [
        ("lossless BF16", torch.bfloat16, n_bytes, 40, {}),
        ("lossless F32", torch.float32, n_bytes, 40, {}),
        ("direct F32, REL 1e-3", torch.float32, n_bytes, 40, {"max_rel_error": 1e-3}),
        ("lossless BF16, 45 MB in 100 tensors", torch.bfloat16, min(n_bytes, 45_000_000), 100, {}),
    ]
    for name, dtype, size, n_tensors, options in cases:
        with tempfile.TemporaryDirectory() as folder:
            tensors = network(size, dtype, n_tensors)
            row = measure(name, tensors, Path(folder), given.repeat, **options)
        floor = row["stored_bytes"] / rate
        row["share_of_copy_rate"] = floor / (
            row["decoded_bytes"] / 1e9 / row["gigabytes_per_second"]["cfck, decoded by the device"]
        )
        results["rows"].append(row)
        print(f"{name}: {row['decoded_bytes'] / row['stored_bytes']:.3f} times smaller")
        for way, value in row["gigabytes_per_second"].items():
            print(f"  {way:32} {value:8.2f} GB/s")
        print(f"  of the pinned copy rate times the ratio: {row['share_of_copy_rate']:.2f}")
    if given.output:
        given.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
