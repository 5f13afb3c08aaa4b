"""Conditions on data: `if mask.any():`, `if not torch.isfinite(h).all():`.

A program holds no branches of Python, and torch.export stops at a condition that needs the values of a tensor. Where every run of a condition
on the example has come out the same, in the first step and in the next, the program takes that branch, and a warning says what is assumed of all
data. A condition that comes out differently on the example itself, as one that asks whether a buffer has been filled, or that the example never
reaches, stays what it is: an error of torch.export.
"""

import contextlib
import linecache
import os
import sys
from typing import Any, Callable, Iterator, Optional
from unittest import mock


def _place() -> "tuple[Any, int, int]":
    """The code of the caller's that asks, the instruction in it and its line: the nearest that is neither PyTorch's nor of this file."""
    import torch

    library = os.path.dirname(torch.__file__) + os.sep
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename == __file__ or frame.f_code.co_filename.startswith(library)):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti, frame.f_lineno


@contextlib.contextmanager
def _asked(answer: "Callable[[Any], Optional[bool]]") -> "Iterator[None]":
    """A context in which `answer` is asked for the truth of a tensor of one boolean; None leaves it to PyTorch."""
    import torch

    def replaced(original: Any) -> Any:
        def asking(tensor: Any) -> Any:
            found = answer(tensor) if tensor.dtype == torch.bool and tensor.numel() == 1 else None
            return original(tensor) if found is None else found

        return asking

    with mock.patch.object(torch.Tensor, "__bool__", replaced(torch.Tensor.__bool__)), \
         mock.patch.object(torch.Tensor, "item", replaced(torch.Tensor.item)):  # fmt: skip
        yield


class Decisions:
    """What the conditions of a forward came out as."""

    def __init__(self) -> None:
        self.found: "dict[tuple[Any, int, int], set[bool]]" = {}
        self.assumed: "dict[tuple[Any, int, int], bool]" = {}  #: those that an export has asked for

    def record(self, run: "Callable[[], Any]") -> bool:
        """Runs the forward on numbers; True where some condition always came out the same."""

        def note(tensor: Any) -> bool:
            value = bool(tensor.detach().cpu().numpy().any())
            self.found.setdefault(_place(), set()).add(value)
            return value

        with _asked(note):
            run()
        return any(len(values) == 1 for values in self.found.values())

    @contextlib.contextmanager
    def replayed(self) -> "Iterator[None]":
        """A context in which tensors without values answer as they did on numbers."""
        if not self.found:
            yield
            return
        from torch._subclasses.fake_tensor import is_fake

        def answer(tensor: Any) -> Optional[bool]:
            place = _place()
            values = self.found.get(place, set())
            if len(values) != 1 or not is_fake(tensor):
                return None
            self.assumed[place] = next(iter(values))
            return self.assumed[place]

        with _asked(answer):
            yield

    def wavering(self) -> str:
        """What to say of a condition that came out both ways; empty without one."""
        places = [(code, line) for (code, _, line), values in self.found.items() if len(values) > 1]
        return "" if not places else (
            f"; {places[0][0].co_filename}:{places[0][1]}: `{linecache.getline(places[0][0].co_filename, places[0][1]).strip()}` decides by the "
            "values of a tensor and comes out both ways, on the example or in the step after it; expected torch.where")  # fmt: skip

    def words(self) -> "list[str]":
        """A line for each condition that was taken as given."""
        return [f"{code.co_filename}:{line}: `{linecache.getline(code.co_filename, line).strip()}` decides by the values of a tensor; the step "
                f"does what it does where this is {value}, as on the example, whatever the data" for (code, _, line), value in self.assumed.items()]  # fmt: skip


def needs_values(error: BaseException) -> bool:
    """Whether torch.export has stopped at such a condition."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    cause: "Optional[BaseException]" = error
    while cause is not None:
        if isinstance(cause, GuardOnDataDependentSymNode):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
