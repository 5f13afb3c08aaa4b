"""Models of Transformers by their configuration alone: a module on PyTorch's meta device, and an example of the shapes asked for.

  "mistral/config.json", (1, 2048), method="lora"   -->   LoraModel of MistralForCausalLM, {"input_ids": [1, 2048], "labels": [1, 2048]}

Nothing is loaded: no weights, no tokenizer.
"""

import os
from pathlib import Path
from typing import Any, Mapping, Optional

from ._library import StowageError

#: Tokens of an example where none are asked for, at most those that the model has places for.
TOKENS = 2048


def is_configuration(model: Any) -> bool:
    """A configuration of Transformers, the path of one, whatever it is called, or of the folder that holds its config.json."""
    if isinstance(model, (str, os.PathLike)):
        return Path(model).suffix == ".json" or (Path(model) / "config.json").is_file()
    return type(model).__module__.startswith("transformers.") and hasattr(model, "model_type")


def configured(model: Any, shapes: Any, method: Any, options: "dict[str, Any]", trains: bool = False) -> "tuple[Any, Any, dict[str, Any]]":
    """The module and the example in the place of a configuration and (batch, tokens), and `options` with what the method says of frozen
    parameters; everything else as it is. For a step that `trains`, buffers and adapters have values; parameters have none."""
    if not is_configuration(model):
        if method is not None:
            raise StowageError("method= says how the model of a configuration is tuned; a module is planned as it is: freeze its parameters, or "
                               "give it adapters (peft.get_peft_model)")  # fmt: skip
        return model, shapes, options
    configuration = _configuration_of(model)
    module = _tuned(_module_of(configuration, trains), method)
    if trains:
        _give_adapters_values(module)
    if method == "qlora":
        options = {**options, "frozen": ",".join([*_quantized(module), *([options["frozen"]] if options.get("frozen") else [])])}
    return module, shapes if isinstance(shapes, Mapping) else _example(module, configuration, shapes), options


def _quantized(module: Any) -> "list[str]":
    """Matrices in nf4, but for that of the output: as Transformers loads a model in 4 bits. One that is the table of tokens, too, is read by
    index, and no matrix of products alone."""
    output = _base(module).get_output_embeddings()
    of_output = [name for name, parameter in module.named_parameters(remove_duplicate=False) if output is not None and parameter is output.weight]
    return ["nf4", *(f"{name}:auto" for name in of_output if len(of_output) == 1)]


def _configuration_of(model: Any) -> Any:
    if not isinstance(model, (str, os.PathLike)):
        return model
    try:
        from transformers import AutoConfig
    except ImportError:
        raise StowageError(f"{model} is a configuration of Transformers, which is not installed: pip install transformers") from None
    try:
        return AutoConfig.from_pretrained(os.fspath(model), local_files_only=True)
    except Exception as error:
        raise StowageError(f"{model} is no configuration that Transformers knows: {error}") from error


def _module_of(configuration: Any, trains: bool) -> Any:
    import torch
    import transformers

    from ._weightless import parameters_without_values

    names = getattr(configuration, "architectures", None) or []
    kind = next((found for name in names if (found := getattr(transformers, name, None)) is not None), None)
    dtype = getattr(configuration, "dtype", None) or torch.float32
    with parameters_without_values() if trains else torch.device("meta"):
        if kind is not None:
            return kind._from_config(configuration, dtype=dtype)
        try:
            return transformers.AutoModelForCausalLM.from_config(configuration, dtype=dtype)
        except ValueError as error:
            raise StowageError(f"the configuration names no class of Transformers in `architectures` (it has {names}), and it is no causal "
                               f"language model: {error}") from error  # fmt: skip


def _tuned(module: Any, method: Any) -> Any:
    """With adapters: "lora" and "qlora" are PEFT's with its own defaults, an object is a configuration of PEFT."""
    if method is None or method == "full":
        return module
    try:
        import peft
    except ImportError:
        raise StowageError("adapters are PEFT's, which is not installed: pip install peft") from None
    if isinstance(method, peft.PeftConfig):
        return peft.get_peft_model(module, method)
    if method not in ("lora", "qlora"):
        raise StowageError(f"method={method!r}: expected \"full\", \"lora\", \"qlora\" or a configuration of PEFT, like peft.LoraConfig(r=16)")
    try:
        return peft.get_peft_model(module, peft.LoraConfig())
    except ValueError as error:  # that knows no layers of this kind of model
        raise StowageError(f"PEFT has no default for {type(module).__name__}: {error}; "
                           "say which layers: method=peft.LoraConfig(target_modules=\"all-linear\")") from error  # fmt: skip


