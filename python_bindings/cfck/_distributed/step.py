"""One bucket of one step of deep gradient compression."""

from __future__ import annotations

import dataclasses
import enum
import math
import time
import zlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from ..errors import InvalidArgumentError
from .absence import absent_gradients, absent_on_all
from .accumulation import Accumulated
from .agreement import Offer, Operation, agree, encode_all
from .chunks import chunk_norms, places_of_chunks
from .clipping import Clipping
from .gradients import GradientCodec, SparseGradient, add_packets, unsent
from .measures import Measures
from .nodes import Nodes
from .selection import select_largest
from .traffic import Traffic
from .transport import completed, gather_frames, sum_of_ranks

# Ranks tell each other these facts of a bucket, as the length of a frame that is not sent.
_NOT_FINITE = 8  # some gradient has values that are not finite
_SOME_ABSENT = 16  # this rank has no gradient of some parameters
# The sum of F16 of all ranks: the largest is 65,504, and this leaves room for rounding.
_MOST_F16 = 6e4


class Way(enum.Enum):
    """How the values of a tensor are sent: some of them in a packet, or the same chunks of all
    ranks by an all-reduce, or all of them by an all-reduce."""

    PACKET = enum.auto()
    CHUNKS = enum.auto()
    DENSE = enum.auto()


@dataclasses.dataclass(frozen=True)
class Method:
    """How gradients are compressed on all ranks; GradientCompression says what each means."""

    momentum: float
    nesterov: bool
    weight_decay: float
    masks_momentum: bool
    vectors: str
    value_error: float
    clipping: Clipping
    chunk_elems: int | None

    def way(self, tensor: Accumulated, ratio: float) -> Way:
        """How a tensor is sent."""
        if ratio >= 1 or not (tensor.is_matrix or self.vectors == "quantised"):
            return Way.DENSE
        return Way.PACKET if self.chunk_elems is None else Way.CHUNKS


class Replica:
    """What all steps of this rank share.

    Attributes:
        method: of all ranks.
        codec: of the packets.
        raises: whether values that are not finite are an error.
        scaler: of the gradients, if they are scaled.
        group: of all ranks; None: the default one.
        nodes: of these ranks; None: each is one by itself.
        tensors: what each parameter has accumulated.
        traffic: what this rank has sent; with nodes: to other nodes.
        traffic_within: what this rank has sent to others of its node.
        measures: what its steps took and sent.
        is_undone: whether this step is taken back.
    """

    def __init__(
        self,
        method: Method,
        tensors: dict[torch.Tensor, Accumulated],
        *,
        raises: bool,
        scaler: torch.amp.GradScaler | None,
        group: dist.ProcessGroup | None,
        nodes: Nodes | None,
    ) -> None:
        self.method, self.tensors, self.nodes = method, tensors, nodes
        self.codec = GradientCodec(method.value_error)
        self.raises, self.scaler, self.group = raises, scaler, group
        self.traffic = Traffic()
        self.traffic_within = Traffic()
        self.measures = Measures()
        self.is_undone = False

    @property
    def communicates_before(self) -> bool:
        """Whether ranks need each other to encode, and so have to agree before."""
        return self.method.clipping.communicates or self.nodes is not None

    def fingerprint(self, ratio: float, tensors: Sequence[Accumulated]) -> int:
        """Equal on ranks that send the same tensors in the same way."""
        shapes = [(one.n, one.is_matrix) for one in tensors]
        same = (self.method, ratio, self.scaler is None, self.nodes, shapes)
        return zlib.crc32(repr(same).encode())


