#!/usr/bin/env python3
"""Turns ONNX's text form into model files: onnx_text.py FOLDER writes FOLDER/x.onnx for every FOLDER/x.txt.

`[init NAME TYPE DIMS]` lines after the model add initializers too long to write out: every element is 0.5, or what a
fourth word says. `[rename OLD NEW]` gives a tensor a name that the text form cannot spell.
"""

import pathlib
import re
import sys

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

RENAME = re.compile(r"^\[rename (\S+) (\S+)\]$", re.MULTILINE)
EXTRA = re.compile(r"^\[init (\S+) (\w+) ([\d,]+)(?: (\S+))?\]$", re.MULTILINE)


def main() -> None:
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.txt"))
    if not paths:
        sys.exit(f"no *.txt in {sys.argv[1]}")
    for path in paths:
        text = path.read_text()
        model = onnx.parser.parse_model(EXTRA.sub("", RENAME.sub("", text)).strip())
        for name, dtype, dims, value in EXTRA.findall(text):
            values = np.full([int(d) for d in dims.split(",")], float(value or 0.5), dtype)
            model.graph.initializer.append(numpy_helper.from_array(values, name))
        for index, node in enumerate(model.graph.node):
            node.name = f"/{node.op_type.lower()}{index}"
        names = dict(RENAME.findall(text))
        for initializer in model.graph.initializer:
            initializer.name = names.get(initializer.name, initializer.name)
        for node in model.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
        onnx.save(model, path.with_suffix(".onnx"))


if __name__ == "__main__":
    main()
