"""A folder with a model of transformers, shrunk into another one."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from .._options.native import check_threads
from .._shrink.goals import Goal, goals_of
from .._shrink.result import ShrinkInterrupted, ShrinkResult
from .._shrink.shrink import shrink
from .._shrink.wishes import FEWEST_EXAMPLES, check_confidence, targets_of
from ..errors import (
    CfckError,
    CorruptError,
    InvalidArgumentError,
    MissingFileError,
    OutOfMemoryError,
    UnsupportedError,
)
from .copies import copy_others, kept_names
from .new_folder import new_folder
from .places import MODEL, Places, find_places


@dataclasses.dataclass(frozen=True)
class FolderRequest:
    """A folder to shrink, and how.

    Attributes:
        source, target: the folders.
        keep, confidence, size, bits_per_weight: as for shrink().
        texts: files of text.
        encoding: of these.
        n_examples, n_tokens: how many pieces of text, and how long they are at most.
        threads: of the codec.
        force: whether the folder of a model at ``target`` is replaced.
        quiet: whether no progress is shown.
    """

    source: str
    target: str
    keep: Mapping[str, float]
    size: str | None
    bits_per_weight: float | None
    confidence: float
    texts: list[str]
    encoding: str
    n_examples: int
    n_tokens: int
    threads: int
    force: bool
    quiet: bool


def shrink_folder(request: FolderRequest, say: Callable[[str], object]) -> ShrinkResult:
    """Writes the new folder, complete or not at all.

    All that the arguments and the text tell is judged before PyTorch is imported, which may take
    half a minute, and the model is loaded.

    Raises:
        UnsupportedError: PyTorch or transformers are not installed, or do not know the model.
        InvalidArgumentError: text that is not in its encoding, too little of it, folders within
            each other, and what shrink() raises.
        ExistsError: the new folder exists, without ``force``.
        CorruptError: files of the model are damaged.
        MissingFileError, OSError: of the folders and files.
        ShrinkInterrupted: the new folder has the best file that had been found by then.
    """
    places = find_places(request.source, request.target, request.texts, request.force)
    goals = _check(request)
    texts = _read_texts(request)
    _check_model(places.source, request, goals, texts)
    say(f"loading {request.source}")
    transformers = _transformers()
    config, model = _load(transformers, request, places.source)
    batches = None
    if texts:
        is_causal = type(model).__name__.endswith(_WRITERS)
        tokenizer = _load_tokenizer(transformers, request, places.source)
        with _refused(f"the tokeniser of {request.source} does not take the text"):
            batches = _batches(tokenizer, request, config, texts, is_causal)
    wanted: dict[str, Any] = {"size": request.size, "bits_per_weight": request.bits_per_weight}
    if request.keep:
        wanted["keep"] = request.keep
    interrupt: ShrinkInterrupted | None = None
    with new_folder(places) as folder:
        _fill(folder, places, say)
        try:
            result = shrink(
                model,
                os.path.join(folder, MODEL),
                confidence=request.confidence,
                batches=batches,
                n_examples=request.n_examples,
                metadata={"format": "pt"},
                threads=request.threads,
                progress=False if request.quiet else None,
                report=lambda text: say(text.replace(os.path.join(folder, MODEL), _final(request))),
                **wanted,
            )
        except ShrinkInterrupted as error:
            interrupt, result = error, error.result
    result = dataclasses.replace(result, filename=_final(request))
    if interrupt is not None:
        raise ShrinkInterrupted(result) from interrupt.__cause__
    return result


def _final(request: FolderRequest) -> str:
    return os.path.join(request.target, MODEL)


def _fill(folder: str, places: Places, say: Callable[[str], object]) -> None:
    """All but the model, and what there is to say about other files."""
    left_out = copy_others(places.source, folder)
    if left_out.odd:
        say(f"note: not copied, being neither files nor folders: {_listed(left_out.odd)}")
    if left_out.weights:
        say(f"note: weights of other models not copied: {_listed(left_out.weights)}")
    if places.replaced is not None:
        kept = kept_names(places.target, folder)
        if kept:
            say(f"note: kept of the old folder: {_listed(kept)}")


_MAX_LISTED = 5
# The ends of the names of models that write text.
_WRITERS = ("ForCausalLM", "LMHeadModel")


def _listed(names: list[str]) -> str:
    more = len(names) - _MAX_LISTED
    # Names must not steer a terminal.
    listed = ", ".join(n if n.isprintable() else ascii(n) for n in names[:_MAX_LISTED])
    return f"{listed} and {more} more" if more > 0 else listed


def _check(request: FolderRequest) -> list[Goal]:
    """The goals. Raises InvalidArgumentError for arguments that make no sense."""
    targets_of(
        {
            "keep": request.keep or None,
            "size": request.size,
            "bits_per_weight": request.bits_per_weight,
        }
    )
    goals = goals_of(request.keep) if request.keep else []
    check_confidence(request.confidence)
    check_threads(request.threads)
    fewest = FEWEST_EXAMPLES if request.texts else 1
    if request.n_examples < fewest or request.n_tokens < 2:
        raise InvalidArgumentError(f"--examples is at least {fewest}, and --tokens 2")
    if not request.texts and goals:
        raise InvalidArgumentError("--keep needs --text to measure what is kept")
    try:
        codecs.lookup(request.encoding)
    except LookupError:
        raise InvalidArgumentError(f"there is no encoding {request.encoding!r}") from None
    return goals


def _check_model(
    folder: str, request: FolderRequest, goals: Sequence[Goal], texts: Sequence[str]
) -> None:
    """What the configuration and the text tell of the goals, and whether there is what runs the
    model."""
    kind = _architecture(folder)
    if kind is not None and not kind.endswith(_WRITERS):
        for goal in goals:
            if goal.needs_labels:
                raise InvalidArgumentError(
                    f"--keep {goal.name} is for models that write text, and {request.source} has a "
                    f"{kind}; --keep cosine=0.99 suits it. From Python, cfck.shrink takes labels"
                )
        if texts and len(texts) < FEWEST_EXAMPLES:
            raise InvalidArgumentError(
                f"the text has {len(texts)} lines with words, too few to calibrate with some and "
                f"to judge with others; give {FEWEST_EXAMPLES} at the very least, better a few "
                "hundred"
            )
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"shrink needs PyTorch and transformers, and {sys.executable} does not have "
            f"{' and '.join(missing)}: pip install {' '.join(missing)}"
        )


def _architecture(folder: str) -> str | None:
    """The class of the model; None if the configuration does not name it in the usual way."""
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            names = json.load(file)["architectures"]
        return str(names[0])
    except (OSError, ValueError, LookupError, TypeError):
        return None  # transformers says what is wrong with it


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


def _load(transformers: Any, request: FolderRequest, folder: str) -> tuple[Any, Any]:
    """The configuration and the model, as its architecture names it."""
    with _refused(f"transformers cannot load {request.source}"):
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        names = getattr(config, "architectures", None) or []
        kind = getattr(transformers, names[0], None) if names else None
        kind = kind or transformers.AutoModel
        model = kind.from_pretrained(folder, dtype="auto", local_files_only=True)
        return config, model.eval()


def _load_tokenizer(transformers: Any, request: FolderRequest, folder: str) -> Any:
    with _refused(f"transformers cannot load the tokeniser of {request.source}"):
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """In here errors of transformers, which may be any, become ours, in one line."""
    try:
        yield
    except CfckError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"{what}: {_line(error)}") from None
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise UnsupportedError(f"{what}: {_line(error)}") from None
    except Exception as error:
        raise CorruptError(f"{what}: {_line(error)}") from None


def _line(error: Exception) -> str:
    """The first line of a message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _batches(
    tokenizer: Any, request: FolderRequest, config: Any, texts: list[str], is_causal: bool
) -> list[dict[str, Any]]:
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
