"""Functions of PyTorch that torch.export or its exporter cannot follow, spelled so that they can, in the same arithmetic.

While a module is exported they stand in the place of PyTorch's own:

- validations that look at the data (`if torch.any(var < 0): raise`) are left out, as is the search for a causal mask among masks;
- mixtures of experts that look up the tokens of each expert have all tokens seen by all of them (`_experts.py`);
- an autocast that is off is none, and Module.to that changes nothing does nothing;
- instance_norm with running statistics updates them in operations of their own, and an evaluation normalizes with them;
- what `x[mask] = value` and fill_diagonal_ write is chosen by the mask;
- as_strided is a sequence of views (`_strides.py`);
- cumprod is log2(n) products of the tensor with itself, moved by 1, 2, 4, ... places;
- a sum or mean over bags with a padding row leaves it out by a factor of 0, where the exporter writes a branch that data decides;
- ctc_loss is its recursion over time, in logarithms, one step behind the other (Graves et al. 2006, equations 6 to 8). Its gradient by the
  scores is that of the definition; PyTorch's is the same behind a log_softmax, which it takes for granted.
"""

import contextlib
import sys
from typing import Any, Iterator
from unittest import mock

from . import _experts
from ._buffers import in_training
from ._strides import as_strided

# In the place of the logarithm of zero, whose differences would be no numbers.
NEVER = -1e30


def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    import torch

    result = input if dtype is None else input.to(dtype)
    if result.dim() == 0:
        return result.clone()
    result = result.movedim(dim, -1)
    extent, step = result.shape[-1], 1
    while step < extent:
        moved = torch.cat([torch.ones_like(result[..., :step]), result[..., :-step]], -1)
        result, step = result * moved, 2 * step
    return result.movedim(-1, dim)


def _log_add(*terms: Any) -> Any:
    """The logarithm of a sum of exponentials, element by element; NEVER where no term counts."""
    import torch

    largest = terms[0]
    for term in terms[1:]:
        largest = torch.maximum(largest, term)
    largest = largest.detach()
    total = sum(torch.exp(term - largest) for term in terms)
    return largest + torch.log(total)


