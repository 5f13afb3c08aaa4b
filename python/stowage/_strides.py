"""Views that the exporter does not write as PyTorch means them: as_strided, and writing into a diagonal.

A file holds tensors, not memory. The exporter's own translation of as_strided takes every tensor to lie row by row, which a transposed one does not
(Longformer's windows overlap in one); here it is a sequence of views that do not ask. What `x.diagonal().add_(y)` leaves in x has no
translation.
"""

from typing import Any


def _axes(input: Any) -> "tuple[Any, list[tuple[Any, Any]]]":
    """The input without axes that do not move, and with the others by falling stride; their extents and strides."""
    for axis in reversed(range(input.dim())):
        if input.shape[axis] == 1 or input.stride(axis) == 0:
            input = input.select(axis, 0)
    order = sorted(range(input.dim()), key=input.stride, reverse=True)
    input = input.permute(order)
    return input, list(zip(input.shape, input.stride()))


def _runs(input: Any, wanted: "list[tuple[Any, Any]]", offset: Any) -> "tuple[Any, list[tuple[Any, Any]]]":
    """The axes, joined where an axis of the result goes from one into the other."""
    input, axes = _axes(input)
    runs: "list[tuple[Any, Any]]" = []
    for extent, stride in axes:
        if runs:
            coarser = runs[-1][1]
            below = sum(((count - 1) * step for count, step in wanted if step % coarser != 0), start=offset % coarser)
            if not below < coarser:
                if coarser != extent * stride:
                    raise ValueError("as_strided reads values that the tensor does not have, or in an order that no views give; "
                                     "expected strides that are multiples of the tensor's own")  # fmt: skip
                runs[-1] = (runs[-1][0] * extent, stride)
                continue
        runs.append((extent, stride))
    return input.reshape([extent for extent, _ in runs]), runs


def as_strided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    if any(extent == 0 for extent in size):
        return input.new_zeros(size)
    offset = 0 if storage_offset is None else storage_offset - input.storage_offset()
    moving = [axis for axis, (extent, step) in enumerate(zip(size, stride)) if extent != 1 and step != 0]
    result, runs = _runs(input, [(size[axis], stride[axis]) for axis in moving], offset)
    homes = {axis: next((place for place, (_, step) in enumerate(runs) if stride[axis] % step == 0), None) for axis in moving}
    if None in homes.values():
        raise ValueError(f"as_strided with the strides {tuple(stride)} goes between the values of a tensor with the strides {input.stride()}; "
                         "expected multiples of those")  # fmt: skip
    labels: "list[Any]" = [("run", place) for place in range(len(runs))]
    for place, (extent, step) in enumerate(runs):
        steps = sorted(((stride[axis] // step, axis) for axis in moving if homes[axis] == place), reverse=True)
        span = 1 + sum((size[axis] - 1) * moved for moved, axis in steps)
        first, offset = offset // step, offset % step
        if not (first >= 0 and first + span <= extent):
            raise ValueError(f"as_strided reads {first + span} values of an axis with {extent}; expected values of the tensor itself")
        at = labels.index(("run", place))
        if not steps:
            result = result.select(at, first)
            labels.pop(at)
            continue
        result = result.narrow(at, first, span)
        for moved, axis in steps[:-1]:  # windows of what the finer steps reach, each `moved` behind the one before it
            span = span - (size[axis] - 1) * moved
            result, labels[at] = result.unfold(at, span, moved), axis
            labels.append(("run", place))
            at = len(labels) - 1
        moved, labels[at] = steps[-1]
        result = result[(slice(None),) * at + (slice(None, None, moved),)]
    if offset != 0:
        raise ValueError("as_strided begins between two values of the tensor; expected one of its own")
    result = result.permute([labels.index(axis) for axis in moving])
    for axis in range(len(size)):
        if axis not in moving:
            result = result.unsqueeze(axis)
    return result.expand(list(size))


def translations() -> "dict[Any, Any]":
    """For torch.onnx.export's custom_translation_table."""
    import onnx
    import torch
    from onnxscript import opset18 as op

    def diagonal_scatter(self: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
        rank = len(self.shape)
        dim1, dim2 = dim1 % rank, dim2 % rank
        rows, columns = int(self.shape[dim1]), int(self.shape[dim2])
        before = max(0, -offset)
        behind = rows - before - min(rows - before, columns - max(0, offset))
        others = iter(range(rank - 2))
        rest = [axis for axis in range(rank) if axis != dim2]
        spread = op.Transpose(src, perm=[rank - 2 if axis == dim1 else next(others) for axis in rest])
        if before or behind:
            pads = [[side if axis == dim1 else 0 for axis in rest] for side in (before, behind)]
            spread = op.Pad(spread, op.Constant(value_ints=pads[0] + pads[1]))
        places = [column - row == offset for row in range(rows) for column in range(columns)]
        mask = op.Constant(value=onnx.helper.make_tensor("diagonal", onnx.TensorProto.BOOL, [rows, columns], places))
        if dim1 > dim2:
            mask = op.Transpose(mask, perm=[1, 0])
        mask = op.Unsqueeze(mask, op.Constant(value_ints=[axis for axis in range(rank) if axis not in (dim1, dim2)])) if rank > 2 else mask
        return op.Where(mask, op.Unsqueeze(spread, op.Constant(value_ints=[dim2])), self)

    return {torch.ops.aten.diagonal_scatter.default: diagonal_scatter}
