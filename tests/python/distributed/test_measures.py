"""What GradientCompression says of the energy that it sends, and of the time that it takes."""

import pytest
import torch
import torch.distributed as dist
from cfck.distributed import GradientCompression
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def measured(options):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 4))
    state = GradientCompression(model, 0.05, momentum=0.0, **options)
    before = state.describe()
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    generator = torch.Generator().manual_seed(dist.get_rank())
    ddp(torch.randn(8, 20, generator=generator)).square().mean().backward()
    left = {name: v.square().sum().item() for name, v in state.state_dict()["velocity"].items()}
    return state.measures, before, state.describe(), left


@pytest.mark.parametrize("options", [{}, {"chunk_elems": 8}, {"vectors": "dense"}], ids=str)
def test_energy_and_times(two, options):
    for measures, before, text, left in two(measured, options):
        assert "energy" not in before and "milliseconds" not in before
        matrices, vectors = measures.energy["matrices"], measures.energy["vectors"]
        # What was not sent is still there, and the errors of what was.
        unsent = sum(value for name, value in left.items() if name.endswith("weight"))
        assert 0.05 < matrices.share < 1
        assert matrices.accumulated - matrices.sent == pytest.approx(unsent, rel=0.1)
        assert (vectors.accumulated > 0) == (not options)
        assert vectors.share == pytest.approx(1)
        assert measures.n_steps == 1 and f"{matrices.share:.1%} of that of matrices" in text
        assert all(measures.seconds[part] > 0 for part in ("gradients", "selection", "exchange"))
        assert (measures.seconds["unpacking"] > 0) == ("chunk_elems" not in options)
        assert f"selection {1e3 * measures.seconds['selection']:.2f}" in text
