"""One process of test_devices.py, started by mpirun or alone: FOLDER MODEL WAY BATCH EPOCHS. WAY is env, the launch's devices, shards, the same with
the optimizer's state in shards, sync, the same with SyncBatchNorm, accumulate, two batches in one process, parts, two batches on each device of the launch, row, the batches of two
such devices in one process, whole, two batches as one in one process, or fail, whose rank 1 raises in the middle. Rank 0 writes the losses and, but for fail, a checkpoint."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import stowage
import torch
from devices_models import make, samples
from torch.utils.data import DataLoader, TensorDataset


class Losses:
    def __init__(self, fails: bool, folder: Path) -> None:
        self.losses: "list[float]" = []
        self.fails = fails
        self.told = folder / "told"

    def on_step(self, step: Any, record: "dict[str, Any]") -> None:
        self.losses.append(record["loss"])
        if self.fails and record["step"] == 2:
            os.write(1, f"rank {step.rank} at step 2\n".encode())  # at once: the other rank writes to the same place
            if step.rank == 0:
                self.told.touch()
                return
            deadline = time.monotonic() + 60
            while not self.told.exists() and time.monotonic() < deadline:  # the launcher ends the other as soon as this one has failed
                time.sleep(0.01)
            raise RuntimeError("rank 1 fails")


def main() -> None:
    folder, model, way, batch, epochs = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    shuffle, rows = "shuffle" in sys.argv, int(os.environ["ROWS"])
    x, y = samples(model, rows)
    module = make(model)
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    if rank == 1:  # weights start as on rank 0
        torch.nn.init.zeros_(next(module.parameters()))
    if way == "sync":
        module = torch.nn.SyncBatchNorm.convert_sync_batchnorm(module)
    parts = {"accumulate": 2, "parts": 2, "row": 4, "whole": 2}.get(way, 1)
    settings = {"accumulate": parts} if parts > 1 and way != "whole" else {"shard_state": "optimizer"} if way == "shards" else {}
    is_alone = way in ("accumulate", "row", "whole")
    if not is_alone:
        settings["devices"] = "env"
    if way == "row":  # batch 0 of each rank, then batch 1 of each
        x, y = ((whole := rows - rows % (parts * batch)) and t[:whole].unflatten(0, (-1, 2, 2, batch)).transpose(1, 2).flatten(0, 3) for t in (x, y))
    step = stowage.compile(module, x[: batch * parts], optimizer="adamw:lr=1e-2,weight-decay=0.01", threads=1, flags=["--recompute=none"], **settings)
    losses = Losses(way == "fail", folder)
    checkpoint = folder / f"{way}.safetensors"
    validation = DataLoader(TensorDataset(x[:50], y[:50]), batch_size=8)
    records = step.fit(DataLoader(TensorDataset(x, y), batch_size=batch * parts, shuffle=shuffle, drop_last=is_alone), epochs, callbacks=[losses],
        validation=validation, metrics={"mean": lambda outputs, labels: float(outputs.mean())}, checkpoint=checkpoint, resume=True)  # fmt: skip
    if step.rank == 0:
        checked = step.check is not None
        result = {"losses": losses.losses, "records": records, "batches": step.plan.json.get("batches_per_step", 1), "checked": checked, "devices": step.devices}
        (folder / f"{way}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
