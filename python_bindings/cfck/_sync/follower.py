"""The follower of the versions in a folder."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from .._common.near import listed
from .._frameworks.choose import find_framework
from .._frameworks.framework import Framework
from .._options.kinds import OpenOptions
from .._options.native import check_max_decoded_bytes, check_threads
from ..errors import (
    CfckError,
    ChecksumError,
    CorruptError,
    MissingBaseError,
    TruncatedError,
    UnsupportedError,
)
from .chain import NotThereError, Weights, best_way, read_keyframe, read_next
from .digests import TensorInfo
from .manifest import KEYFRAME, Entry, Manifest, check_name, file_name, manifest_name, read_manifest
from .receiver import Receiver, check_model, default_framework
from .warning import warn

if TYPE_CHECKING:
    import torch

# Called as on_tensors(version, tensors).
OnTensors = Callable[[int, Mapping[str, Any]], object]

_DAMAGE = (ChecksumError, CorruptError, TruncatedError, UnsupportedError)
# A poll gives up after so many changes of the folder under its hands; the next one goes on.
_MAX_TRIES = 100


@dataclasses.dataclass(frozen=True)
class FollowerStatus:
    """What a follower knows.

    Attributes:
        version: what the model has; None before the first version.
        newest: the newest version in the folder, when it was last looked at; None: there was none.
        problems: files that could not be used, and why. A file that is no longer in the manifest
            is no problem any more.
    """

    version: int | None
    newest: int | None
    problems: Mapping[str, str]


class Follower:
    """Follows the versions that a Publisher puts into a folder.

    It keeps the weights of its version in host memory, since patches are applied to them. It works
    around damaged and missing files: it takes another way to the newest version, or stays at the
    newest one that it can reach until there is a keyframe. A SyncWarning tells of each once, and
    status() as long as it matters.

    Args:
        folder: that of the publisher. It need not exist yet.
        name: what the files are called, as the publisher has it.
        on_tensors: called as on_tensors(version, tensors) by poll(), for models that hold tensors
            fused, sharded or in another process: gets whole tensors by name, on the host; all of
            them the first time, then those whose values changed. They are valid during the call,
            and must not be changed. If it raises, the next poll hands over all of them.
        strict: a module must have exactly the names of the version; False: what both have is
            filled, which must be one tensor at least.
        framework: "pt" or "np": whose tensors on_tensors gets; None: that of the model, and without
            one torch if it is imported.
        threads: worker threads; 0: the CPUs this process may use.
        max_decoded_bytes: the most that a keyframe may decode to, also as text ("60GB"); 0:
            max(16 GiB, 64 times the file).

    Any number of followers may use one folder, to which they write nothing. All methods may be
    called from several threads.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        name: str = "weights",
        *,
        on_tensors: OnTensors | None = None,
        strict: bool = True,
        framework: Literal["pt", "np"] | None = None,
        threads: int = 0,
        max_decoded_bytes: int | str = 0,
    ) -> None:
        self._folder = os.fsdecode(folder)
        self._name = check_name(name)
        if on_tensors is not None and not callable(on_tensors):
            raise TypeError(
                "on_tensors is called as on_tensors(version, tensors); it is not "
                f"{type(on_tensors).__name__}"
            )
        if not isinstance(strict, bool):
            raise TypeError(f"strict is a bool, not {type(strict).__name__}")
        self._on_tensors = on_tensors
        self._strict = strict
        self._framework = None if framework is None else find_framework(framework)
        self._options: OpenOptions = {
            "threads": check_threads(threads),
            "max_decoded_bytes": check_max_decoded_bytes(max_decoded_bytes, {}),
        }
        self._held: Weights | None = None
        # History and version of what the model has, and of what was handed to on_tensors.
        self._filled: tuple[str, int] | None = None
        self._handed: tuple[str, int] | None = None
        self._handed_tensors: dict[str, TensorInfo] = {}
        self._receiver = Receiver()
        self._newest: int | None = None
        self._damaged: dict[Entry, str] = {}
        self._missing: dict[Entry, str] = {}
        self._suspected: set[Entry] = set()
        self._manifest_problem: str | None = None
        self._told: set[object] = set()
        self._mutex = threading.RLock()

    def poll(
        self,
        model: torch.nn.Module | dict[str, Any] | None = None,
        on_tensors: OnTensors | None = None,
    ) -> int | None:
        """Brings the model to the newest version that can be reached. Waits for nothing.

        Args:
            model: a torch module, whose parameters and buffers are filled where they are; or a dict
                of numpy arrays or torch tensors, which becomes the version: tensors that fit are
                filled where they are, others replaced, and those of other names removed. It may be
                empty. Nothing else should write to what the follower fills: the next version
                overwrites that, with a SyncWarning that names the tensors which the version does
                not change. None: on_tensors alone.
            on_tensors: in place of that of the follower.

        Returns:
            The version that the model has now; None if nothing is new.

        Raises:
            InvalidArgumentError: the version does not fit the module; with ``strict=False`` too, if
                they have no name in common.
            UnsupportedError: a newer cfck wrote the manifest; a module has tensors that cannot be
                filled.
            LimitExceededError, OutOfMemoryError: as load_file.
            TypeError: there is neither a model nor on_tensors.

        The model changes only when a whole version was decoded and proven. An error while its
        tensors are copied leaves it with some of both; then the next poll fills all.
        """
        with self._mutex:
            tell = on_tensors if on_tensors is not None else self._on_tensors
            if model is None and tell is None:
                raise TypeError("poll() takes a model, or on_tensors")
            if model is not None:
                check_model(model)
            framework = self._choose_framework(model)
            self._advance(framework)
            is_new = model is not None and self._fill(model)
            is_new |= tell is not None and self._hand_over(tell)
            return self._held.version if is_new and self._held is not None else None

    def status(self) -> FollowerStatus:
        """What the follower knows, as of the last poll."""
        with self._mutex:
            problems = {
                file_name(self._name, entry.version): why
                for entry, why in (*self._damaged.items(), *self._missing.items())
            }
            if self._manifest_problem is not None:
                problems[manifest_name(self._name)] = self._manifest_problem
            had = self._filled or self._handed
            version = had[1] if had else None
            return FollowerStatus(version, self._newest, problems)

    def _choose_framework(self, model: Any) -> Framework[Any]:
        if model is None:
            if self._framework is None:
                self._framework = find_framework("pt" if "torch" in sys.modules else "np")
            return self._framework
        of_model = default_framework(model)
        if self._framework is None or (model and type(of_model) is not type(self._framework)):
            # Tensors of another library are read again.
            self._framework, self._held = of_model, None
        return self._framework

    def _advance(self, framework: Framework[Any]) -> None:
        """Reads what is new into ``self._held``."""
        self._missing = {}
        for _ in range(_MAX_TRIES):
            manifest = self._look()
            if manifest is None:
                return
            excluded = [entry.version for entry in (*self._damaged, *self._missing)]
            way = best_way(manifest, self._held, excluded)
            if all(self._take(manifest, entry, framework) for entry in way):
                return

    def _look(self) -> Manifest | None:
        """The manifest; None where there is none that can be used."""
        try:
            manifest = read_manifest(self._folder, self._name)
        except UnsupportedError:
            raise
        except (CorruptError, OSError) as error:
            self._manifest_problem = str(error)
            self._tell(str(error), str(error))
            return None
        self._manifest_problem = None
        listed = frozenset(manifest.entries) if manifest else frozenset()
        self._damaged = {e: why for e, why in self._damaged.items() if e in listed}
        self._missing = {e: why for e, why in self._missing.items() if e in listed}
        self._told &= listed
        self._suspected &= listed
        self._newest = manifest.newest.version if manifest and manifest.newest else None
        return manifest

    def _take(self, manifest: Manifest, entry: Entry, framework: Framework[Any]) -> bool:
        """Reads the file of a version. False if it cannot be used, now or ever."""
        held = self._held
        try:
            self._held = self._read(manifest, entry, framework)
        except NotThereError as error:
            if self._is_listed(entry):
                self._missing[entry] = str(error)
                self._tell(entry, str(error))
        except MissingBaseError as error:
            # Somebody wrote to the weights here, or, where they were just read, the file is wrong.
            if entry in self._suspected:
                self._damaged[entry] = str(error)
            self._suspected.add(entry)
            self._held = None
            self._tell(entry, f"{file_name(self._name, entry.version)}: {error}")
            return False
        except _DAMAGE as error:
            self._damaged[entry] = str(error)
            self._tell(entry, f"{file_name(self._name, entry.version)} is damaged: {error}")
        except OSError as error:
            self._missing[entry] = str(error)
            self._tell(entry, str(error))
        return self._held is not held

    def _read(self, manifest: Manifest, entry: Entry, framework: Framework[Any]) -> Weights:
        if entry.kind == KEYFRAME:
            return read_keyframe(self._folder, manifest, entry, framework, self._options)
        held, self._held = self._held, None  # in the middle of a patch there are no weights
        assert held is not None
        try:
            return read_next(self._folder, manifest, entry, held, self._options)
        except MemoryError:
            raise  # perhaps in the middle
        except CfckError:
            self._held = held  # which is as it was
            raise

    def _is_listed(self, entry: Entry) -> bool:
        """Whether a file that is not there should be: others are removed in time."""
        manifest = self._look()
        return manifest is not None and entry in manifest.entries

    def _tell(self, key: object, message: str) -> None:
        if key not in self._told:
            self._told.add(key)
            warn(message)

    def _fill(self, model: Any) -> bool:
        """Brings the model to what was read. False if nothing is new."""
        held = self._held
        is_other = not self._receiver.is_of(model)
        if held is None or not (is_other or _is_newer(held, self._filled)):
            return False
        self._filled = None
        overwritten = self._receiver.fill(
            model, held.framework, held.tensors, held.infos, self._strict
        )
        self._filled = held.history, held.version
        if overwritten:
            warn(
                f"somebody else wrote to {listed(overwritten)} of the model, which the follower "
                f"had filled; they have the values of version {held.version} now"
            )
        return True

    def _hand_over(self, tell: OnTensors) -> bool:
        """Tells of what was read. False if nothing is new."""
        held = self._held
        if held is None or not _is_newer(held, self._handed):
            return False
        had, self._handed_tensors, self._handed = self._handed_tensors, {}, None
        changed = [name for name, info in held.infos.items() if had.get(name) != info]
        tell(held.version, {name: held.tensors[name] for name in changed})
        self._handed_tensors = dict(held.infos)
        self._handed = held.history, held.version
        return True


def _is_newer(held: Weights, before: tuple[str, int] | None) -> bool:
    """The same version may have been read again, or an older one when that was impossible."""
    return before is None or before[0] != held.history or before[1] < held.version
