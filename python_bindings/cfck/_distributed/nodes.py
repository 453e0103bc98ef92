"""Nodes of several ranks: what they send each other inside of a node, and between nodes.

Inside of a node gradients are averaged densely, so that all its ranks have the same. Each parameter
then has an owner among them, which accumulates it, chooses values and exchanges packets with the
owners of the same parameters in the other nodes. So a node sends the packet of one rank, through
all of its ranks at once, each does its share of the work, and has its share of the state. The
packets that the owners of a node have received are then exchanged inside of it, which takes few
bytes, and all ranks of all nodes add the same packets in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ..errors import InvalidArgumentError, UnsupportedError
from .arguments import check_group
from .transport import gather_frames, sum_of_ranks

# Is called with the packets of all nodes, for each owner.
TakenOfOwners = Callable[[list[list[torch.Tensor]]], None]


class Nodes:
    """The ranks of a group, as nodes of equally many ranks.

    Args:
        mesh: a torch.distributed.device_mesh.DeviceMesh: a row for each node.
        group: of all its ranks; None: the default one.

    Attributes:
        own: which of the ranks of its node this one is, from 0: its column of the mesh.
        n_nodes: how many rows there are.
        n_ranks: of each node.

    Raises:
        InvalidArgumentError: the mesh has other ranks than the group, or not two dimensions.
        TypeError: it is no DeviceMesh.
        UnsupportedError: this version of torch has none.
    """

    def __init__(self, mesh: Any, group: dist.ProcessGroup | None) -> None:
        check_group(group)
        _check_mesh(mesh)
        rows: list[list[int]] = mesh.mesh.tolist()
        members = dist.get_process_group_ranks(group or dist.group.WORLD)
        if sorted(members) != sorted(rank for row in rows for rank in row):
            raise InvalidArgumentError(
                f"the mesh has the ranks {rows}, and the process group {members}: both are those "
                "that DistributedDataParallel averages over"
            )
        self.n_nodes, self.n_ranks = len(rows), len(rows[0])
        self._rows = rows
        (row,) = [row for row in rows if dist.get_rank() in row]
        self.own = row.index(dist.get_rank())
        self._between, self._within = mesh.get_group(0), mesh.get_group(1)
        # The groups may have orders of their own.
        self._owners = [row.index(rank) for rank in dist.get_process_group_ranks(self._within)]
        place = {rank: at for at, rank in enumerate(members)}
        self._columns = [
            sorted(place[of_node[owner]] for of_node in rows) for owner in range(self.n_ranks)
        ]
        self._peers = [place[rank] for rank in dist.get_process_group_ranks(self._between)]

    def __repr__(self) -> str:
        """Equal on ranks that have the same nodes."""
        return f"Nodes({self._rows})"

    def owners(self, sizes: Iterable[int]) -> list[int]:
        """Whose each parameter is: about equally many values of each rank of a node."""
        loads = [0] * self.n_ranks
        found = []
        for size in sizes:
            owner = loads.index(min(loads))
            loads[owner] += size
            found.append(owner)
        return found

    def average(self, gradients: Sequence[torch.Tensor]) -> int:
        """Averages flat gradients of F32 over the ranks of this node, in place.

        Returns:
            How many bytes this rank has sent.
        """
        flat = torch.cat(list(gradients))
        means = sum_of_ranks(flat, self._within).div_(self.n_ranks)
        for gradient, mean in zip(
            gradients, torch.split(means, [g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(mean)
        return 4 * flat.numel()

    def longest(self, lengths: Sequence[int]) -> int:
        """How many bytes this rank sends to other nodes; ``lengths``: of the packets of ranks."""
        return max(lengths[rank] for rank in self._peers)

    def carried(self, lengths: Sequence[int]) -> list[int]:
        """How many bytes of all nodes each rank of this node has for the others of it."""
        return [sum(lengths[rank] for rank in self._columns[owner]) for owner in self._owners]

    def exchange(
        self,
        packet: torch.Tensor,
        lengths: Sequence[int],
        device: torch.device,
        take: TakenOfOwners,
    ) -> dist.Work:
        """Sends the packet of this rank to all ranks, by way of its peers in other nodes.

        What is sent between nodes has arrived when this returns.

        Args:
            packet: on the host.
            lengths: of the packets of all ranks, in the order of the group of all.
            device: where the gradients are.
            take: is called with the packets of each owner, in the order of the ranks.

        Returns:
            The work, which is done when ``take`` is.
        """
        received: list[torch.Tensor] = []
        of_peers = [lengths[rank] for rank in self._peers]
        gather_frames(packet, of_peers, self._between, device, received.extend).wait()
        by_rank = dict(zip(self._peers, received, strict=True))
        joined = torch.cat([by_rank[rank] for rank in sorted(by_rank)])
        parts = [[lengths[rank] for rank in column] for column in self._columns]
        sums = self.carried(lengths)

        def split(frames: list[torch.Tensor]) -> None:
            of_owner = dict(zip(self._owners, frames, strict=True))
            take([list(torch.split(of_owner[i], part)) for i, part in enumerate(parts)])

        return gather_frames(joined, sums, self._within, device, split)


def _check_mesh(mesh: Any) -> None:
    try:
        from torch.distributed.device_mesh import DeviceMesh
    except ImportError:
        raise UnsupportedError(
            f"torch {torch.__version__} has no torch.distributed.device_mesh: install 2.2 or newer"
        ) from None
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"mesh is a DeviceMesh of torch.distributed, not {type(mesh).__name__}")
    if mesh.ndim != 2:
        raise InvalidArgumentError(
            f"mesh has two dimensions, the nodes and the ranks of each, and not {mesh.ndim}"
        )
