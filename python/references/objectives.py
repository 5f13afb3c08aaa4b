"""The compiler's losses, optimizers, groups and clipping in PyTorch, from the text of its flags."""

import fnmatch
import re
from typing import Any, Iterable

import numpy as np
import torch
import torch.nn.functional as F
from onnx_init import stream
from torch import Tensor


def settings_of(text: str) -> tuple[str, dict[str, str]]:
    """"name:key=value,flag" -> (name, {key: value, flag: "true"}); commas inside brackets do not separate."""
    name, _, rest = text.partition(":")
    parts = re.findall(r"(?:\[[^\]]*\]|[^,])+", rest)
    return name, {key: value or "true" for key, _, value in (part.partition("=") for part in parts)}


def numbers(settings: dict[str, str], key: str, dtype: torch.dtype) -> Tensor | None:
    if key not in settings:
        return None
    return torch.tensor([float(number) for number in settings[key].strip("[]").split(",")], dtype=dtype)


def targets_for(text: str, seed: int, rows: int, classes: int, labels: np.ndarray) -> np.ndarray:
    """Targets of a random run: classes, or values or distributions over `classes` outputs."""
    name, settings = settings_of(text)
    if name == "nll" or (name == "cross-entropy" and "probabilities" not in settings):
        return labels
    values = stream(seed, "targets").standard_normal((rows, classes), np.float32)
    if name == "bce-with-logits":
        return (values > 0.5).astype(np.float32)
    if name in ("cross-entropy", "kl-div"):
        shares = np.exp(values) / np.exp(values).sum(1, keepdims=True)
        return np.log(shares) if "log-target" in settings else shares
    return values


def loss_of(text: str, output: Tensor, target: Tensor) -> Tensor:
    """For losses over classes, axis 1 holds them unless class-axis says otherwise, and trailing axes of length one are
    dropped."""
    name, settings = settings_of(text)
    reduction = settings.get("reduction", "mean")
    weight = numbers(settings, "weight", output.dtype)
    if name in ("cross-entropy", "nll"):
        output = output.movedim(int(settings.get("class-axis", 1)), 1)
        ignored = int(settings.get("ignore-index", -100))
        while output.ndim > target.ndim + 1 and output.shape[-1] == 1:
            output = output.squeeze(-1)
        if name == "nll":
            return F.nll_loss(output, target, weight, ignore_index=ignored, reduction=reduction)
        target = target.to(output.dtype) if "probabilities" in settings else target
        return F.cross_entropy(output, target, weight, ignore_index=ignored, reduction=reduction,
                               label_smoothing=float(settings.get("label-smoothing", 0)))  # fmt: skip
    target = target.to(output.dtype)
    if name == "bce-with-logits":
        positive = numbers(settings, "pos-weight", output.dtype)
        return F.binary_cross_entropy_with_logits(output, target, weight, pos_weight=positive, reduction=reduction)
    if name == "kl-div":
        return F.kl_div(output, target, reduction=reduction, log_target="log-target" in settings)
    if name == "smooth-l1":
        return F.smooth_l1_loss(output, target, reduction=reduction, beta=float(settings.get("beta", 1)))
    if name == "huber":
        return F.huber_loss(output, target, reduction=reduction, delta=float(settings.get("delta", 1)))
    return {"mse": F.mse_loss, "l1": F.l1_loss}[name](output, target, reduction=reduction)


class Lion(torch.optim.Optimizer):
    """Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), algorithm 2."""

    def __init__(self, parameters: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0) -> None:  # fmt: skip
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                m = state.setdefault("exp_avg", torch.zeros_like(p))
                beta1, beta2 = group["betas"]
                c = beta1 * m + (1 - beta1) * p.grad
                p -= group["lr"] * (torch.sign(c) + group["weight_decay"] * p)
                state["exp_avg"] = beta2 * m + (1 - beta2) * p.grad


def optimizer_class(name: str) -> type:
    if name == "lion":
        return Lion
    names = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "adagrad": "Adagrad",
             "adafactor": "Adafactor"}  # fmt: skip
    return getattr(torch.optim, names[name])


def make_optimizer(text: str, named: Iterable[tuple[str, Tensor]], flags: Iterable[str] = ()) -> torch.optim.Optimizer:
    """"sgd:lr=0.01,momentum=0.9" -> torch.optim.SGD, with the groups of --group and --no-decay=bias among `flags`."""
    name, settings = settings_of(text)
    options: dict[str, Any] = {}
    for key, value in settings.items():
        options[key.replace("-", "_")] = value != "false" if value in ("true", "false") else float(value)
    if name in ("adam", "adamw", "lion") and ("beta1" in options or "beta2" in options):
        options["betas"] = (options.pop("beta1", 0.9), options.pop("beta2", 0.99 if name == "lion" else 0.999))
    for ours, theirs in (("epsilon", "eps"), ("initial_accumulator", "initial_accumulator_value"), ("threshold", "d")):
        if ours in options:
            options[theirs] = options.pop(ours)
    rules = [flag.removeprefix("--group=").partition(":") for flag in flags if flag.startswith("--group=")]
    base = optimizer_class(name)([torch.zeros(1, requires_grad=True)], **options).defaults
    groups = []
    for parameter_name, parameter in named:
        group: dict[str, Any] = {"params": [parameter]}
        for pattern, _, rest in rules:
            if fnmatch.fnmatchcase(parameter_name, pattern):
                _, changes = settings_of(":" + rest)
                group["lr"] = base["lr"] * float(changes.get("lr-scale", 1))
                if "weight-decay" in changes:
                    group["weight_decay"] = float(changes["weight-decay"])
                break
        if "--no-decay=bias" in flags and parameter.ndim <= 1:
            group.setdefault("weight_decay", 0.0)
        groups.append(group)
    return optimizer_class(name)(groups, **options)


def clip(parameters: list[Tensor], flags: Iterable[str]) -> None:
    for flag in flags:
        if flag.startswith("--clip-norm="):
            torch.nn.utils.clip_grad_norm_(parameters, float(flag.removeprefix("--clip-norm=")))
        if flag.startswith("--clip-value="):
            torch.nn.utils.clip_grad_value_(parameters, float(flag.removeprefix("--clip-value=")))
