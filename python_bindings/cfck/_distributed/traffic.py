"""How much a rank has sent."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Traffic:
    """What calls of one collective have sent from this rank.

    Attributes:
        n_calls: how many there were.
        sent_bytes: for each rank that got them, headers and hashes included.
        dense_bytes: those of the values, which would have been sent without compression.
    """

    n_calls: int = 0
    sent_bytes: int = 0
    dense_bytes: int = 0

    def add(self, sent_bytes: int, dense_bytes: int) -> None:
        """Counts one more call."""
        self.n_calls += 1
        self.sent_bytes += sent_bytes
        self.dense_bytes += dense_bytes

    @property
    def share(self) -> float:
        """What was sent, as a share of what would have been: 1.0 before the first call."""
        return self.sent_bytes / self.dense_bytes if self.dense_bytes else 1.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.n_calls + other.n_calls,
            self.sent_bytes + other.sent_bytes,
            self.dense_bytes + other.dense_bytes,
        )

    def describe(self) -> str:
        """A line of text."""
        return (
            f"{self.sent_bytes:,} bytes sent in {self.n_calls} calls, {self.share:.1%} of "
            f"{self.dense_bytes:,}"
        )
