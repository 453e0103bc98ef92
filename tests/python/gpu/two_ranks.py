"""One of two ranks that send each other tensors of a device; test_gpu_save.py starts both.

python two_ranks.py RANK FILE
"""

import sys

import cfck.distributed as collectives
import torch
import torch.distributed as dist

N_VALUES = 800_000
CUDA = "cuda:0"


def main() -> None:
    rank, file = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{file}")
    generator = torch.Generator().manual_seed(rank)
    own = (torch.randn(N_VALUES, generator=generator) * 0.02).to(torch.bfloat16)
    all_values = collectives.all_gather(own)

    gathered = collectives.all_gather(own.to(CUDA))
    assert all(tensor.is_cuda for tensor in gathered)
    assert all(map(torch.equal, [tensor.cpu() for tensor in gathered], all_values))

    received = own.to(CUDA) if rank == 0 else torch.zeros(N_VALUES, dtype=own.dtype).to(CUDA)
    collectives.broadcast(received, 0)
    assert torch.equal(received.cpu(), all_values[0])

    gather = collectives.CompressedAllGather()
    out = torch.empty(2 * N_VALUES, dtype=own.dtype).to(CUDA)
    gather(out, own.to(CUDA), dist.group.WORLD)
    assert torch.equal(out.cpu(), torch.cat(all_values))
    assert gather.traffic.sent_bytes < 0.68 * own.nbytes

    gradient = torch.cat([own, own.flip(0)])
    sums = []
    for device in ("cpu", CUDA):
        out = torch.empty(N_VALUES, dtype=own.dtype).to(device)
        scatter = collectives.CompressedReduceScatter()
        scatter(out, gradient.to(device), dist.group.WORLD, dist.ReduceOp.SUM)
        sums.append(out.cpu())
    assert torch.equal(*sums)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
