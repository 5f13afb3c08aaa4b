#!/usr/bin/env python3
"""Writes the ONNX operator tests that come with python3-onnx as files for ConformanceTest.

    make_conformance.py OUTPUT_FOLDER

For every case: NAME.onnx, the model, and NAME.data.onnx, whose initializers input_<name> and output_<name> are the
tensors. Integer, boolean and scalar inputs become initializers of the model, as they are in models of networks.
"""

import pathlib
import sys
import warnings

import numpy as np

# The generators of ONNX 1.12 use aliases that NumPy 1.24 dropped.
for alias in ("float", "int", "bool", "object"):
    np.__dict__.setdefault(alias, __builtins__.__dict__[alias])
warnings.simplefilter("ignore")

import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402


def is_data(value: np.ndarray) -> bool:
    return value.dtype in (np.float16, np.float32, np.float64) and value.ndim > 0


def write_case(case, folder: pathlib.Path) -> bool:
    """Writes one case; False for those whose results are no tensors of numbers."""
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    # Cases name the version their operator came with; those before 7 mean the same at 7.
    for opset in case.model.opset_import:
        if opset.domain == "":
            opset.version = max(opset.version, 7)
    tensors = []
    if not all(isinstance(v, np.ndarray) for v in [*inputs, *outputs]):
        return False
    for info, value in zip(list(graph.input), inputs):
        if value.dtype.kind in "OUS":
            return False
        if is_data(value):
            tensors.append(numpy_helper.from_array(value, f"input_{info.name}"))
        else:
            graph.initializer.append(numpy_helper.from_array(value, info.name))
            graph.input.remove(info)
    for info, value in zip(graph.output, outputs):
        if value.dtype.kind in "OUS":
            return False
        tensors.append(numpy_helper.from_array(value, f"output_{info.name}"))
    result = helper.make_tensor_value_info(tensors[-1].name, tensors[-1].data_type, tensors[-1].dims)
    data = helper.make_model(helper.make_graph([], "data", [], [result], tensors))
    onnx.save(case.model, folder / f"{case.name}.onnx")
    onnx.save(data, folder / f"{case.name}.data.onnx")
    return True


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    names = [case.name for case in collect_testcases(None) if write_case(case, folder)]
    (folder / "cases.txt").write_text("\n".join(sorted(names)) + "\n")


if __name__ == "__main__":
    main()
