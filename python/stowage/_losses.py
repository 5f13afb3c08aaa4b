"""The compiler's losses, computed by PyTorch: what a step's own loss is compared with."""

import re
from typing import Any, Callable


def _settings(text: str) -> "tuple[str, dict[str, str]]":
    """A loss as a library states it: its name and its settings; a switch is "true"."""
    name, _, rest = text.partition(":")
    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", rest)
    if name == "output":
        name, parts = f"output:{parts[0]}", parts[1:]
    pairs = [part.partition("=") for part in parts]
    return name, {key: value if equals else "true" for key, equals, value in pairs}


def output_name(text: str) -> "str | None":
    """The output that is the module's own loss; None for a loss with a target."""
    name, _ = _settings(text)
    return name[len("output:") :] if name.startswith("output:") else None


def _numbers(text: "str | None", like: Any) -> Any:
    import torch

    return None if text is None else torch.tensor([float(word) for word in text.strip("[]").split(",")], dtype=like.dtype)


def _class_scores(output: Any, settings: "dict[str, str]") -> Any:
    return output.movedim(int(settings.get("class-axis", "1")), 1)


def draw_target(text: str, shape: "tuple[int, ...]", output: Any, generator: Any) -> Any:
    """Random values that the loss can read beside this output."""
    import torch

    name, settings = _settings(text)
    if name in ("cross-entropy", "nll") and "probabilities" not in settings:
        return torch.randint(0, _class_scores(output, settings).shape[1], shape, generator=generator)
    values = torch.randn(shape, generator=generator, dtype=output.dtype)
    if name == "cross-entropy":
        return values.softmax(int(settings.get("class-axis", "1")))
    if name == "kl-div":
        return values.log_softmax(1) if "log-target" in settings else values.softmax(1)
    return values.sigmoid() if name == "bce-with-logits" else values


def torch_loss(text: str) -> "Callable[[Any, Any], Any]":
    """The loss as a function of the output and the target."""
    import torch

    functional = torch.nn.functional
    name, settings = _settings(text)
    reduction = settings.get("reduction", "mean")

    def of_classes(output: Any, target: Any) -> Any:
        scores = _class_scores(output, settings)
        weight = _numbers(settings.get("weight"), output)
        if "probabilities" in settings:
            target = _class_scores(target, settings)
        else:
            target = target.reshape(scores.shape[:1] + scores.shape[2:])
        common = {"weight": weight, "reduction": reduction}
        if "probabilities" not in settings:
            common["ignore_index"] = int(settings.get("ignore-index", "-100"))
        if name == "nll":
            return functional.nll_loss(scores, target, **common)
        return functional.cross_entropy(scores, target, label_smoothing=float(settings.get("label-smoothing", "0")), **common)

    def of_values(output: Any, target: Any) -> Any:
        weight, positive = (_numbers(settings.get(key), output) for key in ("weight", "pos-weight"))
        if name == "bce-with-logits":
            return functional.binary_cross_entropy_with_logits(output, target, weight, pos_weight=positive, reduction=reduction)
        if name == "kl-div":
            return functional.kl_div(output, target, reduction=reduction, log_target="log-target" in settings)
        if name == "smooth-l1":
            return functional.smooth_l1_loss(output, target, reduction=reduction, beta=float(settings.get("beta", "1")))
        if name == "huber":
            return functional.huber_loss(output, target, reduction=reduction, delta=float(settings.get("delta", "1")))
        return {"mse": functional.mse_loss, "l1": functional.l1_loss}[name](output, target, reduction=reduction)

    def own(output: Any, target: Any) -> Any:
        return output.sum() if settings.get("reduction") == "sum" else output.mean()

    return own if name.startswith("output:") else of_classes if name in ("cross-entropy", "nll") else of_values
