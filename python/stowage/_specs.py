"""Losses and optimizers of PyTorch as the compiler's flags spell them."""

from typing import Any


def _number(value: Any) -> str:
    return repr(float(value))


def _refuse(kind: str, settings: "dict[str, Any]", expected: "dict[str, Any]") -> None:
    for name, value in expected.items():
        found = settings.get(name, value)
        if found is not value and found != value:
            raise ValueError(f"{kind} with {name}={found!r} has no counterpart here; expected {value!r}, or pass a "
                             "string as stowage compile --help describes it")  # fmt: skip


def loss_flag(loss: Any) -> str:
    """A string as it is; torch.nn.CrossEntropyLoss and MSELoss as the compiler calls them."""
    if isinstance(loss, str):
        return loss
    kind = type(loss).__name__
    if kind == "MSELoss":
        return f"mse:reduction={loss.reduction}"
    if kind == "CrossEntropyLoss":
        _refuse(kind, {"weight": loss.weight, "label_smoothing": loss.label_smoothing},
                {"weight": None, "label_smoothing": 0.0})  # fmt: skip
        return f"cross-entropy:reduction={loss.reduction},ignore-index={loss.ignore_index}"
    raise ValueError(f"the loss {kind} has no counterpart here; expected torch.nn.CrossEntropyLoss, MSELoss or a string "
                     'such as "cross-entropy:ignore-index=-1"')  # fmt: skip


def optimizer_flag(optimizer: Any) -> str:
    """A string as it is; a torch.optim SGD, Adam or AdamW with one group of parameters by its settings."""
    if isinstance(optimizer, str):
        return optimizer
    kind = type(optimizer).__name__
    groups = getattr(optimizer, "param_groups", None)
    if kind not in ("SGD", "Adam", "AdamW") or groups is None:
        raise ValueError(f"the optimizer {kind} has no counterpart here; expected torch.optim.SGD, Adam, AdamW or a string "
                         'such as "adamw:lr=1e-3,weight-decay=0.01"')  # fmt: skip
    if len(groups) != 1:
        raise ValueError(f"{kind} has {len(groups)} groups of parameters; expected one, or a string with --flags")
    group = groups[0]
    _refuse(kind, group, {"maximize": False, "amsgrad": False, "dampening": 0})
    words = ["lr=" + _number(group["lr"])]
    if kind == "SGD":
        if group["momentum"]:
            words.append("momentum=" + _number(group["momentum"]))
        if group["nesterov"]:
            words.append("nesterov")
    else:
        words += [f"beta1={_number(group['betas'][0])}", f"beta2={_number(group['betas'][1])}",
                  f"epsilon={_number(group['eps'])}"]  # fmt: skip
    if group["weight_decay"] or kind == "AdamW":
        words.append("weight-decay=" + _number(group["weight_decay"]))
    return f"{kind.lower()}:{','.join(words)}"
