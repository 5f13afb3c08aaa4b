"""Losses and optimizers of PyTorch as the compiler's flags spell them."""

from typing import Any, Mapping

_FLAGS_HINT = "or a string as stowage compile --help describes it"

# torch.nn's class -> the compiler's loss, and the attribute for each of its settings.
_LOSSES = {
    "CrossEntropyLoss": ("cross-entropy", {"ignore-index": "ignore_index", "label-smoothing": "label_smoothing", "weight": "weight"}),
    "NLLLoss": ("nll", {"ignore-index": "ignore_index", "weight": "weight"}),
    "BCEWithLogitsLoss": ("bce-with-logits", {"weight": "weight", "pos-weight": "pos_weight"}),
    "KLDivLoss": ("kl-div", {"log-target": "log_target"}),
    "MSELoss": ("mse", {}),
    "L1Loss": ("l1", {}),
    "SmoothL1Loss": ("smooth-l1", {"beta": "beta"}),
    "HuberLoss": ("huber", {"delta": "delta"}),
}

# torch.optim's class -> the compiler's setting for each entry of a group, besides lr and weight_decay.
_ADAM = {"betas": ("beta1", "beta2"), "eps": "epsilon", "amsgrad": "amsgrad"}
_OPTIMIZERS = {
    "SGD": {"momentum": "momentum", "nesterov": "nesterov"},
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "RMSprop": {"alpha": "alpha", "eps": "epsilon", "momentum": "momentum", "centered": "centered"},
    "Adagrad": {"lr_decay": "lr-decay", "initial_accumulator_value": "initial-accumulator", "eps": "epsilon"},
    "Adafactor": {"beta2_decay": "beta2-decay", "eps": ("epsilon1", "epsilon2"), "d": "threshold"},
}
# Entries that choose among PyTorch's own implementations of one arithmetic.
_IMPLEMENTATION = {"params", "foreach", "fused", "capturable", "differentiable", "initial_lr"}
# Entries whose only value with a counterpart is this one.
_FIXED = {"maximize": False, "dampening": 0}


def _words(setting: str, value: Any) -> "list[str]":
    """The setting as a flag has it; none for a switch that is off and for a value left to the default."""
    if value is None or value is False:
        return []
    if value is True:
        return [setting]
    if hasattr(value, "numel") and value.numel() != 1:
        return [f"{setting}=[{','.join(repr(float(entry)) for entry in value.flatten().tolist())}]"]
    return [f"{setting}={value if isinstance(value, int) else repr(float(value))}"]


def loss_flag(loss: Any) -> str:
    """A string as it is; a loss of torch.nn with its settings, of a class the usual ones."""
    if isinstance(loss, str):
        return loss
    if isinstance(loss, type) and loss.__name__ in _LOSSES:
        loss = loss()
    kind = type(loss).__name__
    if kind not in _LOSSES:
        raise ValueError(f"the loss {getattr(loss, '__name__', kind)} has no counterpart here; expected one of torch.nn's "
                         f"{', '.join(_LOSSES)}, {_FLAGS_HINT}")  # fmt: skip
    name, settings = _LOSSES[kind]
    words = [f"reduction={loss.reduction}"]
    for setting, attribute in settings.items():
        words += _words(setting, getattr(loss, attribute))
    return f"{name}:{','.join(words)}"


def optimizer_flags(optimizer: Any, module: Any = None) -> "list[str]":
    """The flags of a string, or of a fresh optimizer of torch.optim.

    Groups of parameters become groups by their names in `module`; they may differ in learning rate and weight decay.
    """
    if isinstance(optimizer, str):
        return [f"--optimizer={optimizer}"]
    if isinstance(optimizer, type) and optimizer.__name__ in _OPTIMIZERS:
        optimizer = made_of_class(optimizer, module)
    kind, groups = type(optimizer).__name__, getattr(optimizer, "param_groups", None)
    if kind not in _OPTIMIZERS or groups is None:
        raise ValueError(f"the optimizer {kind} has no counterpart here; expected one of torch.optim's "
                         f"{', '.join(_OPTIMIZERS)}, {_FLAGS_HINT}")  # fmt: skip
    if any("momentum_buffer" in state or float(state.get("step", 0)) > 0 for state in optimizer.state.values()):
        raise ValueError(f"{kind} has taken steps already, and its moments cannot be taken over; expected a fresh optimizer")
    base = groups[0]
    for group in groups:
        _check_group(kind, group, base)
    words = _words("lr", float(base["lr"]))
    for entry, setting in _OPTIMIZERS[kind].items():
        if isinstance(setting, tuple):
            words += [word for name, value in zip(setting, base[entry]) for word in _words(name, value)]
        else:
            words += _words(setting, base[entry])
    words += _words("weight-decay", float(base["weight_decay"]))
    name = "adamw" if base.get("decoupled_weight_decay") else kind.lower()
    return [f"--optimizer={name}:{','.join(words)}", *_group_flags(kind, groups, module)]


