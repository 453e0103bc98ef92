"""Batches of 128 tokens each for MiniLM: text, and words at random."""

from __future__ import annotations

import torch

from common import data, models

LENGTH = 128
N_SENTENCES = 2000
# Where the vocabulary of BERT has words, and not single characters or unused places.
FIRST_WORD, END_OF_WORDS = 1996, 30522

Batch = dict[str, torch.Tensor]


def _batches(ids: torch.Tensor, batch_size: int) -> list[Batch]:
    """Whole batches of tokens."""
    n_rows = ids.numel() // LENGTH // batch_size * batch_size
    rows = ids[: n_rows * LENGTH].reshape(-1, batch_size, LENGTH)
    return [{"input_ids": one, "attention_mask": torch.ones_like(one)} for one in rows]


def texts(batch_size: int) -> list[Batch]:
    """Sentences, one after the other, each batch another part of them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(data.minilm_path().parent / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = [i for text in models.sentences(N_SENTENCES) for i in tokenizer.encode(text).ids]
    return _batches(torch.tensor(ids), batch_size)


def random_words(batch_size: int, count: int, seed: int = 0) -> list[Batch]:
    """Words of the whole vocabulary: nearly every chunk of the embedding has one of them."""
    generator = torch.Generator().manual_seed(seed)
    size = (count * batch_size * LENGTH,)
    return _batches(torch.randint(FIRST_WORD, END_OF_WORDS, size, generator=generator), batch_size)
