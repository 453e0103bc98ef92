"""A folder with a model of transformers, shrunk into another one."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._shrink.result import ShrinkResult
from .._shrink.shrink import shrink
from ..errors import InvalidArgumentError, MissingFileError, UnsupportedError

_MODEL = "model.cfck"
# Weights in any form, which the new folder has as model.cfck.
_WEIGHTS = (
    ".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".h5",
    ".msgpack", ".onnx", ".gguf", ".cfck", ".cfck.index.json",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FolderRequest:
    """A folder to shrink, and how.

    Attributes:
        source, target: the folders.
        keep, size, bits_per_weight: as for shrink().
        texts: files of text.
        encoding: of these.
        n_examples, n_tokens: how many pieces of text, and how long they are at most.
        threads: of the codec.
        force: whether ``target`` is replaced.
    """

    source: str
    target: str
    keep: Mapping[str, float]
    size: str | None
    bits_per_weight: float | None
    texts: list[str]
    encoding: str
    n_examples: int
    n_tokens: int
    threads: int
    force: bool


def shrink_folder(request: FolderRequest, say: Callable[[str], object]) -> ShrinkResult:
    """Writes the new folder, complete or not at all.

    Raises:
        UnsupportedError: PyTorch or transformers are not installed, or do not know the model.
        InvalidArgumentError: text that is not in its encoding, too little of it, and what shrink()
            raises.
        MissingFileError, OSError: of the folders and files.
    """
    _check(request)
    transformers = _transformers()
    texts = _read_texts(request)
    config, model = _load(transformers, request.source)
    batches = None
    if texts:
        is_causal = type(model).__name__.endswith(("ForCausalLM", "LMHeadModel"))
        batches = _batches(transformers, request, config, texts, is_causal)
    wanted: dict[str, Any] = {"size": request.size, "bits_per_weight": request.bits_per_weight}
    if request.keep:
        wanted["keep"] = request.keep
    with _new_folder(request) as folder:
        _copy_others(request.source, folder)
        result = shrink(
            model,
            os.path.join(folder, _MODEL),
            batches=batches,
            n_examples=request.n_examples,
            metadata={"format": "pt"},
            threads=request.threads,
            report=lambda text: say(text.replace(os.path.join(folder, _MODEL), _final(request))),
            **wanted,
        )
    return dataclasses.replace(result, filename=_final(request))


def _final(request: FolderRequest) -> str:
    return os.path.join(request.target, _MODEL)


def _check(request: FolderRequest) -> None:
    if not os.path.isdir(request.source):
        raise MissingFileError(f"there is no folder {request.source}", filename=request.source)
    if not os.path.isfile(os.path.join(request.source, "config.json")):
        raise InvalidArgumentError(
            f"{request.source} has no config.json; shrink takes folders of transformers. From "
            "Python, cfck.shrink(model, ...) takes any model"
        )
    if os.path.lexists(request.target) and not request.force:
        raise InvalidArgumentError(f"{request.target} exists already; --force replaces it")
    if os.path.lexists(request.target) and not os.path.isdir(request.target):
        raise InvalidArgumentError(f"{request.target} is no folder")
    if os.path.exists(request.target) and os.path.samefile(request.source, request.target):
        raise InvalidArgumentError("the new folder is that of the model")
    if request.n_examples < 1 or request.n_tokens < 2:
        raise InvalidArgumentError("--examples is at least 1, and --tokens 2")
    if not request.texts and request.keep:
        raise InvalidArgumentError("--keep needs --text to measure what is kept")


def _transformers() -> Any:
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise UnsupportedError(
            f"shrink needs PyTorch and transformers ({error}): pip install torch transformers"
        ) from None
    return transformers


def _read_texts(request: FolderRequest) -> list[str]:
    """The lines with words, of all files."""
    lines: list[str] = []
    for path in request.texts:
        try:
            with open(path, encoding=request.encoding) as file:
                text = file.read()
        except FileNotFoundError:
            raise MissingFileError(f"there is no file {path}", filename=path) from None
        except LookupError:
            raise InvalidArgumentError(f"there is no encoding {request.encoding!r}") from None
        except UnicodeError as error:
            where = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
            raise InvalidArgumentError(
                f"{path} is not text in {request.encoding}{where}; --encoding names another one, "
                "such as utf-16 or latin-1"
            ) from None
        if "\0" in text:
            raise InvalidArgumentError(
                f"{path} holds null characters: it is no text, or in another encoding than "
                f"{request.encoding}, such as utf-16"
            )
        lines += [line.strip() for line in text.splitlines() if line.strip()]
    if request.texts and not lines:
        raise InvalidArgumentError(f"there are no words in {', '.join(request.texts)}")
    return lines


def _load(transformers: Any, folder: str) -> tuple[Any, Any]:
    """The configuration and the model, as its architecture names it."""
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        names = getattr(config, "architectures", None) or []
        kind = getattr(transformers, names[0], None) if names else None
        kind = kind or transformers.AutoModel
        model = kind.from_pretrained(folder, dtype="auto", local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = (str(error).strip().splitlines() or [""])[0]
        raise UnsupportedError(f"transformers cannot load {folder}: {line}") from None
    return config, model.eval()


def _batches(
    transformers: Any, request: FolderRequest, config: Any, texts: list[str], is_causal: bool
) -> list[dict[str, Any]]:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            request.source, local_files_only=True
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = (str(error).strip().splitlines() or [""])[0]
        raise UnsupportedError(
            f"transformers cannot load the tokeniser of {request.source}: {line}"
        ) from None
    length = request.n_tokens
    most = getattr(config, "max_position_embeddings", None)
    if isinstance(most, int) and most > 1:
        length = min(length, most)
    if is_causal:
        return _pieces(tokenizer, request, texts, length)
    return _sentences(tokenizer, request, texts, length)


def _evenly(items: list[Any], wanted: int) -> list[Any]:
    if len(items) <= wanted:
        return items
    return [items[i * len(items) // wanted] for i in range(wanted)]


_IN_BATCH = 16


def _pieces(
    tokenizer: Any, request: FolderRequest, texts: list[str], length: int
) -> list[dict[str, Any]]:
    """Running text in pieces of equal length."""
    import torch

    ids = tokenizer("\n".join(texts), return_tensors="pt")["input_ids"][0]
    pieces = [ids[i : i + length] for i in range(0, len(ids) - length + 1, length)]
    if not pieces:
        raise InvalidArgumentError(
            f"the text has {len(ids)} tokens, not even one piece of {length}; give more text, or "
            "set --tokens"
        )
    chosen = torch.stack(_evenly(pieces, request.n_examples))
    return [
        {"input_ids": part, "attention_mask": torch.ones_like(part)}
        for part in (chosen[i : i + _IN_BATCH] for i in range(0, len(chosen), _IN_BATCH))
    ]


def _sentences(
    tokenizer: Any, request: FolderRequest, texts: list[str], length: int
) -> list[dict[str, Any]]:
    """A line each; those of similar length together."""
    chosen = _evenly(texts, request.n_examples)
    counts = [
        len(ids) for ids in tokenizer(chosen, truncation=True, max_length=length)["input_ids"]
    ]
    order = sorted(range(len(chosen)), key=counts.__getitem__)
    batches = []
    for first in range(0, len(order), _IN_BATCH):
        lines = [chosen[i] for i in order[first : first + _IN_BATCH]]
        given = tokenizer(
            lines, truncation=True, max_length=length, padding=True, return_tensors="pt"
        )
        batches.append(dict(given))
    return batches


@contextlib.contextmanager
def _new_folder(request: FolderRequest) -> Iterator[str]:
    """A folder that takes the name of the target when all is in it."""
    target = os.path.abspath(request.target)
    parent, name = os.path.split(target)
    if not os.path.isdir(parent):
        raise MissingFileError(f"there is no folder {parent} to write to", filename=parent)
    folder = tempfile.mkdtemp(prefix=f".{name}.", dir=parent)
    try:
        yield folder
        os.chmod(folder, 0o777 & ~_umask())
        old = None
        if os.path.lexists(target):
            old = tempfile.mkdtemp(prefix=f".{name}.old.", dir=parent)
            os.rename(target, os.path.join(old, name))
        try:
            os.rename(folder, target)
        except BaseException:
            if old is not None:
                os.rename(os.path.join(old, name), target)
                os.rmdir(old)
            raise
        if old is not None:
            shutil.rmtree(old)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _copy_others(source: str, folder: str) -> None:
    """Everything but weights and what is hidden."""
    for entry in sorted(os.listdir(source)):
        path = os.path.join(source, entry)
        if entry.startswith(".") or entry.endswith(_WEIGHTS):
            continue
        if os.path.isdir(path):
            shutil.copytree(
                path, os.path.join(folder, entry), ignore=shutil.ignore_patterns(".*", *_GLOBS)
            )
        else:
            shutil.copy2(path, os.path.join(folder, entry))


_GLOBS = [f"*{ending}" for ending in _WEIGHTS]
