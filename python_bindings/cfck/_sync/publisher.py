"""The publisher of versions of weights in a folder."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from .._common.checks import as_integer
from .._common.files import failure
from .._frameworks.framework import Framework
from .._io.archive import Archive
from .._io.save import write_prepared
from .._options.kinds import SaveBytesOptions, SaveOptions
from .._options.native import native_options
from .._options.signatures import complete
from ..errors import CfckError, CorruptError, InvalidArgumentError
from .chain import load_version
from .copies import Layout, at_least_one, framework_of_all, layout_of, on_host, overwrite
from .digests import digest_of, tensors_of
from .files import Lock, final_name, replace_file, sync_folder
from .manifest import (
    KEYFRAME,
    MAX_KEPT,
    PATCH,
    Entry,
    Manifest,
    check_name,
    check_version,
    file_name,
    manifest_name,
    read_manifest,
    version_of_file,
)
from .patches import write_patch
from .warning import warn

if TYPE_CHECKING:
    import numpy as np
    import torch

_Level = Literal["fast", "default", "archive"]


class _Base:
    """The weights of the newest version, on the host."""

    def __init__(
        self, version: int, framework: Framework[Any], tensors: dict[str, Any], layout: Layout
    ) -> None:
        self.version = version
        self.framework = framework
        self.tensors = tensors
        self.layout = layout

    def fits(self, framework: Framework[Any], layout: Layout) -> bool:
        """Whether tensors can be stored against it."""
        return type(self.framework) is type(framework) and self.layout == layout


class Publisher:
    """Publishes versions of weights in a folder, in which any number of Followers see them.

    The first version, every ``keyframe_every``-th one, and those whose names, dtypes or shapes are
    others than before are keyframes: files as save_file writes them. All others are patches, which
    are stored against the version before. docs/sync.md says what the folder contains.

    Args:
        folder: made if it does not exist. Other files in it are left alone.
        name: what the files are called: NAME-1.cfck, NAME-2.cfck... A folder may have versions of
            several names, with a publisher for each.
        keyframe_every: versions from one keyframe to the next, at most 20,000. Followers that join,
            or that met a damaged file, need one.
        keep: how many versions are kept, the newest ones, at most 20,000; None: ``keyframe_every``.
            Files that a kept version needs stay as long.
        resume: the first version of this publisher is stored against the newest one in the folder,
            if that can be loaded and proven; otherwise, and without it, it is a keyframe.
        level: how much work goes into the bytes: "fast", "default" or "archive".
        threads: worker threads; 0: the CPUs this process may use.
        fsync: sync files, so that what was published outlives a power failure.

    Use it as a context manager, or close() it. Files that a killed publisher left under such names
    are removed. All methods may be called from several threads; a forked child cannot publish.

    Raises:
        ExistsError: another publisher of this name has the folder.
        UnsupportedError: the folder has versions of a newer cfck.
        InvalidArgumentError, TypeError: an argument is wrong.
        IoError: the folder cannot be made, or not be written to.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        name: str = "weights",
        *,
        keyframe_every: int = 50,
        keep: int | None = None,
        resume: bool = False,
        level: _Level = "default",
        threads: int = 0,
        fsync: bool = True,
    ) -> None:
        self._folder = os.fsdecode(folder)
        self._name = check_name(name)
        keyframe_every = at_least_one("keyframe_every", keyframe_every)
        keep = keyframe_every if keep is None else at_least_one("keep", keep)
        self._keyframe_every = min(keyframe_every, MAX_KEPT)
        self._keep = min(keep, MAX_KEPT)
        for what, flag in (("resume", resume), ("fsync", fsync)):
            if not isinstance(flag, bool):
                raise TypeError(f"{what} is a bool, not {type(flag).__name__}")
        self._resumes = resume
        self._options: SaveBytesOptions = {"level": level, "threads": threads}
        native_options(complete(SaveBytesOptions, self._options))  # raises what is wrong with them
        self._sync = fsync
        self._base: _Base | None = None
        self._mutex = threading.Lock()
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise failure("make the folder", self._folder, error) from error
        self._lock = Lock(self._folder, f"{self._name}.lock", f"a publisher of {self._name!r}")
        try:
            self._manifest = self._stored_manifest()
            self._last = self._last_version()
            self._remove_leftovers()
        except BaseException:
            self._lock.release()
            raise
        # What is in memory may not be what is in the folder.
        self._is_unsure = False

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets others publish in the folder, and frees the copy of the weights."""
        with self._mutex:
            self._base = None
            self._lock.release()

    @property
    def version(self) -> int | None:
        """The newest version in the folder; None if it has none."""
        newest = self._manifest.newest
        return newest.version if newest else None

    @property
    def next_version(self) -> int:
        """The number that publish() takes by default: one more than any in the folder."""
        return max(self._last, self.version or 0) + 1

    def publish(
        self,
        state_dict: Mapping[str, torch.Tensor] | Mapping[str, np.ndarray],
        version: int | None = None,
        *,
        keyframe: bool = False,
    ) -> int:
        """Publishes weights; followers see all of them or nothing.

        Args:
            state_dict: names to numpy arrays, or to torch tensors on any device, as save_file takes
                them. They must not change during the call. A copy of them stays in host memory.
            version: ``next_version`` or a number above it; None: that.
            keyframe: make it a keyframe in any case.

        Returns:
            The number of the version.

        Raises:
            InvalidArgumentError: the version is not a new one; the publisher is closed;
                these are no tensors that can be saved. UnsupportedError: likewise, of single ones.
            IoError: the file system refused. The newest version is still the one before, and the
                next call may succeed; if only syncing the folder failed, the error says that the
                version was published.
        """
        with self._mutex:
            if not self._lock.is_held:
                raise InvalidArgumentError("the publisher is closed; make another one")
            framework = framework_of_all(state_dict)
            layout = layout_of(framework, state_dict)
            if self._is_unsure:
                self._look_again()
                self._remove_leftovers()
            number = self._number(version)
            base = self._base_for(framework, layout)
            with self._or_unsure(number):
                keeps_base = self._keyframe_every > 1
                taken = on_host(framework, state_dict, copy=base is None and keeps_base)
                metadata = _metadata(state_dict)
                entry = self._write(number, framework, taken.tensors, metadata, base, keyframe)
                self._list(entry)
                # Nothing may be stored against a base of which a part is overwritten.
                self._base = None
                if keeps_base:
                    reused = taken.tensors
                    if base is not None:
                        reused = overwrite(framework, base.tensors, taken)
                    self._base = _Base(number, framework, reused, layout)
            if self._sync:
                self._sync_listed(number)
            self._remove_leftovers()
            return number

    def _stored_manifest(self) -> Manifest:
        try:
            return read_manifest(self._folder, self._name) or Manifest.new(self._name)
        except CorruptError as error:
            warn(f"{error}; the next version begins a new one")
            return Manifest.new(self._name)

    def _look_again(self) -> None:
        """Whether a version was published shows in the folder. A manifest that was lost there is
        written again with the next version."""
        with contextlib.suppress(CorruptError):
            self._manifest = read_manifest(self._folder, self._name) or self._manifest

    def _last_version(self) -> int:
        """Also of files that no manifest names: what was once a number stays one."""
        if self.version is not None:
            return self.version
        found = (version_of_file(self._name, file) for file in self._files())
        return max([0, *filter(None, found)])

    def _files(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError as error:
            raise failure("list", self._folder, error) from error

    def _remove_leftovers(self) -> None:
        """Removes what is named as files of ours and is not of a version that is kept. What cannot
        be removed is left for the next time."""
        if not self._manifest.entries:
            return  # perhaps it was lost: nothing goes before there is something newer
        kept = self._manifest.files()
        with contextlib.suppress(CfckError):
            self._remove_others(kept)

    def _remove_others(self, kept: set[str]) -> None:
        for file in self._files():
            unfinished = final_name(file)
            is_version = file not in kept and version_of_file(self._name, file) is not None
            is_unfinished = unfinished is not None and (
                unfinished == manifest_name(self._name)
                or version_of_file(self._name, unfinished) is not None
            )
            if is_version or is_unfinished:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._folder, file))

    def _number(self, version: int | None) -> int:
        if version is None:
            return self.next_version
        number = as_integer(version)
        if number is None:
            raise TypeError(f"version is int, not {type(version).__name__}: {version!r}")
        check_version(number)
        if number < self.next_version:
            raise InvalidArgumentError(
                f"version {number} was published in {self._folder} already, or one after it; the "
                f"next one is {self.next_version} or more"
            )
        return number

    def _base_for(self, framework: Framework[Any], layout: Layout) -> _Base | None:
        """What these tensors can be stored against; its memory can be used again for them."""
        newest = self._manifest.newest
        resumes, self._resumes = self._resumes, False
        if newest is None or self._keyframe_every == 1:
            return None
        if resumes and self._base is None:
            self._base = self._loaded(newest, framework)
        base = self._base
        if base is None or base.version != newest.version or not base.fits(framework, layout):
            self._base = None
            return None
        return base

    def _loaded(self, newest: Entry, framework: Framework[Any]) -> _Base | None:
        try:
            tensors = load_version(self._folder, self._manifest, newest, framework)
        except CfckError as error:
            warn(
                f"version {newest.version} in {self._folder} cannot be resumed from: {error}; a "
                "keyframe is published"
            )
            return None
        # Tied ones by being the same object, as overwrite() wants it.
        copies = on_host(framework, tensors, copy=True).tensors
        return _Base(newest.version, framework, copies, layout_of(framework, copies))

    @contextlib.contextmanager
    def _or_unsure(self, number: int) -> Iterator[None]:
        """After an error, what the folder has decides what was published."""
        self._is_unsure = True
        try:
            yield
        except BaseException:
            with contextlib.suppress(CfckError, OSError):
                self._look_again()
                file = file_name(self._name, number)
                if file not in self._manifest.files():
                    os.unlink(os.path.join(self._folder, file))
            raise
        self._is_unsure = False

    def _write(
        self,
        number: int,
        framework: Framework[Any],
        tensors: dict[str, Any],
        metadata: dict[str, str],
        base: _Base | None,
        keyframe: bool,
    ) -> Entry:
        """Writes the file of a version."""
        if base is not None and not keyframe and not self._is_time_for_keyframe():
            data = write_patch(base.tensors, tensors, metadata, self._options)
            if len(data) < self._keyframe_bytes():
                replace_file(self._folder, file_name(self._name, number), data, self._sync)
                digest = digest_of(tensors_of(Archive.from_bytes(data, {})))
                return Entry(number, PATCH, base.version, len(data), digest)
        path = os.path.join(self._folder, file_name(self._name, number))
        if os.path.islink(path):  # to a file elsewhere, which must stay as it is
            with contextlib.suppress(OSError):
                os.unlink(path)
        # No manifest names a file that may be there already.
        saving = cast(SaveOptions, {**self._options, "fsync": self._sync, "replace_base": True})
        write_prepared(framework.prepare(tensors), path, metadata, {}, saving)
        digest = digest_of(tensors_of(Archive.open(path, {})))
        return Entry(number, KEYFRAME, None, os.path.getsize(path), digest)

    def _is_time_for_keyframe(self) -> bool:
        return self._manifest.patches_since_keyframe() + 1 >= self._keyframe_every

    def _keyframe_bytes(self) -> int:
        """Of the last one. A patch that is no smaller has no use."""
        return next(e.n_bytes for e in reversed(self._manifest.entries) if e.kind == KEYFRAME)

    def _list(self, entry: Entry) -> None:
        """Puts a version whose file is there into the manifest."""
        manifest = self._manifest.with_entry(entry, self._keep)
        replace_file(self._folder, manifest_name(self._name), manifest.encoded(), self._sync)
        self._manifest = manifest
        self._last = entry.version

    def _sync_listed(self, number: int) -> None:
        try:
            sync_folder(self._folder)
        except CfckError as error:
            error.args = (f"version {number} was published, but: {error}",)
            raise


def _metadata(state_dict: object) -> dict[str, str]:
    """What save_file keeps beside the tensors of a state dict."""
    if not hasattr(state_dict, "_metadata"):
        return {}
    from .._io.module_versions import with_versions

    return with_versions(None, state_dict)
