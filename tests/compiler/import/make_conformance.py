#!/usr/bin/env python3
"""Writes the ONNX standard's node tests, as the installed package `onnx` makes them, as files for the tests of the importer.

    make_conformance.py OUTPUT_FOLDER [--every=N]

For every case: NAME.onnx, the model as it is, and NAME.data.onnx, whose initializers input_<name> and output_<name> are the
tensors of its first data set; what is no tensor is left out. cases.txt has a line for each: name, operator, tolerance relative
and absolute; version.txt names the package's. --every=N writes each Nth case alone.
"""

import argparse
import copy
import pathlib
import warnings

import numpy as np

# The generators of ONNX 1.12 use aliases that NumPy 1.24 dropped.
for alias in ("float", "int", "bool", "object"):
    np.__dict__.setdefault(alias, __builtins__.__dict__[alias])
warnings.simplefilter("ignore")

import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402


def operator_of(case) -> str:
    """The operator that the case is about: that of its one node, or the one whose body the case has in its place."""
    nodes = case.model.graph.node
    return nodes[0].op_type if len(nodes) == 1 else ""


def tensors_of(infos, values, prefix: str) -> list:
    tensors = []
    for info, value in zip(infos, values):
        if isinstance(value, (np.ndarray, np.generic)):
            tensors.append(numpy_helper.from_array(np.asarray(value)))
            if info.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 and tensors[-1].data_type == onnx.TensorProto.UINT16:
                tensors[-1].data_type = onnx.TensorProto.BFLOAT16  # older packages hold its bits
        elif isinstance(value, onnx.TensorProto):  # of types that NumPy has none for
            tensors.append(copy.deepcopy(value))
        else:
            continue
        tensors[-1].name = f"{prefix}_{info.name}"
    return tensors


def write_case(case, folder: pathlib.Path) -> None:
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    tensors = tensors_of(graph.input, inputs, "input") + tensors_of(graph.output, outputs, "output")
    result = helper.make_tensor_value_info("none", onnx.TensorProto.FLOAT, [])
    data = helper.make_model(helper.make_graph([], "data", [], [result], tensors))
    onnx.save(case.model, folder / f"{case.name}.onnx")
    onnx.save(data, folder / f"{case.name}.data.onnx")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    cases = sorted(collect_testcases(None), key=lambda case: case.name)
    whole = {case.name: operator_of(case) for case in cases}
    lines = []
    for case in cases[:: options.every]:
        write_case(case, options.folder)
        # test_NAME_expanded and test_NAME_expanded_ver18 are test_NAME with the operator's body.
        base = case.name.partition("_expanded")[0]
        operator = whole[case.name] if base == case.name else whole.get(base, "")
        lines.append(f"{case.name}\t{operator or case.model.graph.node[0].op_type}\t{case.rtol:g}\t{case.atol:g}\n")
    (options.folder / "version.txt").write_text(onnx.__version__ + "\n")
    (options.folder / "cases.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
