#!/usr/bin/python3
"""Writes models/data/digits.npz: the UCI handwritten digits, split once and for all.

The 1,797 scans come with the scikit-learn package (nothing is downloaded). Pixels are integers 0..16 and are stored as
float32 in [0, 1] (divided by 16, hence exact). The split is stratified: every class gives its share of the 360 test
scans, chosen by a seeded PCG64 stream, so that the file is the same on every machine.

Arrays: x [1437,1,8,8] float32, y [1437] int64, x_test [360,1,8,8] float32, y_test [360] int64.
"""

import argparse
from pathlib import Path

import numpy as np

DEFAULT_OUTPUT = Path(__file__).resolve().parent / "data" / "digits.npz"


def stratified_test_rows(labels: np.ndarray, test_count: int, rng: np.random.Generator) -> np.ndarray:
    """Row numbers of the test set: per class the rounded-down share, the rest to the largest remainders."""
    classes, counts = np.unique(labels, return_counts=True)
    exact = counts * (test_count / len(labels))
    share = np.floor(exact).astype(int)
    # Largest remainder first; a tie goes to the smaller class number.
    order = np.lexsort((classes, share - exact))
    share[order[: test_count - share.sum()]] += 1
    chosen = [rng.permutation(np.flatnonzero(labels == c))[:n] for c, n in zip(classes, share)]
    return np.sort(np.concatenate(chosen))


def make_arrays(test_count: int, seed: int) -> dict[str, np.ndarray]:
    """The four arrays of the data set; the training rows are shuffled, as training may read them in file order."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None, :, :]
    labels = digits.target.astype(np.int64)
    rng = np.random.Generator(np.random.PCG64(seed))
    test = stratified_test_rows(labels, test_count, rng)
    train = rng.permutation(np.setdiff1d(np.arange(len(labels)), test))
    return {"x": images[train], "y": labels[train], "x_test": images[test], "y_test": labels[test]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--test-count", type=int, default=360)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    arrays = make_arrays(args.test_count, args.seed)
    np.savez_compressed(args.output, **arrays)
    for name, array in arrays.items():
        print(f"{name:7s} {array.dtype} {list(array.shape)}")
    print(f"{args.output}: {args.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
