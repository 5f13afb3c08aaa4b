"""Reference cases of losses and optimizers."""

from typing import Any, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from objectives import Lion
from onnx_init import stream
from op_case import Case, draw
from torch import Tensor


def loss_cases() -> Iterator[Case]:
    def targets(name: str, shape: tuple, classes: int) -> np.ndarray:
        return stream(0, f"ce:{name}:t").integers(0, classes, shape, np.int64)

    for reduction in ("mean", "sum"):
        for name, shape, ignore in (("rows", (6, 9), None), ("ignore", (8, 5), 2), ("pixels", (2, 4, 3, 3), None),
                                    ("pixels_ignore", (2, 4, 3, 3), 1), ("large", (4, 7), None)):  # fmt: skip
            logits = draw(f"ce:{name}", *shape) * np.float32(50 if name == "large" else 1)
            target = targets(name, (shape[0], *shape[2:]), shape[1])
            index = -100 if ignore is None else ignore

            def function(x: Tensor, t: Tensor, r: str = reduction, i: int = index) -> Tensor:
                return F.cross_entropy(x, t, ignore_index=i, reduction=r)

            attrs = {"op": "cross_entropy", "reduction": reduction, "ignore_index": index}
            yield Case("cross_entropy", f"{name}_{reduction}", [logits, target], function, attrs, None, [0])
        inputs = [draw("mse:x", 4, 6), draw("mse:t", 4, 6)]
        yield Case("mse", reduction, inputs, lambda x, t, r=reduction: F.mse_loss(x, t, reduction=r),
                   {"op": "mse", "reduction": reduction}, None, [0, 1])  # fmt: skip


def weights(key: str, count: int) -> list[float]:
    return [round(float(w), 3) for w in draw(key, count, low=0.2, high=2)]


def listed(numbers: list[float]) -> str:
    return "[" + ",".join(str(number) for number in numbers) + "]"


def class_loss_cases() -> Iterator[Case]:
    """Smoothing, weights and ignored classes together, for rows and for pixels; negative log-likelihoods."""
    for reduction in ("mean", "sum"):
        for name, shape, ignore, smoothing, weighted in (
            ("smooth", (6, 5), None, 0.1, False), ("weight", (6, 5), 3, 0, True), ("smooth_weight", (7, 5), 1, 0.3, True),
            ("smooth_pixels", (2, 4, 3, 3), 0, 0.2, True), ("smooth_all", (6, 5), None, 1, True),
        ):  # fmt: skip
            key = f"ce:{name}"
            weight = weights(f"{key}:w", shape[1]) if weighted else None
            target = stream(0, f"{key}:t").integers(0, shape[1], (shape[0], *shape[2:]), np.int64)
            text = f"cross-entropy:reduction={reduction},label-smoothing={smoothing}"
            text += f",ignore-index={ignore}" if ignore is not None else ""
            text += f",weight={listed(weight)}" if weight else ""

            def function(x: Tensor, t: Tensor, r: str = reduction, i: int = -100 if ignore is None else ignore,
                         s: float = smoothing, w: list[float] | None = weight) -> Tensor:  # fmt: skip
                return F.cross_entropy(x, t, ignore_index=i, reduction=r, label_smoothing=s,
                                       weight=None if w is None else torch.tensor(w, dtype=x.dtype))  # fmt: skip

            yield Case("loss", f"cross_entropy_{name}_{reduction}", [draw(key, *shape), target], function,
                       {"loss": text}, None, [0])  # fmt: skip
        for name, shape, ignore, weighted in (("rows", (6, 5), None, False), ("weight", (6, 5), 2, True),
                                              ("pixels", (2, 4, 3, 3), 1, True)):  # fmt: skip
            key = f"nll:{name}"
            weight = weights(f"{key}:w", shape[1]) if weighted else None
            target = stream(0, f"{key}:t").integers(0, shape[1], (shape[0], *shape[2:]), np.int64)
            text = f"nll:reduction={reduction}"
            text += f",ignore-index={ignore}" if ignore is not None else ""
            text += f",weight={listed(weight)}" if weight else ""

            def function(x: Tensor, t: Tensor, r: str = reduction, i: int = -100 if ignore is None else ignore,
                         w: list[float] | None = weight) -> Tensor:  # fmt: skip
                return F.nll_loss(x, t, ignore_index=i, reduction=r,
                                  weight=None if w is None else torch.tensor(w, dtype=x.dtype))  # fmt: skip

            yield Case("loss", f"nll_{name}_{reduction}", [draw(key, *shape), target], function, {"loss": text}, None, [0])


