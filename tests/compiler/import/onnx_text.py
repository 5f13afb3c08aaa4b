#!/usr/bin/env python3
"""Turns ONNX's text form into model files: onnx_text.py FOLDER writes FOLDER/x.onnx for every FOLDER/x.txt.

`[init NAME TYPE DIMS]` lines after the model add initializers too long to write out: every element is 0.5, or what a
fourth word says. `[rename OLD NEW]` gives a tensor a name that the text form cannot spell. `[operation NODE TEXT]` writes
beside node NODE, counted from 0, the operation that PyTorch's default exporter says a node was made from; `[signature TEXT]`
is a line of what it says about the graph, `[next OUTPUT BUFFER]` one of stowage.export's list of next values.
"""

import pathlib
import re
import sys

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

RENAME = re.compile(r"^\[rename (\S+) (\S+)\]$", re.MULTILINE)
NEXT = re.compile(r"^\[next (\S+) (\S+)\]$", re.MULTILINE)
SIGNATURE = re.compile(r"^\[signature (.+)\]$", re.MULTILINE)
OPERATION = re.compile(r"^\[operation (\d+) (.+)\]$", re.MULTILINE)
EXTRA = re.compile(r"^\[init (\S+) (\w+) ([\d,]+)(?: (\S+))?\]$", re.MULTILINE)


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message whose content is bytes: less than 2^14 of them, as all numbers here."""
    tag, size = number << 3 | 2, len(content)
    return bytes([tag & 127 | 128, tag >> 7, size & 127 | 128, size >> 7]) + content


def add_metadata(message: onnx.NodeProto | onnx.GraphProto, number: int, key: str, value: str) -> None:
    """An entry of metadata_props, field `number`, which onnx 1.12 does not know yet."""
    message.MergeFromString(field(number, field(1, key.encode()) + field(2, value.encode())))


def main() -> None:
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.txt"))
    if not paths:
        sys.exit(f"no *.txt in {sys.argv[1]}")
    for path in paths:
        text = path.read_text()
        model = onnx.parser.parse_model(EXTRA.sub("", RENAME.sub("", OPERATION.sub("", NEXT.sub("", SIGNATURE.sub("", text))))).strip())
        for name, dtype, dims, value in EXTRA.findall(text):
            values = np.full([int(d) for d in dims.split(",")], float(value or 0.5), dtype)
            model.graph.initializer.append(numpy_helper.from_array(values, name))
        for index, node in enumerate(model.graph.node):
            node.name = f"/{node.op_type.lower()}{index}"
        for index, operation in OPERATION.findall(text):
            add_metadata(model.graph.node[int(index)], 9, "pkg.torch.onnx.fx_node", operation)
        if signature := SIGNATURE.findall(text):
            key = "pkg.torch.export.ExportedProgram.graph_signature"
            add_metadata(model.graph, 16, key, "\n".join(signature) + "\n")
        if next_values := NEXT.findall(text):
            add_metadata(model.graph, 16, "stowage.next_values", "\n".join("\t".join(pair) for pair in next_values))
        names = dict(RENAME.findall(text))
        for tensor in [*model.graph.initializer, *model.graph.input]:
            tensor.name = names.get(tensor.name, tensor.name)
        for node in model.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
        onnx.save(model, path.with_suffix(".onnx"))


if __name__ == "__main__":
    main()
