#!/usr/bin/env python3
"""Writes the ONNX operator tests that come with python3-onnx as files for ConformanceTest.

    make_conformance.py OUTPUT_FOLDER

For every case: NAME.onnx, the model, and NAME.data.onnx, whose initializers input_<name> and output_<name> are the
tensors. Integer, boolean and scalar inputs become initializers of the model, as they are in models of networks, and so
do the scales of Resize. Cases of operators that also work on computed indices and masks are written a second time, as
NAME_computed, where those stay inputs.
"""

import copy
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


# Inputs that may be computed integers or masks; the others hold axes, shapes and the like.
COMPUTED = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"), (0, 1, 2)),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not"), (0, 1)),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Neg", "Abs", "Sign", "Sum"), (0, 1, 2)),
    **dict.fromkeys(("OneHot", "CumSum", "TopK", "ArgMax", "ArgMin", "Tile", "Cast", "Trilu", "Slice", "Pad"), (0,)),
    "Where": (0, 1, 2),
}  # fmt: skip


def is_data(value: np.ndarray) -> bool:
    return value.dtype in (np.float16, np.float32, np.float64) and value.ndim > 0


def is_computed(case, position: int, value: np.ndarray) -> bool:
    operator = case.model.graph.node[0].op_type
    return value.dtype in (np.int64, np.int32, bool) and value.ndim > 0 and position in COMPUTED.get(operator, ())


def write_case(case, folder: pathlib.Path, computed: bool) -> bool:
    """Writes one case; False for those whose results are no tensors of numbers, or that `computed` does not change."""
    if computed and (len(case.model.graph.node) > 1 or not all(isinstance(v, np.ndarray) for v in case.data_sets[0][0])):
        return False
    if computed and not any(is_computed(case, i, v) for i, v in enumerate(case.data_sets[0][0])):
        return False
    name = case.name + ("_computed" if computed else "")
    model = copy.deepcopy(case.model)
    inputs, outputs = case.data_sets[0]
    graph = model.graph
    # Cases name the version their operator came with; those before 7 mean the same at 7.
    for opset in model.opset_import:
        if opset.domain == "":
            opset.version = max(opset.version, 7)
    tensors = []
    if not all(isinstance(v, np.ndarray) for v in [*inputs, *outputs]):
        return False
    resizes = graph.node[0].op_type in ("Resize", "Upsample")
    for position, (info, value) in enumerate(zip(list(graph.input), inputs)):
        if value.dtype.kind in "OUS":
            return False
        is_scale = resizes and info.name != graph.node[0].input[0]
        if (is_data(value) and not is_scale) or (computed and is_computed(case, position, value)):
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
    onnx.save(model, folder / f"{name}.onnx")
    onnx.save(data, folder / f"{name}.data.onnx")
    return True


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    cases = list(collect_testcases(None))
    names = [case.name for case in cases if write_case(case, folder, computed=False)]
    names += [f"{case.name}_computed" for case in cases if write_case(case, folder, computed=True)]
    (folder / "cases.txt").write_text("\n".join(sorted(names)) + "\n")


if __name__ == "__main__":
    main()
