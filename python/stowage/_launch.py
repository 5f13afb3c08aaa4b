"""Several devices: which process of a launch this one is, and which batches are its own."""

import os
import sys
from typing import Any, Iterator, Mapping, Optional, Sequence

from ._library import StowageError

# Rank and number of ranks, in the order in which the runtime asks (runtime/ranks/Launcher.cpp).
_MPI = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"))
_WITHOUT_MPI = {
    "torchrun": ("RANK", "WORLD_SIZE", "which brings no MPI along, by which processors are connected"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "without MPI; give it --mpi=pmix or --mpi=pmi2, or take mpirun"),
}
# Where rank 0 of such a launch listens. GPUs, which NCCL connects, need no more.
_MEETING = ("MASTER_ADDR", "MASTER_PORT")


def _number(variables: "Mapping[str, str]", name: str) -> Optional[int]:
    text = variables.get(name)
    if text is not None and not text.isdecimal():
        raise StowageError(f'devices="env": the variable {name} of the launcher is {text!r}, expected a number of 0 or more')
    return None if text is None else int(text)


def are_gpus(flags: "Sequence[str]") -> bool:
    """Whether a step compiled with these flags runs on GPUs."""
    return any(flag.startswith("--target=") and not flag.startswith(("--target=host", "--target=cpu")) for flag in flags)


def place_of(variables: "Optional[Mapping[str, str]]" = None, gpus: bool = False) -> "tuple[int, int]":
    """Rank and number of ranks of the launch that this process is part of; (0, 1) where no launcher has started it."""
    variables = os.environ if variables is None else variables
    for rank_name, size_name in _MPI:
        rank, size = _number(variables, rank_name), _number(variables, size_name)
        if rank is None:
            continue
        if size is None:
            raise StowageError(f'devices="env": the launcher sets {rank_name} and not {size_name}; give their number: devices=N')
        return rank, size
    for launcher, (rank_name, size_name, why) in _WITHOUT_MPI.items():
        rank, size = _number(variables, rank_name), _number(variables, size_name)
        if gpus and rank is not None and size is not None and size > 1:
            missing = [name for name in _MEETING if name not in variables]
            if missing:
                raise StowageError(f'devices="env": {launcher} has started this process ({rank_name}={rank}, {size_name}={size}), and where rank 0 listens is not '
                                   f"set: {' and '.join(missing)}")  # fmt: skip
            return rank, size
        if rank is not None and size is not None and size > 1:
            raise StowageError(f'devices="env": {launcher} has started this process ({rank_name}={rank}, {size_name}={size}), {why}; start it as: '
                               f"mpirun -n {size} python {sys.argv[0] or 'train.py'}")  # fmt: skip
    return 0, 1


def device_flags(devices: Any, gpus: bool = False) -> "list[str]":
    """--devices for `devices` as `compile` takes it."""
    if devices == "env":
        devices = place_of(gpus=gpus)[1]
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise StowageError(f'devices: expected "env" or a number of at least 1, found {devices!r}')
    return [] if devices == 1 else [f"--devices={devices}"]


def norm_flags(module: Any) -> "list[str]":
    """--sync-batch-norm for a module whose batch normalizations in training mode are PyTorch's SyncBatchNorm."""
    import torch

    norms = [part for part in module.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.training]
    synchronized = sum(isinstance(part, torch.nn.SyncBatchNorm) for part in norms)
    if 0 < synchronized < len(norms):
        raise StowageError(f"{synchronized} of {len(norms)} batch normalizations in training mode are SyncBatchNorm; a step synchronizes all or none: "
                           "make them of one kind, as torch.nn.SyncBatchNorm.convert_sync_batchnorm(module) does")  # fmt: skip
    return ["--sync-batch-norm"] if synchronized else []


def speaks(devices: Any, gpus: bool = False) -> bool:
    """Whether this process says for all of them what is to be said once."""
    names = [name for name, _ in _MPI] + ([name for name, _, _ in _WITHOUT_MPI.values()] if gpus else [])
    return devices == 1 or next((int(os.environ[name]) for name in names if name in os.environ), 0) == 0


class _DealtSampler:
    """Of a sampler of batches, every `size`-th from `rank` on. With `whole`, batches are taken `size` at a time, and those that do not fill
    such a group, or of fewer samples than the first, are left out."""

    def __init__(self, batches: Any, rank: int, size: int, whole: bool) -> None:
        self._batches, self._rank, self._size, self._whole = batches, rank, size, whole

    def __iter__(self) -> "Iterator[Any]":
        return _dealt(self._batches, self._rank, self._size, self._whole, len)

    def __len__(self) -> int:
        count = len(self._batches)
        if not self._whole:
            return len(range(self._rank, count, self._size))
        # The last batch of a loader of PyTorch's may be short.
        inner = self._batches
        if not getattr(inner, "drop_last", True) and len(inner.sampler) % inner.batch_size != 0:
            count -= 1
        return count // self._size

    def set_epoch(self, epoch: int) -> None:
        for inner in (self._batches, getattr(self._batches, "sampler", None)):
            if hasattr(inner, "set_epoch"):
                inner.set_epoch(epoch)


def _dealt(batches: Any, rank: int, size: int, whole: bool, rows: Any) -> "Iterator[Any]":
    if not whole:
        for position, batch in enumerate(batches):
            if position % size == rank:
                yield batch
        return
    first, own, count = None, None, 0
    for batch in batches:
        first = rows(batch) if first is None else first
        if rows(batch) != first:
            continue
        own = batch if count % size == rank else own
        count += 1
        if count % size == 0:
            yield own


class _DealtBatches:
    """The same of anything that gives batches."""

    def __init__(self, loader: Any, rank: int, size: int, whole: bool, rows: Any) -> None:
        self._loader, self._rank, self._size, self._whole, self._rows = loader, rank, size, whole, rows

    def __iter__(self) -> "Iterator[Any]":
        return _dealt(self._loader, self._rank, self._size, self._whole, self._rows)


def dealt(loader: Any, rank: int, size: int, rows: Any, whole: bool) -> Any:
    """What rank `rank` of `size` trains on, or with `whole` False evaluates, of a loader that gives the same batches on all of them: batches
    are dealt out in turn. A DataLoader loads its own alone. One whose sampler deals out itself (PyTorch's DistributedSampler, which has
    num_replicas) is taken as it is. `rows` gives the samples of a batch."""
    if size == 1:
        return loader
    for sampler in (getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
        replicas = getattr(sampler, "num_replicas", None)
        if replicas is not None and replicas != size:
            raise StowageError(f"the loader's {type(sampler).__name__} deals out to {replicas} ranks, expected {size}; leave it out, or give it num_replicas={size}, rank={rank}")
        if replicas is not None:
            return loader
    if isinstance(loader, (list, tuple)):
        return list(_dealt(loader, rank, size, whole, rows))
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(loader, torch.utils.data.DataLoader) or loader.batch_sampler is None:
        return _DealtBatches(loader, rank, size, whole, rows)
    settings = {name: getattr(loader, name) for name in ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context",
                                                         "generator", "prefetch_factor", "persistent_workers")}  # fmt: skip
    return type(loader)(loader.dataset, batch_sampler=_DealtSampler(loader.batch_sampler, rank, size, whole), **settings)
