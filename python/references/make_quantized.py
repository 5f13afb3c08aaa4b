"""Writes tests/data/quantized/nf4.npz: what bitsandbytes makes of a matrix, and what it reads back (QLoRA's rule, on the CPU).

python3 python/references/make_quantized.py      # needs torch and bitsandbytes (pip install bitsandbytes)
"""

from pathlib import Path

import bitsandbytes.functional as rule
import numpy as np
import torch

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "quantized"
SHAPE = (129, 128)  # 258 blocks of 64: two blocks of scales


def numbers() -> np.ndarray:
    """Cubes of numbers that a linear generator spreads over (-1, 1): small ones are many. The test makes the same."""
    count = np.arange(SHAPE[0] * SHAPE[1], dtype=np.uint64)
    spread = ((count * 2654435761) % 2**32).astype(np.float64) / 2**31 - 1
    return (0.05 * spread**3).astype(np.float32).reshape(SHAPE)


def main() -> None:
    matrix = torch.from_numpy(numbers())
    packed, state = rule.quantize_4bit(matrix, blocksize=64, compress_statistics=True, quant_type="nf4")
    halves = packed.numpy().reshape(-1)
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(
        FOLDER / "nf4.npz",
        codes=np.stack([halves >> 4, halves & 15], 1).reshape(-1),
        scale_codes=state.absmax.numpy(),
        outer_scales=state.state2.absmax.numpy(),
        mean=state.offset.numpy().reshape(1),
        scale_levels=rule.create_dynamic_map().numpy(),
        unsigned_levels=rule.create_dynamic_map(signed=False).numpy(),
        values=rule.dequantize_4bit(packed, state).numpy().reshape(-1),
    )


if __name__ == "__main__":
    main()
