"""One rank of PyTorch on gloo: FOLDER MODEL WAY RANK RANKS BATCH STEPS. WAY is ddp, DistributedDataParallel, zero, with
ZeroRedundancyOptimizer beside it, or fsdp, fully_shard (FSDP2). Rank 0 writes the mean loss of each step."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed
import torch.nn as nn
import torch.nn.functional as F
from devices_models import blocks, make, rate, samples
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def in_shards(model: nn.Module, ranks: int) -> nn.Module:
    """Its parameters, gradients and the state that is made of them: blocks by themselves, the rest, tied weights among it, together."""
    mesh = init_device_mesh("cpu", (ranks,))
    for block in blocks(model):
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main() -> None:
    folder, model, way, rank, ranks, batch, steps = Path(sys.argv[1]), sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting-{way}", rank=rank, world_size=ranks)
    parallel = in_shards(make(model), ranks) if way == "fsdp" else DistributedDataParallel(make(model))
    settings = {"lr": rate(model), "weight_decay": 0.01}
    optimizer = (
        ZeroRedundancyOptimizer(parallel.parameters(), optimizer_class=torch.optim.AdamW, **settings)
        if way == "zero"
        else torch.optim.AdamW(parallel.parameters(), **settings)
    )
    x, y = samples(model, ranks * batch * steps)
    losses = []
    for step in range(steps):
        rows = slice((step * ranks + rank) * batch, (step * ranks + rank + 1) * batch)
        loss = F.cross_entropy(parallel(x[rows]).flatten(0, -2), y[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / ranks
        torch.distributed.all_reduce(mean)
        losses.append(mean.item())
    if rank == 0:
        (folder / f"{way}.json").write_text(json.dumps(losses))
    torch.distributed.barrier()
    # Both have what they need. Torn down in turn, a rank's threads have been seen to abort on the connection that the other closed first.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
