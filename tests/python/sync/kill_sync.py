"""Kills a publisher and followers at random moments, and damages files under their hands.

    python tests/python/sync/kill_sync.py --kills 2000

Each version has weights that follow from its number, so that followers know what they must have.
At all times a follower must be equal to the version that it says, and after the next keyframe it
must have the newest one. The exit code is 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy: processes are forked

import ml_dtypes
import numpy as np
from cfck.sync import Follower, Publisher

NAME = "run"
KEYFRAME_EVERY = 10
N_FOLLOWERS = 2
# As many kills as there are between two looks at whether everybody has the newest version.
KILLS_BETWEEN_KEYFRAMES = 25
SECONDS_TO_FOLLOW = 120.0
DAMAGED_PER_KILL = 3 / 100

_SOURCE = np.random.default_rng(0)
_VALUES = _SOURCE.standard_normal(60_000, dtype=np.float32)
_PHASES = _SOURCE.integers(0, 50, _VALUES.size)


def weights(version: int) -> dict[str, np.ndarray]:
    """The weights of a version: 2 % of the values are others than in the version before."""
    values = _VALUES * (1 + (version + _PHASES) // 50 * np.float32(1 / 128))
    tensors = {
        "matrix": values[:40_000].reshape(200, 200),
        "half.weight": values[40_000:].astype(ml_dtypes.bfloat16).reshape(100, 200),
        "step": np.array(version),
        "ids": np.arange(100),
    }
    tensors["tied"] = tensors["matrix"]
    if version // 20 % 2:
        tensors["extra"] = np.full((version % 7 + 1, 3), version, np.int32)
    return tensors


def is_version(tensors: dict[str, np.ndarray], version: int) -> bool:
    expected = weights(version)
    return tensors.keys() == expected.keys() and all(
        tensors[name].dtype == array.dtype
        and tensors[name].shape == array.shape
        and tensors[name].tobytes() == array.tobytes()
        for name, array in expected.items()
    )


class Board:
    """Numbers that all processes see: what each has reached, and what it has done."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * (2 + 2 * N_FOLLOWERS))

    def __getitem__(self, place: int) -> int:
        return int(struct.unpack_from("<q", self._memory, 8 * place)[0])

    def __setitem__(self, place: int, number: int) -> None:
        struct.pack_into("<q", self._memory, 8 * place, number)


STOP, PUBLISHED = 0, 1


def reached(follower: int) -> int:
    """The place of a follower's version."""
    return 2 + follower


def updates(follower: int) -> int:
    """The place of the number of versions that a follower had, in all of its lives."""
    return 2 + N_FOLLOWERS + follower


def publish(folder: Path, board: Board, seed: int) -> None:
    with Publisher(
        folder, NAME, keyframe_every=KEYFRAME_EVERY, keep=8, resume=seed % 3 == 0
    ) as publisher:
        while True:
            stops = board[STOP]
            version = publisher.next_version
            assert publisher.publish(weights(version), version) == version
            board[PUBLISHED] += 1
            if stops and manifest(folder)["versions"][-1]["kind"] == "keyframe":
                return


def follow(folder: Path, board: Board, number: int) -> None:
    follower = Follower(folder, NAME)
    model: dict[str, np.ndarray] = {}
    last = None
    while True:
        version = follower.poll(model)
        if version is not None:
            board[updates(number)] += 1
        last = version or last
        assert last is None or is_version(model, last), f"the model is not version {last}"
        assert follower.status().version == last
        board[reached(number)] = last or 0
        if version is None:
            time.sleep(0.002)


def manifest(folder: Path) -> dict:
    return json.loads((folder / f"{NAME}-manifest.json").read_bytes())


