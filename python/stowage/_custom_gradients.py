"""Gradients that a module's author wrote: subclasses of torch.autograd.Function, and hooks.

torch.export follows a Function's forward alone; of its backward nothing gets into the program. Most backwards multiply what
arrives by a number for each element (straight-through estimators, reversed gradients, surrogates of a spike):

    backward(dy) = dy * m        m = backward(1)

There the exported forward is y.detach() + (x * m - (x * m).detach()), m detached, which has the value y, to the bit, and that
gradient. A backward that is no such product has to be the gradient of its forward (a spelling that keeps less memory): then
the forward says it all. Anything else, and every hook on a gradient, is refused. Which of these a Function is, numbers show: its
backward on what it gets from the example, for random gradients.
"""

import contextlib
import functools
from typing import Any, Callable, Iterator, Sequence
from unittest import mock

# Random gradients in which backward is compared with a product: a share of the largest value.
TOLERANCE = 1e-4


class _Context:
    """What forward and backward share, without autograd behind it."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        import torch

        self.needs_input_grad = tuple(isinstance(a, torch.Tensor) and a.is_floating_point() for a in arguments)
        self.saved_tensors: "tuple[Any, ...]" = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        pass

    def mark_dirty(self, *tensors: Any) -> None:
        pass

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        pass


def _functions() -> "list[type]":
    """Every subclass of torch.autograd.Function that has a forward of its own."""
    import torch

    found, open_ends = [], [torch.autograd.Function]
    while open_ends:
        for kind in open_ends.pop().__subclasses__():
            open_ends.append(kind)
            if "forward" in vars(kind):
                found.append(kind)
    return found


def _is_trusted(kind: type) -> bool:
    """PyTorch's own, checkpoints say, are gradients of their forward."""
    return kind.__module__.startswith("torch.")


def _takes_context(kind: Any) -> bool:
    import torch

    return kind.setup_context is torch.autograd.Function.setup_context


@contextlib.contextmanager
def _grad_mode_kept() -> "Iterator[None]":
    """no_grad() and its like do nothing. Autograd switches itself off around a forward, unseen by torch.export: what leaves such
    a block inside would be written down as switching it off for good."""
    import torch

    with mock.patch.object(torch._C, "_set_grad_enabled", lambda mode: None):
        yield


def _run(kind: Any, forward: "Callable[..., Any]", arguments: Sequence[Any]) -> "tuple[Any, _Context]":
    """The outputs of a Function's own forward, and what it keeps for its backward."""
    context = _Context(arguments)
    with _grad_mode_kept():
        if _takes_context(kind):
            return forward(context, *arguments), context
        output = forward(*arguments)
        kind.setup_context(context, tuple(arguments), output)
    return output, context


def _backward(kind: Any, context: _Context, gradient: Any, count: int) -> "list[Any]":
    """The gradients of the arguments, None for those that have none."""
    with _grad_mode_kept():
        found = kind.backward(context, gradient)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return [*found, *[None] * (count - len(found))][:count]


@contextlib.contextmanager
def _forwards(replace: "Callable[[type, Callable[..., Any]], Callable[..., Any]]") -> "Iterator[None]":
    """A context in which `replace(kind, forward)` stands in the place of every Function's forward."""
    with contextlib.ExitStack() as patches:
        for kind in _functions():
            forward = kind.forward
            patches.enter_context(mock.patch.object(kind, "forward", staticmethod(functools.wraps(forward)(replace(kind, forward)))))
        yield


def _arguments(kind: Any, given: Sequence[Any]) -> "tuple[Any, ...]":
    """What forward was called with, without the context that may stand before it."""
    return tuple(given[1:] if _takes_context(kind) else given)


