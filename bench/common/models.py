"""Models to judge compression by, and what they are fed: CIFAR-10 ResNets, MiniLM, a small GPT.

The weights are those of data.py; bench/README.md says where they come from. Models are in
evaluation mode and float32.
"""

from __future__ import annotations

import ast
import math
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from common import cifar_resnet, data

IMAGE_BATCH = 250
SENTENCE_BATCH = 25
MOST_TOKENS = 128
GPT_VOCABULARY, GPT_POSITIONS, GPT_WIDTH, GPT_HEADS, GPT_LAYERS = 8192, 64, 128, 4, 4


def load_resnet(depth: int) -> cifar_resnet.CifarResNet:
    """`depth` is 20 or 56. Takes normalised images, gives logits."""
    model = cifar_resnet.CifarResNet(depth)
    model.load_state_dict(load_file(data.data_path(f"resnet{depth}.safetensors")))
    return model.eval()


def image_batches(
    name: str = "cifar10_test.npz", count: int | None = None, size: int = IMAGE_BATCH
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Normalised images and their labels, in batches; cifar10_calibration.npz are training images.

    `count`: only the first ones.
    """
    with np.load(data.data_path(name)) as stored:
        pixels = torch.from_numpy(stored["images"][:count])
        labels = torch.from_numpy(stored["labels"][:count].astype(np.int64))
    images = pixels.permute(0, 3, 1, 2).float() / 255
    images = (images - cifar_resnet.MEAN) / cifar_resnet.DEVIATION
    return list(images.split(size)), list(labels.split(size))


def load_minilm() -> nn.Module:
    """The encoder without tokenizer: gives .last_hidden_state, whose mean is the embedding."""
    from transformers import AutoConfig, AutoModel

    path = data.minilm_path()
    model = AutoModel.from_config(AutoConfig.from_pretrained(path.parent))
    missing = model.load_state_dict(load_file(path), strict=False).missing_keys
    if missing:
        raise RuntimeError(f"MiniLM: the file has no {', '.join(missing)}")
    return model.eval()


def sentences(count: int) -> list[str]:
    """First sentences of docstrings of Python's standard library, the same for a version of it.

    Taken at equal distances.
    """
    found: dict[str, None] = {}
    for path in sorted(Path(ast.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                words = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                if 40 <= len(words) <= 200:
                    found[words] = None
    return list(found)[:: max(1, len(found) // count)][:count]


def other_sentences(count: int, n_known: int) -> list[str]:
    """Sentences that are not among the first `n_known`, at equal distances."""
    known = set(sentences(n_known))
    others = [text for text in sentences(sys.maxsize) if text not in known]
    return others[:: max(1, len(others) // count)][:count]


def sentence_batches(texts: list[str], size: int = SENTENCE_BATCH) -> list[dict[str, torch.Tensor]]:
    """Tokens for MiniLM, padded within a batch; sentences of similar length go together."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(data.minilm_path().parent / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_TOKENS)
    tokens = sorted((tokenizer.encode(text).ids for text in texts), key=len)
    batches = []
    for first in range(0, len(tokens), size):
        part = tokens[first : first + size]
        ids = torch.zeros(len(part), len(part[-1]), dtype=torch.int64)
        for row, one in enumerate(part):
            ids[row, : len(one)] = torch.tensor(one)
        lengths = torch.tensor([len(one) for one in part])
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        batches.append({"input_ids": ids, "attention_mask": mask})
    return batches


class _GptLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(GPT_WIDTH), nn.LayerNorm(GPT_WIDTH)
        self.qkv = nn.Linear(GPT_WIDTH, 3 * GPT_WIDTH)
        self.proj = nn.Linear(GPT_WIDTH, GPT_WIDTH)
        self.fc = nn.Linear(GPT_WIDTH, 4 * GPT_WIDTH)
        self.fc2 = nn.Linear(4 * GPT_WIDTH, GPT_WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, _ = x.shape
        heads = self.qkv(self.ln1(x)).view(n, length, 3, GPT_HEADS, GPT_WIDTH // GPT_HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(GPT_WIDTH // GPT_HEADS)
        future = torch.full((length, length), -torch.inf, dtype=x.dtype).triu(1)
        mixed = (scores + future).softmax(-1) @ v
        x = x + self.proj(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.fc2(functional.gelu(self.fc(self.ln2(x))))


class Gpt(nn.Module):
    """The language model of gpt_step01000.safetensors; its head is its token embedding."""

    def __init__(self) -> None:
        """Random weights: load the checkpoint's."""
        super().__init__()
        self.wte = nn.Embedding(GPT_VOCABULARY, GPT_WIDTH)
        self.wpe = nn.Embedding(GPT_POSITIONS, GPT_WIDTH)
        self.h = nn.ModuleList(_GptLayer() for _ in range(GPT_LAYERS))
        self.lnf = nn.LayerNorm(GPT_WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(n, length) to logits (n, length, vocabulary)."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for layer in self.h:
            x = layer(x)
        return self.lnf(x) @ self.wte.weight.t()


def load_gpt(step: int = 1000) -> Gpt:
    """`step` is 950 or 1000."""
    stored = load_file(data.data_path(f"gpt_step{step:05d}.safetensors"))
    prefix = "model."
    model = Gpt()
    model.load_state_dict(
        {name.removeprefix(prefix): t for name, t in stored.items() if name.startswith(prefix)}
    )
    return model.eval()


@torch.no_grad()
def sampled_tokens(model: Gpt, count: int, seed: int = 0) -> torch.Tensor:
    """Texts that the model writes itself, `count` of the full length."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 2000, (count, 1), generator=generator)
    for _ in range(GPT_POSITIONS - 1):
        chances = model(tokens)[:, -1].softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=generator)], 1)
    return tokens
