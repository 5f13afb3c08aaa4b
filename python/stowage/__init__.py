"""Stowage from Python: a PyTorch module or an ONNX file becomes a training step inside one planned arena.

    import stowage

    step = stowage.compile(module, (images,), loss="cross-entropy", optimizer="adamw:lr=1e-3", memory_budget="2GiB")
    print(step.plan)
    for images, labels in loader:
        loss = step(images, labels)
    module.load_state_dict(step.state_dict())

docs/python.md of the repository describes every function.
"""

from ._adapters import merge
from ._library import Library, Model, StowageError, TensorInfo
from ._plan import Plan, Verdict
from ._step import Step, compile, frontier, load, max_batch, plan
from ._tool import CompileError, DoesNotFit, InfeasibleBudget, StowageWarning, ToolNotFound, find_binary
from ._torch_export import ExportError, export
from ._check import CheckReport, check

__all__ = ["CheckReport", "CompileError", "DoesNotFit", "ExportError", "InfeasibleBudget", "Library", "Model", "Plan", "Step",
           "StowageError", "StowageWarning", "TensorInfo", "ToolNotFound", "Verdict", "check", "compile", "export", "find_binary", "frontier", "load", "max_batch", "merge", "plan"]  # fmt: skip