class CustomGradients:
    """The Functions that a module's forward uses, and how each is to be exported."""

    def __init__(self) -> None:
        self.used: "dict[type, None]" = {}  #: in the order of their first call
        self.products: "set[type]" = set()
        self.hooked = False

    @contextlib.contextmanager
    def recorded(self) -> "Iterator[None]":
        """Notes which Functions run and whether forward hooks gradients; those in `products` give the value with their gradient."""
        import torch

        def replace(kind: type, forward: "Callable[..., Any]") -> "Callable[..., Any]":
            def recording(*given: Any, **named: Any) -> Any:
                if not _is_trusted(kind):
                    self.used[kind] = None
                if kind in self.products:
                    return _as_product(kind, forward, _arguments(kind, given))
                with _grad_mode_kept():
                    return forward(*given, **named)

            return recording

        def hook(tensor: Any, function: Any) -> Any:
            self.hooked = True
            return mock.MagicMock()

        with _forwards(replace), mock.patch.object(torch.Tensor, "register_hook", hook):
            yield

    def classify(self, run: "Callable[[], Any]") -> "list[str]":
        """Runs the forward on numbers and decides about every Function of it; names those that cannot be exported."""
        calls: "dict[type, list[tuple[bool, bool]]]" = {}

        def replace(kind: type, forward: "Callable[..., Any]") -> "Callable[..., Any]":
            def examined(*given: Any, **named: Any) -> Any:
                if not _is_trusted(kind):
                    calls.setdefault(kind, []).append(_examine(kind, forward, _arguments(kind, given)))
                return forward(*given, **named)

            return examined

        with _forwards(replace):
            run()
        refused = []
        for kind, found in calls.items():
            if all(is_product for is_product, _ in found):
                self.products.add(kind)
            elif not all(is_gradient for _, is_gradient in found):
                refused.append(kind.__qualname__)
        return refused


def _as_product(kind: Any, forward: "Callable[..., Any]", arguments: "tuple[Any, ...]") -> Any:
    """The value of a Function whose backward is a product, such that autograd alone finds that gradient."""
    import torch

    y, context = _run(kind, forward, arguments)
    factors = _backward(kind, context, torch.ones_like(y), len(arguments))
    result = y.detach()
    for x, factor in zip(arguments, factors):
        if isinstance(x, torch.Tensor) and factor is not None:
            product = x * factor.detach()
            result = result + (product - product.detach())
    return result


def _is_near(found: Any, expected: Any) -> bool:
    scale = max(float(expected.abs().max()), float(found.abs().max()), 1e-30) if expected.numel() else 1.0
    return found.shape == expected.shape and bool(((found - expected).abs() <= TOLERANCE * scale).all())


def _examine(kind: Any, forward: "Callable[..., Any]", arguments: "tuple[Any, ...]") -> "tuple[bool, bool]":
    """Whether backward is a product, and whether it is the gradient of forward, on these arguments."""
    import torch

    places = [i for i, a in enumerate(arguments) if isinstance(a, torch.Tensor) and a.is_floating_point()]
    leaves = {i: arguments[i].detach().clone().requires_grad_(True) for i in places}
    with torch.enable_grad():
        # Copies that are no leaves: a forward may write over its argument.
        copies = [leaves[i].clone() if i in leaves else a for i, a in enumerate(arguments)]
        y, context = _run(kind, forward, copies)
    if not isinstance(y, torch.Tensor) or not y.is_floating_point() or any(copies[i]._version for i in places):
        return False, False  # several values, or one written over its argument
    random = 3 * torch.randn(y.shape, generator=torch.Generator().manual_seed(3)).to(y.dtype)
    own = dict.fromkeys(places)
    if y.requires_grad:
        own = dict(zip(places, torch.autograd.grad(y, list(leaves.values()), random, allow_unused=True)))
    written = _backward(kind, context, random, len(arguments))
    ones = _backward(kind, _run(kind, forward, [a.detach().clone() if i in leaves else a for i, a in enumerate(arguments)])[1],
                     torch.ones_like(y), len(arguments))  # fmt: skip
    is_product = is_gradient = True
    for i in places:
        zeros = torch.zeros_like(leaves[i])
        given = zeros if written[i] is None else written[i].detach()
        factor = zeros if ones[i] is None else ones[i].detach()
        is_product &= written[i] is None or (factor.shape == y.shape == leaves[i].shape and _is_near(given, random * factor))
        is_gradient &= _is_near(given, zeros if own[i] is None else own[i].detach())
    return is_product, is_gradient


def hooks_of(module: Any) -> "list[str]":
    """The parameters and submodules with hooks that may change gradients."""
    found = [f"parameter {name}" for name, parameter in module.named_parameters()
             if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)]  # fmt: skip
    return found + [f"module {name or type(child).__name__}" for name, child in module.named_modules()
                    if child._backward_hooks or child._backward_pre_hooks]  # fmt: skip