def made_of_class(optimizer: Any, module: Any) -> Any:
    """An optimizer of torch.optim with its defaults, for all parameters that ask for a gradient."""
    import torch

    trained = [] if module is None else [parameter for parameter in module.parameters() if parameter.requires_grad]
    return optimizer(trained or [torch.nn.Parameter(torch.zeros(1))])


def shape_axes(shapes: Any) -> "dict[str, list[int]]":
    """{"sequence": [128, 256]}, "sequence:128,256" or a list of such as the sizes of each axis."""
    if shapes is None:
        return {}
    if isinstance(shapes, Mapping):
        pairs = [(name, sizes if isinstance(sizes, (list, tuple)) else [sizes]) for name, sizes in shapes.items()]
    else:
        texts = [shapes] if isinstance(shapes, str) else list(shapes)
        pairs = [(text.partition(":")[0], text.partition(":")[2].split(",")) for text in texts]
    axes: "dict[str, list[int]]" = {}
    for name, sizes in pairs:
        if not name or not sizes or any(not str(size).isdigit() or int(size) < 1 for size in sizes) or name in axes:
            raise ValueError(f'shapes: expected sizes for each axis once, as {{"sequence": [128, 256]}}, found {shapes!r}')
        axes[name] = sorted({int(size) for size in sizes})
    return axes


def option_flags(options: "Mapping[str, Any]") -> "list[str]":
    """Arguments by name as flags of the same name: True for a switch, nothing for None and False; a list's entries are separated by
    commas, and groups stand each in a flag of its own."""
    flags = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            flags.append(flag)
        elif isinstance(value, (list, tuple)):
            texts = [str(entry) for entry in value]
            flags += [f"{flag}={text}" for text in (texts if name == "group" else [",".join(texts)])]
        elif value is not None and value is not False:
            flags.append(f"{flag}={value}")
    return flags


def trained_names(optimizer: Any, module: Any) -> "set[str]":
    """The parameters that a step changes, by all of their names: with an optimizer of torch.optim only what that one has."""
    held = None if isinstance(optimizer, (str, type)) else {id(p) for group in optimizer.param_groups for p in group["params"]}
    return {name for name, parameter in module.named_parameters(remove_duplicate=False)
            if parameter.requires_grad and (held is None or id(parameter) in held)}  # fmt: skip


def _check_group(kind: str, group: "dict[str, Any]", base: "dict[str, Any]") -> None:
    for entry, value in group.items():
        if entry in _FIXED and value != _FIXED[entry]:
            raise ValueError(f"{kind} with {entry}={value!r} has no counterpart here; expected {_FIXED[entry]!r}")
        if entry in _OPTIMIZERS[kind] and value != base[entry]:
            raise ValueError(f"{kind} has groups with {entry}={base[entry]!r} and {value!r}; expected groups that differ in lr and weight_decay only")  # fmt: skip
        known = {"lr", "weight_decay", "decoupled_weight_decay", *_FIXED, *_IMPLEMENTATION, *_OPTIMIZERS[kind]}
        if entry not in known and entry != "name":
            raise ValueError(f"{kind} has the setting {entry}={value!r}, which has no counterpart here; known are {', '.join(sorted(known - _IMPLEMENTATION))}")  # fmt: skip


def _group_flags(kind: str, groups: "list[dict[str, Any]]", module: Any) -> "list[str]":
    """--group for every group after the first."""
    if module is None:
        if len(groups) > 1:
            raise ValueError(f"{kind} has {len(groups)} groups of parameters, and a model file does not say which they are; "
                             "expected one, or a string with flags=['--group=PATTERN:lr-scale=X,weight-decay=Y']")  # fmt: skip
        return []
    names: "dict[int, list[str]]" = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    if any(id(parameter) not in names for group in groups for parameter in group["params"]):
        raise ValueError(f"{kind} has a parameter that is none of the module's; expected an optimizer of module.parameters()")
    flags, base_rate = [], float(groups[0]["lr"])
    for group in groups[1:]:
        rate = float(group["lr"])
        if rate and not base_rate:
            raise ValueError(f"{kind}: the first group has lr=0, of which lr={rate!r} is no multiple; put that group last")
        members = [name for parameter in group["params"] if parameter.requires_grad and parameter.numel() for name in names[id(parameter)]]
        if members:
            scale = rate / base_rate if base_rate else 1.0
            flags.append(f"--group={_pattern(members)}:lr-scale={scale!r},weight-decay={float(group['weight_decay'])!r}")
    return flags


def _pattern(names: "list[str]") -> str:
    escaped = ["".join("\\" + c if c in "\\*?[]{}," else c for c in name) for name in names]
    return escaped[0] if len(escaped) == 1 else "{" + ",".join(escaped) + "}"
