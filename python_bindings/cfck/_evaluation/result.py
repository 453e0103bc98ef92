"""The difference of one model from another."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The difference of a model from another one; numbers that do not apply are None.

    NaN is what is not known: all that compares rows in which an output is NaN, and the cosine,
    agreement and KL of outputs with a single column, where any two rows have the same direction.

    Attributes:
        n_examples: inputs, counted along the first dimension of each batch.
        n_rows: rows of output that were compared: examples, or positions that count.
        cosine_mean: mean of the cosines between the rows of both models.
        cosine_min: the least of them.
        agreement: part of the rows for which both have the same largest entry; of logits.
        kl: mean Kullback-Leibler divergence of b's distribution from a's, in nats; of logits.
        top1_a: part of the labels that a's largest entry hits.
        top1_b: part of the labels that b's largest entry hits.
        top1_change: top1_b - top1_a.
        perplexity_a: e to the mean cross entropy of a against the labels; of language models.
        perplexity_b: likewise for b.
        perplexity_change: perplexity_b - perplexity_a.
    """

    n_examples: int
    n_rows: int
    cosine_mean: float
    cosine_min: float
    agreement: float | None = None
    kl: float | None = None
    top1_a: float | None = None
    top1_b: float | None = None
    top1_change: float | None = None
    perplexity_a: float | None = None
    perplexity_b: float | None = None
    perplexity_change: float | None = None

    def __str__(self) -> str:
        lines = [f"{self.n_examples} examples, {self.n_rows} rows"]
        lines.append(f"cosine      {self.cosine_mean:.6f}, minimum {self.cosine_min:.6f}")
        if self.agreement is not None:
            lines.append(f"agreement   {100 * self.agreement:.2f} %")
        if self.kl is not None:
            lines.append(f"KL          {self.kl:.3e} nats")
        if self.top1_a is not None and self.top1_b is not None:
            points = 100 * (self.top1_change or 0.0)
            lines.append(
                f"top-1       {100 * self.top1_a:.2f} % -> {100 * self.top1_b:.2f} % "
                f"({points:+.2f} points)"
            )
        if self.perplexity_a is not None:
            lines.append(
                f"perplexity  {self.perplexity_a:.4f} -> {self.perplexity_b:.4f} "
                f"({self.perplexity_change:+.4f})"
            )
        return "\n".join(lines)