class Step:
    """One bucket of one step.

    Args:
        replica: this rank.
        ratio: the share of values that is sent of a tensor of two or more dimensions.
        bucket: of DistributedDataParallel.

    Raises:
        InvalidArgumentError: the bucket has other parameters than those of the replica.
    """

    def __init__(self, replica: Replica, ratio: float, bucket: GradBucket) -> None:
        try:
            self.tensors = [replica.tensors[parameter] for parameter in bucket.parameters()]
        except KeyError:
            raise InvalidArgumentError(
                "the state was made for another model than the one whose gradients are averaged, "
                "or before its parameters were replaced"
            ) from None
        self.replica, self.ratio, self.bucket = replica, ratio, bucket
        scaler = replica.scaler
        self.scale = 1.0 if scaler is None else float(scaler.get_scale())
        nodes = replica.nodes
        # Means are those of nodes, or of ranks.
        self.n_parts = dist.get_world_size(replica.group) if nodes is None else nodes.n_nodes
        self.n_bytes_within = 0
        self.encoding_seconds = 0.0
        self.ways = [replica.method.way(one, ratio) for one in self.tensors]
        self.is_absent = absent_gradients(bucket, ratio)
        self.offered: list[SparseGradient] = []
        self.decoded: list[torch.Tensor] = []

    def run(self) -> torch.futures.Future[torch.Tensor]:
        """Averages the gradients of the bucket, which the future has."""
        replica = self.replica
        buffer: torch.Tensor = self.bucket.buffer()
        variant = replica.fingerprint(self.ratio, self.tensors)
        offer = Offer(Operation.GRADIENTS, buffer, n_frames=2, variant=variant)
        n_bytes = 0
        if replica.communicates_before:
            n_bytes += agree(offer, replica.group)
        begin = time.perf_counter()
        agreed = encode_all(offer, self._encode, replica.group)
        self._count_exchange(begin + self.encoding_seconds)
        marks = {mark for _, mark in agreed.lengths}
        if _NOT_FINITE in marks:
            return self._undo()
        own = [one for one in self._those(Way.PACKET) if one.is_own]
        for one, offered, decoded in zip(own, self.offered, self.decoded, strict=True):
            if replica.measures.wants_energy:
                replica.measures.add_energy(one.is_matrix, one.velocity, offered.values)
            one.sent(offered, decoded, replica.method.masks_momentum)
        results = [self._zeros(one) for one in self.tensors]
        n_bytes += agreed.n_bytes + self._reduce(results) + self._reduce_chunks(results)
        n_bytes += self._keep_absent(marks)
        if self.bucket.is_last():
            for tensor in replica.tensors.values():
                tensor.settle()
            replica.measures.n_steps += 1
        lengths = [length for length, _ in agreed.lengths]
        if not max(lengths):
            self._count(n_bytes)
            return completed(self._stored(results))
        return self._exchange(agreed.frames[0], lengths, results, n_bytes)

    def _exchange(
        self,
        packet: torch.Tensor,
        lengths: list[int],
        results: list[torch.Tensor],
        n_bytes: int,
    ) -> torch.futures.Future[torch.Tensor]:
        """Sends the packet, and adds those of all ranks to the results."""
        replica, nodes = self.replica, self.replica.nodes
        sums = self._of(Way.PACKET, results)
        owners = [one.owner for one in self._those(Way.PACKET)]

        begin = time.perf_counter()

        def take(packets_of_owners: list[list[torch.Tensor]]) -> None:
            self._count_exchange(begin)
            with replica.measures.part("unpacking"):
                for owner, packets in enumerate(packets_of_owners):
                    of_owner = [total for total, i in zip(sums, owners, strict=True) if i == owner]
                    add_packets(replica.codec, packets, of_owner)
                self._stored(results)

        def finish(done: torch.futures.Future[Any]) -> torch.Tensor:
            if isinstance(done.value(), Exception):
                raise done.value()
            return self.bucket.buffer()

        device = self.bucket.buffer().device
        if nodes is None:
            self._count(n_bytes + max(lengths))
            work = gather_frames(
                packet, lengths, replica.group, device, lambda packets: take([packets])
            )
        else:
            self.n_bytes_within += max(nodes.carried(lengths))
            self._count(n_bytes + nodes.longest(lengths))
            work = nodes.exchange(packet, lengths, device, take)
        return work.get_future().then(finish)

    def _count_exchange(self, begin: float) -> None:
        self.replica.measures.seconds["exchange"] += time.perf_counter() - begin

    def _count(self, n_bytes: int) -> None:
        n_dense = 4 * sum(one.n for one in self.tensors)
        self.replica.traffic.add(n_bytes, n_dense)
        if self.replica.nodes is not None:
            self.replica.traffic_within.add(self.n_bytes_within, n_dense)

    def _undo(self) -> torch.futures.Future[torch.Tensor]:
        for tensor in self.replica.tensors.values():
            tensor.undo()
        self.replica.is_undone = True
        return completed(self.bucket.buffer().fill_(math.nan))

    def _encode(self) -> list[torch.Tensor]:
        """The packet, and a mark."""
        begin = time.perf_counter()
        try:
            return self._packet_and_mark()
        finally:
            self.encoding_seconds = time.perf_counter() - begin

    def _packet_and_mark(self) -> list[torch.Tensor]:
        replica, measures = self.replica, self.replica.measures
        nothing = _zeros(0)
        with measures.part("gradients"):
            gradients = self._gradients()
            # All ranks do this, whatever they have: it may communicate.
            replica.method.clipping.apply(gradients, replica.group)
            bad = [
                t.name for t, g in zip(self.tensors, gradients, strict=True) if not _is_finite(g)
            ]
        if bad and replica.scaler is not None:
            return [nothing, _zeros(_NOT_FINITE)]
        if bad and replica.raises:
            raise InvalidArgumentError(f"the gradient of {bad[0]} has values that are not finite")
        mark = _zeros(_SOME_ABSENT) if any(self.is_absent) else nothing
        with measures.part("selection"):
            self._select(gradients)
        # All ranks have a packet, if only some have values for it.
        if Way.PACKET not in self.ways:
            return [nothing, mark]
        with measures.part("packing"):
            packet, self.decoded = replica.codec.encode(self.offered)
        return [packet, mark]

    def _select(self, gradients: list[torch.Tensor]) -> None:
        """Accumulates gradients, and chooses what packets have."""
        replica, method = self.replica, self.replica.method
        parts = zip(self.tensors, gradients, self.ways, self.is_absent, strict=True)
        for one, gradient, way, is_absent in parts:
            if not one.is_own:
                continue
            if replica.scaler is not None or is_absent:
                one.save()
            ratio = 0.0 if way is not Way.PACKET else self.ratio if one.is_matrix else 1.0
            taken = one.take(gradient, ratio, method.momentum, method.nesterov)
            if way is Way.PACKET:
                self.offered.append(taken)

    def _keep_absent(self, marks: set[int]) -> int:
        """Takes back what was accumulated, and sent, for parameters that no rank has a gradient of;
        returns the bytes that were sent."""
        if marks != {_SOME_ABSENT}:
            self.is_absent = [False] * len(self.tensors)
            return 0
        device = self.bucket.buffer().device
        self.is_absent, n_bytes = absent_on_all(self.is_absent, self.replica.group, device)
        for one, is_absent in zip(self.tensors, self.is_absent, strict=True):
            if is_absent:
                one.undo()
        return n_bytes

    def _gradients(self) -> list[torch.Tensor]:
        """Copies of the gradients, flat, of dtype float32, in unscaled units, with weight decay."""
        gradients = [
            gradient.detach().reshape(-1).to(torch.float32, copy=True).contiguous()
            for gradient in self.bucket.gradients()
        ]
        if self.scale != 1:
            for gradient in gradients:
                gradient.div_(self.scale)
        if self.replica.nodes is not None:
            self.n_bytes_within += self.replica.nodes.average(gradients)
        decay = self.replica.method.weight_decay
        if decay:
            for gradient, parameter in zip(gradients, self.bucket.parameters(), strict=True):
                gradient.add_(parameter.detach().reshape(-1).to(gradient), alpha=decay)
        return gradients

    def _reduce(self, results: list[torch.Tensor]) -> int:
        """Averages what is sent densely; returns the bytes that were sent."""
        dense = self._those(Way.DENSE)
        if not dense:
            return 0
        # A rank adds nothing to parameters that it does not own.
        flat = torch.cat([one.velocity if one.is_own else self._zeros(one) for one in dense])
        is_half = self.replica.method.vectors == "f16" and self.ratio < 1
        sent = self._halves(flat) if is_half else flat
        left = unsent(flat, sent)
        averages, n_bytes = self._sum_of_ranks(sent)
        averages.div_(self.n_parts)
        at = 0
        for one, result in zip(dense, self._of(Way.DENSE, results), strict=True):
            result.copy_(averages[at : at + one.n])
            if one.is_own:
                one.velocity.copy_(left[at : at + one.n])
            at += one.n
        return n_bytes

    def _reduce_chunks(self, results: list[torch.Tensor]) -> int:
        """Averages the chunks that are largest over all ranks; returns the bytes that were sent."""
        ones, n = self._those(Way.CHUNKS), self.replica.method.chunk_elems
        if not ones or n is None:
            return 0
        norms = [chunk_norms(one.velocity, n) for one in ones]
        of_ranks, n_bytes = self._sum_of_ranks(torch.cat(norms))
        places = []
        for one, total in zip(ones, torch.split(of_ranks, [t.numel() for t in norms]), strict=True):
            # All ranks have the same sums, and so choose the same.
            chosen = select_largest(total, math.ceil(self.ratio * total.numel()))
            places.append(places_of_chunks(chosen, n, one.n))
        values = [one.velocity[at] for one, at in zip(ones, places, strict=True)]
        averages, n_of_values = self._sum_of_ranks(torch.cat(values))
        parts = torch.split(averages.div_(self.n_parts), [at.numel() for at in places])
        for one, result, at, part in zip(
            ones, self._of(Way.CHUNKS, results), places, parts, strict=True
        ):
            result[at] = part
            if self.replica.measures.wants_energy:
                self.replica.measures.add_energy(one.is_matrix, one.velocity, one.velocity[at])
            one.sent_exactly(at, self.replica.method.masks_momentum)
        return n_bytes + n_of_values

    def _halves(self, values: torch.Tensor) -> torch.Tensor:
        """Values as F16 whose sum has no overflow; what is too large for that is sent later."""
        most = _MOST_F16 / self.n_parts
        return torch.where(values.isfinite(), values.clamp(-most, most), values).half()

    def _sum_of_ranks(self, values: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The sums of all ranks, in F32, and the bytes that were sent."""
        total = sum_of_ranks(values, self.replica.group)
        return total.to(torch.float32), values.numel() * values.element_size()

    def _zeros(self, one: Accumulated) -> torch.Tensor:
        return torch.zeros(one.n, dtype=torch.float32, device=self.bucket.buffer().device)

    def _those(self, way: Way) -> list[Accumulated]:
        return self._of(way, self.tensors)

    def _of(self, way: Way, items: Sequence[Any]) -> list[Any]:
        """The items of the tensors that are sent in a way; there is one for each tensor."""
        return [item for item, own in zip(items, self.ways, strict=True) if own is way]

    def _stored(self, results: list[torch.Tensor]) -> torch.Tensor:
        """Puts the averages where the gradients were, and returns the buffer that has them."""
        parts = zip(self.bucket.gradients(), results, self.is_absent, strict=True)
        for gradient, result, is_absent in parts:
            if is_absent:
                gradient.zero_()
            else:
                gradient.copy_(result.mul_(self.scale).view(gradient.shape))
        return self.bucket.buffer()


def _zeros(n_bytes: int) -> torch.Tensor:
    return torch.zeros(n_bytes, dtype=torch.uint8, device="cpu")


def _is_finite(values: torch.Tensor) -> bool:
    # The sum of finite values may be infinite, and that of others never is finite.
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())