def _give_adapters_values(module: Any) -> None:
    """The first values that PEFT gives adapters, where it has put them beside a base without values."""
    for layer in module.modules():
        if not hasattr(layer, "reset_lora_parameters"):
            continue
        for adapter in layer.active_adapters:
            configuration = module.peft_config[adapter]
            if configuration.use_dora or configuration.init_lora_weights not in (True, False, "gaussian"):
                what = "use_dora" if configuration.use_dora else f"init_lora_weights={configuration.init_lora_weights!r}"
                raise StowageError(f"the first values of adapters with {what} come of the base's weights, which are read after them; expected the "
                                   "module with its weights in place of its configuration")  # fmt: skip
            for parts in (layer.lora_A, layer.lora_B):
                if adapter in parts:
                    parts[adapter].to_empty(device="cpu")
            for tensors in (layer.lora_embedding_A, layer.lora_embedding_B):
                if adapter in tensors:
                    tensors[adapter] = type(tensors[adapter])(tensors[adapter].new_empty(tensors[adapter].shape, device="cpu"))
            layer.reset_lora_parameters(adapter, configuration.init_lora_weights)


def weights_of(model: Any) -> Optional[str]:
    """The folder of a configuration's file, where weights lie beside it."""
    if not isinstance(model, (str, os.PathLike)) or not is_configuration(model):
        return None
    folder = Path(model) if Path(model).is_dir() else Path(model).parent
    return os.fspath(folder) if any(folder.glob("*.safetensors*")) else None


def _example(module: Any, configuration: Any, shapes: Any) -> "dict[str, Any]":
    import torch

    batch, tokens = _sizes(configuration, shapes)
    main = getattr(module, "main_input_name", "input_ids")

    def integers(*shape: int) -> Any:
        return torch.empty(shape, dtype=torch.long, device="meta")

    has_classes = type(_base(module)).__name__.endswith("Classification")
    if main == "pixel_values":
        size = configuration.image_size
        rows, columns = size if isinstance(size, (tuple, list)) else (size, size)
        return {main: torch.empty(batch, configuration.num_channels, rows, columns, device="meta"), "labels": integers(batch)}
    if main == "input_features":
        frames = 2 * configuration.max_source_positions
        return {main: torch.empty(batch, configuration.num_mel_bins, frames, device="meta"), "labels": integers(batch, tokens)}
    if main != "input_ids":
        raise StowageError(f"{type(_base(module)).__name__} reads {main}: give the example as a mapping, {{\"{main}\": ..., \"labels\": ...}}")
    return {main: integers(batch, tokens), "labels": integers(batch) if has_classes else integers(batch, tokens)}


def _base(module: Any) -> Any:
    return module.get_base_model() if hasattr(module, "get_base_model") else module


def _sizes(configuration: Any, shapes: Any) -> "tuple[int, int]":
    """(batch, tokens), a batch alone, or nothing."""
    places: "Optional[int]" = next((value for name in ("max_position_embeddings", "max_target_positions", "n_positions")
                                    if isinstance(value := getattr(configuration, name, None), int) and value > 0), None)  # fmt: skip
    tokens = min(TOKENS, places or TOKENS)
    if shapes is None:
        return 1, tokens
    given = (shapes,) if isinstance(shapes, int) else tuple(shapes)
    if not 1 <= len(given) <= 2 or not all(isinstance(size, int) and size > 0 for size in given):
        raise StowageError(f"for a configuration, expected (batch, tokens) in place of an example, found {shapes!r}")
    if places is not None and len(given) == 2 and given[1] > places:
        raise StowageError(f"the model has places for {places} tokens, not for {given[1]}")
    return given[0], given[1] if len(given) == 2 else tokens