def value_loss_cases() -> Iterator[Case]:
    """Losses of values and distributions. Some differences are zero or at the border of the two parts."""
    shape = (5, 4)
    for reduction in ("mean", "sum"):
        for name, smoothing, weighted, image in (("plain", 0, False, False), ("smooth_weight", 0.2, True, False),
                                                 ("pixels", 0.1, True, True)):  # fmt: skip
            key = f"ce_prob:{name}"
            full = (2, 4, 3, 3) if image else shape
            target = np.exp(draw(f"{key}:t", *full))
            target = (target / target.sum(1, keepdims=True)).astype(np.float32)
            weight = weights(f"{key}:w", 4) if weighted else None
            text = f"cross-entropy:reduction={reduction},probabilities,label-smoothing={smoothing}"
            text += f",weight={listed(weight)}" if weight else ""

            def function(x: Tensor, t: Tensor, r: str = reduction, s: float = smoothing,
                         w: list[float] | None = weight) -> Tensor:  # fmt: skip
                return F.cross_entropy(x, t, reduction=r, label_smoothing=s,
                                       weight=None if w is None else torch.tensor(w, dtype=x.dtype))  # fmt: skip

            yield Case("loss", f"cross_entropy_probabilities_{name}_{reduction}", [draw(key, *full), target], function,
                       {"loss": text}, None, [0])  # fmt: skip

        x, far = draw("values:x", *shape), draw("values:t", *shape)
        t = far.copy()
        t[0] = x[0]  # no difference: where PyTorch's releases disagree about |x|, at 0, is left out
        t[1] = x[1] + np.float32(0.5)
        for name, settings, call in (
            ("l1", "", lambda x, t, r: F.l1_loss(x, t, reduction=r)),
            ("smooth_l1", "", lambda x, t, r: F.smooth_l1_loss(x, t, reduction=r)),
            ("smooth_l1_beta", ",beta=0.3", lambda x, t, r: F.smooth_l1_loss(x, t, reduction=r, beta=0.3)),
            ("smooth_l1_line", ",beta=0", lambda x, t, r: F.smooth_l1_loss(x, t, reduction=r, beta=0.0)),
            ("huber", "", lambda x, t, r: F.huber_loss(x, t, reduction=r)),
            ("huber_delta", ",delta=0.4", lambda x, t, r: F.huber_loss(x, t, reduction=r, delta=0.4)),
        ):
            kind = name.removesuffix("_beta").removesuffix("_delta").removesuffix("_line").replace("_", "-")
            target = far if name in ("l1", "smooth_l1_line") else t
            yield Case("loss", f"{name}_{reduction}", [x, target], lambda x, t, f=call, r=reduction: f(x, t, r),
                       {"loss": f"{kind}:reduction={reduction}{settings}"}, None, [0])  # fmt: skip

        binary = (stream(0, "bce:t").random(shape) < 0.4).astype(np.float32)
        logits = draw("bce:x", *shape) * np.float32(20)
        for name, target, weight, positive in (
            ("plain", binary, None, None), ("soft", draw("bce:soft", *shape, low=0, high=1), None, None),
            ("pos_weight", binary, None, weights("bce:p", 4)), ("both", binary, weights("bce:w", 4), [2.5]),
        ):  # fmt: skip
            text = f"bce-with-logits:reduction={reduction}"
            text += f",weight={listed(weight)}" if weight else ""
            text += f",pos-weight={listed(positive)}" if positive else ""

            def function(x: Tensor, t: Tensor, r: str = reduction, w: list[float] | None = weight,
                         p: list[float] | None = positive) -> Tensor:  # fmt: skip
                tensor = lambda a: None if a is None else torch.tensor(a, dtype=x.dtype)  # noqa: E731
                return F.binary_cross_entropy_with_logits(x, t, weight=tensor(w), pos_weight=tensor(p), reduction=r)

            yield Case("loss", f"bce_{name}_{reduction}", [logits, target], function, {"loss": text}, None, [0])

    share = np.exp(draw("kl:t", *shape))
    share = (share / share.sum(1, keepdims=True)).astype(np.float32)
    share[0, 1] = 0
    for reduction in ("mean", "batchmean", "sum"):
        for name, target, is_log in (("plain", share, False), ("log", np.log(share + np.float32(1e-3)), True)):
            text = f"kl-div:reduction={reduction}" + (",log-target" if is_log else "")

            def function(x: Tensor, t: Tensor, r: str = reduction, log: bool = is_log) -> Tensor:
                return F.kl_div(x, t, reduction=r, log_target=log)

            inputs = [np.log(np.exp(draw("kl:x", *shape)) / 9), target]
            yield Case("loss", f"kl_div_{name}_{reduction}", inputs, function, {"loss": text}, None, [0])


OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd__plain": ("SGD", {"lr": 0.1}),
    "sgd__momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "sgd__nesterov": ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True}),
    "sgd__decay": ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "sgd__momentum_decay": ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
    "sgd__nesterov_decay": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "adam__plain": ("Adam", {"lr": 0.01}),
    "adam__betas_decay": ("Adam", {"lr": 0.02, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1}),
    "adamw__plain": ("AdamW", {"lr": 0.01}),
    "adamw__betas_decay": ("AdamW", {"lr": 0.02, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.3}),
    "adam__amsgrad": ("Adam", {"lr": 0.02, "betas": [0.8, 0.6], "amsgrad": True}),
    "rmsprop__plain": ("RMSprop", {"lr": 0.01}),
    "rmsprop__momentum_decay": ("RMSprop", {"lr": 0.01, "alpha": 0.9, "momentum": 0.8, "weight_decay": 0.1, "eps": 1e-5}),
    "rmsprop__centered": ("RMSprop", {"lr": 0.01, "alpha": 0.8, "centered": True}),
    "rmsprop__centered_momentum": ("RMSprop", {"lr": 0.01, "alpha": 0.4, "centered": True, "momentum": 0.9}),
    "adagrad__plain": ("Adagrad", {"lr": 0.1}),
    "adagrad__decays": ("Adagrad", {"lr": 0.1, "lr_decay": 0.3, "weight_decay": 0.1, "initial_accumulator_value": 0.5,
                                    "eps": 1e-4}),
    "lion__plain": ("Lion", {"lr": 0.01}),
    "lion__betas_decay": ("Lion", {"lr": 0.02, "betas": [0.5, 0.8], "weight_decay": 0.3}),
    "adafactor__vector": ("Adafactor", {"lr": 0.05}),
    "adafactor__vector_decay": ("Adafactor", {"lr": 0.5, "beta2_decay": -0.5, "d": 2.0, "weight_decay": 0.1,
                                              "eps": [1e-4, 0.1]}),
    "adafactor__matrix": ("Adafactor", {"lr": 0.05}),
    "adafactor__matrix_decay": ("Adafactor", {"lr": 0.5, "beta2_decay": -0.6, "d": 1.5, "weight_decay": 0.2}),
    "adafactor__kernel": ("Adafactor", {"lr": 0.05}),
}
# What each optimizer keeps, in the order of its states' names here.
STATES = {"SGD": ["momentum_buffer"], "Adam": ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
          "AdamW": ["exp_avg", "exp_avg_sq"], "RMSprop": ["square_avg", "momentum_buffer", "grad_avg"],
          "Adagrad": ["sum"], "Lion": ["exp_avg"], "Adafactor": ["row_var", "col_var", "variance"]}  # fmt: skip
SHAPES = {"matrix": (3, 5), "matrix_decay": (4, 3), "kernel": (2, 3, 3, 2)}


def run_optimizer(kind: str, options: dict[str, Any], start: Tensor, gradients: Tensor) -> tuple[Tensor, ...]:
    """(parameter after each step [steps, n], then each state tensor after each step)."""
    parameter = start.clone().requires_grad_(True)
    optimizer = (Lion if kind == "Lion" else getattr(torch.optim, kind))([parameter], **options)
    history: list[list[Tensor]] = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        state = optimizer.state[parameter]
        kept = [state[s] for s in STATES[kind] if state.get(s) is not None]
        history.append([t.detach().clone() for t in (parameter, *kept)])
    return tuple(torch.stack(column) for column in zip(*history))


def optimizer_cases() -> Iterator[Case]:
    for key, (kind, options) in OPTIMIZERS.items():
        op, name = key.split("__")
        shape = SHAPES.get(name, (13,))
        inputs = [draw(f"{key}:p", *shape), draw(f"{key}:g", 5, *shape)]

        def function(p: Tensor, g: Tensor, kind: str = kind, options: dict = options) -> tuple[Tensor, ...]:
            return run_optimizer(kind, options, p, g)

        yield Case(op, name, inputs, function, {"op": op, **options}, None, [],
                   available=kind == "Lion" or hasattr(torch.optim, kind))  # fmt: skip


def cases() -> Iterator[Case]:
    for group in (loss_cases, class_loss_cases, value_loss_cases, optimizer_cases):
        yield from group()