class Trial:
    """All processes, and who kills them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.board = Board()
        self.processes: dict[int, int] = {}  # of who (-1: the publisher, 0 and more: followers)
        self.counts = {"publisher": 0, "followers": 0, "unfinished": 0, "damaged": 0, "missing": 0}
        self.keyframes = 0

    def start(self, who: int) -> None:
        seed = self.random.getrandbits(30)
        pid = os.fork()
        if pid:
            self.processes[who] = pid
            return
        code = 1
        try:
            warnings.simplefilter("ignore")
            if who < 0:
                publish(self.folder, self.board, seed)
            else:
                follow(self.folder, self.board, who)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def kill(self, who: int) -> None:
        pid = self.processes.pop(who)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), f"process {who} ended by itself"
        if who >= 0:
            self.counts["followers"] += 1
            self.board[reached(who)] = 0
            return
        self.counts["publisher"] += 1
        try:
            listed = {one["file"] for one in manifest(self.folder)["versions"]}
        except (OSError, ValueError):
            listed = set()
        files = {file for file in os.listdir(self.folder) if file.endswith(".cfck")}
        is_unfinished = any(file.startswith(".") for file in os.listdir(self.folder))
        self.counts["unfinished"] += bool(files - listed) or is_unfinished

    def damage(self) -> None:
        """A byte is flipped, the end is cut off, or the file is gone."""
        files = [file for file in os.listdir(self.folder) if file.endswith((".cfck", ".json"))]
        path = self.folder / self.random.choice(files)
        try:
            data = bytearray(path.read_bytes())
            how = self.random.choice(["flip", "cut", "remove"])
            self.counts["missing" if how == "remove" else "damaged"] += 1
            if how == "remove":
                path.unlink()
                return
            place = self.random.randrange(len(data))
            if how == "cut":
                del data[place:]
            else:
                data[place] ^= 1 << self.random.randrange(8)
            with open(path, "r+b") as file:  # the same file, as a disk would do it
                file.write(data)
                file.truncate()
        except FileNotFoundError:
            pass  # removed meanwhile, as the publisher does with old ones

    def wait_for_keyframe(self) -> None:
        """Lets the publisher go on to a keyframe and end; then everybody must have it."""
        self.board[STOP] = 1
        _, status = os.waitpid(self.processes.pop(-1), 0)
        assert status == 0, "the publisher failed"
        self.board[STOP] = 0
        newest = manifest(self.folder)["versions"][-1]["version"]
        end = time.monotonic() + SECONDS_TO_FOLLOW
        for who in range(N_FOLLOWERS):
            while self.board[reached(who)] != newest:
                self.check_alive()
                assert time.monotonic() < end, (
                    f"follower {who} has version {self.board[reached(who)]}, and not {newest}"
                )
                time.sleep(0.002)
        self.keyframes += 1

    def check_alive(self) -> None:
        for who, pid in self.processes.items():
            ended, _ = os.waitpid(pid, os.WNOHANG)
            assert not ended, f"process {who} ended by itself"

    def run(self, kills: int) -> None:
        for who in range(-1, N_FOLLOWERS):
            self.start(who)
        for number in range(kills):
            time.sleep(self.random.uniform(0, 0.06))
            who = -1 if self.random.random() < 0.5 else self.random.randrange(N_FOLLOWERS)
            self.kill(who)
            if self.random.random() < DAMAGED_PER_KILL or number == kills // 2:
                self.damage()
            self.start(who)
            if number % KILLS_BETWEEN_KEYFRAMES == KILLS_BETWEEN_KEYFRAMES - 1:
                self.wait_for_keyframe()
                self.start(-1)
        self.wait_for_keyframe()

    def close(self) -> None:
        for pid in self.processes.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def result(self) -> dict[str, int]:
        had = sum(self.board[updates(who)] for who in range(N_FOLLOWERS))
        return {
            **self.counts,
            "published": self.board[PUBLISHED],
            "followed": had,
            "keyframes_waited_for": self.keyframes,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), arguments.seed)
        try:
            trial.run(arguments.kills)
        except AssertionError as error:
            print(f"after {trial.result()}: {error}", file=sys.stderr)
            return 1
        finally:
            trial.close()
    print(json.dumps({**trial.result(), "seconds": round(time.monotonic() - begin, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
