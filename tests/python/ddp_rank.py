"""One rank of PyTorch's DistributedDataParallel on gloo: FOLDER RANK RANKS BATCH STEPS. Rank 0 writes the mean loss of each step."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    folder, rank, ranks, batch, steps = Path(sys.argv[1]), *map(int, sys.argv[2:])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    module = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
    module.load_state_dict(torch.load(folder / "weights.pt"))
    parallel = DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-2, weight_decay=0.01)
    data = np.load(folder / "rows.npz")
    losses = []
    for step in range(steps):
        rows = slice((step * ranks + rank) * batch, (step * ranks + rank + 1) * batch)
        loss = F.cross_entropy(parallel(torch.from_numpy(data["x"][rows])), torch.from_numpy(data["y"][rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / ranks
        torch.distributed.all_reduce(mean)
        losses.append(mean.item())
    if rank == 0:
        (folder / "losses.json").write_text(json.dumps(losses))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