def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
             zero_infinity: bool = False) -> Any:  # fmt: skip
    import torch

    if targets.dim() != 2:
        raise ValueError("ctc_loss can be exported for targets of shape (batch, longest) alone, found all in one row")
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    times, batch, _ = log_probs.shape
    longest = targets.shape[1]
    lengths = torch.as_tensor(input_lengths).reshape(-1)
    counts = torch.as_tensor(target_lengths).reshape(-1)
    # Labels with a blank before, between and behind them: blank, l1, blank, l2, ..., blank.
    targets = targets.clamp(min=0)  # what pads them may be any number
    labels = torch.cat([torch.stack([torch.full_like(targets, blank), targets], -1).flatten(1), torch.full_like(targets[:, :1], blank)], 1)
    places = torch.arange(2 * longest + 1)
    scores = log_probs.gather(2, labels.unsqueeze(0).expand(times, -1, -1))
    never = torch.full_like(scores[0], NEVER)
    # A label may follow the one before it without a blank between unless both are the same.
    repeats = torch.cat([torch.ones_like(labels[:, :2], dtype=torch.bool), labels[:, 2:] == labels[:, :-2]], 1)
    skips = (places % 2 == 1) & ~repeats
    alpha = torch.where(places < 2, scores[0], never)
    for time in range(1, times):
        before = torch.cat([never[:, :1], alpha[:, :-1]], 1)
        second = torch.where(skips, torch.cat([never[:, :2], alpha[:, :-2]], 1), never)
        following = _log_add(alpha, before, second) + scores[time]
        alpha = torch.where((time < lengths).unsqueeze(1), following, alpha)
    last = (places == 2 * counts.unsqueeze(1)) | (places == 2 * counts.unsqueeze(1) - 1)
    ends = torch.where(last, alpha, never)
    largest = ends.amax(1).detach()
    losses = -(largest + torch.log(torch.exp(ends - largest.unsqueeze(1)).sum(1)))
    impossible = losses > -NEVER / 2
    if zero_infinity:
        losses = torch.where(impossible, torch.zeros_like(losses), losses)
    else:
        losses = torch.where(impossible, torch.full_like(losses, float("inf")), losses)
    if reduction == "mean":
        return (losses / counts.clamp(min=1)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses[0] if single else losses


def _padded_bags(embedding_bag: Any) -> Any:
    """PyTorch's embedding_bag, but for sums and means that leave a row out."""

    def spelled(input: Any, weight: Any, offsets: Any = None, max_norm: Any = None, norm_type: float = 2, scale_grad_by_freq: bool = False,
                mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
                padding_idx: Any = None) -> Any:  # fmt: skip
        import torch

        if padding_idx is None or mode == "max" or max_norm is not None or scale_grad_by_freq:
            return embedding_bag(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights,
                                 include_last_offset, padding_idx)  # fmt: skip
        if input.dim() == 2 and offsets is not None:
            raise ValueError("embedding_bag takes offsets of one row of numbers alone, found a batch of bags")
        kept = (input != padding_idx % weight.shape[0]).to(weight.dtype)
        share = kept if per_sample_weights is None else kept * per_sample_weights
        rows = torch.nn.functional.embedding(input, weight) * share.unsqueeze(-1)
        if input.dim() == 2:
            sums, counts = rows.sum(1), kept.sum(1)
        else:
            starts = offsets[:-1] if include_last_offset else offsets
            bags = (torch.arange(input.shape[0], device=input.device).unsqueeze(1) >= starts).sum(1) - 1
            sums = torch.zeros(starts.shape[0], weight.shape[1], dtype=weight.dtype, device=input.device).index_add(0, bags, rows)
            counts = torch.zeros(starts.shape[0], dtype=weight.dtype, device=input.device).index_add(0, bags, kept)
        return sums if mode == "sum" else sums / counts.clamp(min=1).unsqueeze(-1)

    return spelled


def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    import math

    import torch

    if not isinstance(var, torch.Tensor):
        var = torch.full_like(input, var)
    elif var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    var = var + (var.clamp(min=eps) - var).detach()  # PyTorch's gradient passes the limit
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _followed(instance_norm: Any) -> Any:
    """PyTorch's instance_norm, whose running statistics are written by operations that a program holds."""

    def followed(input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
                 use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Any:  # fmt: skip
        import torch

        if running_mean is None or not use_input_stats:
            return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
        evaluated = torch.nn.functional.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        dimensions = tuple(range(2, input.dim()))
        with torch.no_grad():
            for statistic, batch in ((running_mean, input.mean(dimensions)), (running_var, input.var(dimensions))):
                statistic.mul_(1 - momentum).add_(batch.mean(0), alpha=momentum)
        return in_training()(instance_norm(input, None, None, weight, bias, True, momentum, eps), evaluated)

    return followed


def _unless_within(function: Any, spelled: Any) -> Any:
    """`spelled` in the place of a function that PyTorch itself calls, too, to say how values of its own operations lie."""

    def called(*arguments: Any, **named: Any) -> Any:
        within = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "torch"
        return (function if within else spelled)(*arguments, **named)

    return called


def _where_masked(setitem: Any) -> Any:
    """Tensor.__setitem__, but for `x[mask] = value` of one value for all places: PyTorch counts the places, whose number only data says."""

    def assigned(self: Any, key: Any, value: Any) -> None:
        import torch

        masked = isinstance(key, torch.Tensor) and key.dtype == torch.bool and isinstance(value, torch.Tensor)
        if not masked or not 0 < key.dim() <= self.dim() - value.dim():
            return setitem(self, key, value)
        mask = key.reshape(*key.shape, *[1] * (self.dim() - key.dim()))
        self.copy_(torch.where(mask, value.to(self.dtype), self))

    return assigned


def _by_mask(fill_diagonal: Any) -> Any:
    """Tensor.fill_diagonal_, which writes by strides, for matrices."""

    def filled(self: Any, fill_value: Any, wrap: bool = False) -> Any:
        import torch

        if self.dim() != 2 or wrap:
            return fill_diagonal(self, fill_value, wrap)
        rows, columns = (torch.arange(extent, device=self.device) for extent in self.shape)
        return self.masked_fill_(rows.unsqueeze(1) == columns, fill_value)

    return filled


def _unless_there(to: Any) -> Any:
    """Module.to, which does nothing where all of the module's tensors are as it would make them: it would make them again, which a module that is
    being exported forbids."""

    def moved(self: Any, *arguments: Any, **named: Any) -> Any:
        import torch

        device, dtype, _, layout = torch._C._nn._parse_to(*arguments, **named)
        tensors = [*self.parameters(), *self.buffers()]
        if layout is None and all((device is None or tensor.device == device)
                                  and (dtype is None or tensor.dtype == dtype or not tensor.is_floating_point()) for tensor in tensors):  # fmt: skip
            return self
        return to(self, *arguments, **named)

    return moved


def _unless_idle(method: Any) -> Any:
    """An end of torch.autocast, which does nothing where it switches off what is off: torch.export puts what stands inside into a program of its own."""

    def called(self: Any, *arguments: Any) -> Any:
        import torch

        if self._enabled or torch.is_autocast_enabled(self.device):
            return method(self, *arguments)
        return self if method.__name__ == "__enter__" else None

    return called


@contextlib.contextmanager
def exportable() -> "Iterator[None]":
    """A context in which these stand in the place of PyTorch's."""
    import torch
    import torch.distributions
    import torch.nn.modules.transformer as transformer

    functional = torch.nn.functional
    with contextlib.ExitStack() as patches:
        for owner, name, function in (
            (torch, "as_strided", _unless_within(torch.as_strided, as_strided)),
            (torch.Tensor, "as_strided", _unless_within(torch.Tensor.as_strided, as_strided)),
            (torch.Tensor, "__setitem__", _where_masked(torch.Tensor.__setitem__)),
            (torch.Tensor, "fill_diagonal_", _by_mask(torch.Tensor.fill_diagonal_)),
            (torch, "cumprod", cumprod),
            (torch.Tensor, "cumprod", cumprod),
            (functional, "ctc_loss", ctc_loss),
            (functional, "embedding_bag", _padded_bags(functional.embedding_bag)),
            (functional, "gaussian_nll_loss", gaussian_nll_loss),
            (functional, "instance_norm", _followed(functional.instance_norm)),
            (torch.distributions.Distribution, "_validate_args", False),
            (torch.nn.Module, "to", _unless_there(torch.nn.Module.to)),
            (torch.autocast, "__enter__", _unless_idle(torch.autocast.__enter__)),
            (torch.autocast, "__exit__", _unless_idle(torch.autocast.__exit__)),
            (transformer, "_detect_is_causal_mask", lambda mask, is_causal=None, size=None: is_causal is True),
            *_experts.forwards(),
        ):
            if hasattr(owner, name):
                patches.enter_context(mock.patch.object(owner, name, function))
        yield
