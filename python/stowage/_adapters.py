"""Adapters (LoRA) as PEFT keeps them: adapter_config.json and adapter_model.safetensors of what a step has trained, and merged into the base.

  stowage.merge(base, adapter, output)      W + scale * (up @ down) in the base's own type, shard by shard
"""

import json
import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional

import numpy as np

from . import _safetensors
from ._library import StowageError
from ._tool import StowageWarning, caller_level

CONFIGURATION, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_WRAPPER = "base_model.model."
#: Elements of a matrix that are changed at a time.
_PIECE = 1 << 22
#: Endings of files with weights: they are not copied beside the merged ones.
_OF_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack", ".part"}


def saved_name(name: str, adapter: str) -> Optional[str]:
    """PEFT's name in a file of a parameter of the module, where it is part of this adapter: without the adapter's own name."""
    if f".modules_to_save.{adapter}." in name:
        return name.replace(f".modules_to_save.{adapter}.", ".")
    parts = name.split(".")
    for i, part in enumerate(parts):
        if part.startswith("lora_") and parts[i + 1 : i + 2] == [adapter]:
            return ".".join(parts[: i + 1] + parts[i + 2 :])
    return None


def _read(folder: Path) -> "tuple[dict[str, Any], _safetensors.File]":
    try:
        configuration = json.loads((folder / CONFIGURATION).read_text())
    except (OSError, ValueError) as error:
        raise StowageError(f"{folder}: expected an adapter of PEFT, {CONFIGURATION} and {WEIGHTS}: {error}") from None
    if not (folder / WEIGHTS).exists():
        raise StowageError(f"{folder}: {WEIGHTS} is missing; an adapter of PEFT has it beside {CONFIGURATION}")
    return configuration, _safetensors.File(folder / WEIGHTS)


class _Adapter:
    """What is added to which tensor of a base."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration, self.file = _read(folder)
        kind, unread = self.configuration.get("peft_type"), [key for key in ("use_dora", "lora_bias") if self.configuration.get(key)]
        if kind != "LORA" or unread:
            raise StowageError(f"{folder}: expected an adapter of the kind LORA, W + scale * (B @ A), found {unread[0] if unread else kind}; PEFT's own "
                               "merge_and_unload() knows it")  # fmt: skip
        self.pairs: "dict[str, dict[str, str]]" = {}  # by module: "A" and "B"
        self.whole: "dict[str, str]" = {}  # by tensor of the base
        for name in self.file.tensors:
            bare = name[len(_WRAPPER) :] if name.startswith(_WRAPPER) else name
            found = re.fullmatch(r"(.*)\.lora_(?:embedding_)?([AB])(?:\.weight)?", bare)
            if found:
                self.pairs.setdefault(found[1], {})[found[2]] = name
            else:
                self.whole[bare.replace(".base_layer.", ".")] = name
        for module, pair in self.pairs.items():
            if len(pair) != 2:
                raise StowageError(f"{self.file.path}: {module} has lora_{next(iter(pair))} alone; expected lora_A and lora_B")

    def scale_of(self, module: str, rank: int) -> float:
        def of(patterns: "dict[str, Any]", usual: Any) -> Any:
            return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", module)), usual)

        alpha = of(self.configuration.get("alpha_pattern") or {}, self.configuration["lora_alpha"])
        return float(alpha) / (rank**0.5 if self.configuration.get("use_rslora") else rank)

    def numbers(self, name: str) -> np.ndarray:
        return _safetensors.widened(self.file.read(name), self.file.tensors[name][0])


class _Change:
    """The rows that a pair adds to a tensor of `shape`: its factors as matrices, whose product is the tensor or, transposed, its turn."""

    def __init__(self, adapter: _Adapter, module: str, target: str, shape: "tuple[int, ...]") -> None:
        pair = adapter.pairs[module]
        down, up = adapter.numbers(pair["A"]), adapter.numbers(pair["B"])
        self.scale = np.float32(adapter.scale_of(module, down.shape[0]))
        self.down, self.up = down.reshape(down.shape[0], -1), up.reshape(up.shape[0], -1)
        rows, columns = shape[0], int(np.prod(shape[1:], dtype=np.int64))
        is_turned = "lora_embedding" in pair["A"] or bool(adapter.configuration.get("fan_in_fan_out"))
        found = (self.down.shape[1], self.up.shape[0]) if is_turned else (self.up.shape[0], self.down.shape[1])
        if self.up.shape[1] != self.down.shape[0] or found != (rows, columns):
            raise StowageError(f"{adapter.file.path}: {module}: lora_B {list(up.shape)} times lora_A {list(down.shape)} is no change of '{target}' "
                               f"{list(shape)}; expected the adapter of this base")  # fmt: skip
        self.is_turned = is_turned

    def rows(self, first: int, count: int) -> np.ndarray:
        part = slice(first, first + count)
        product = self.down[:, part].T @ self.up.T if self.is_turned else self.up[part] @ self.down
        return self.scale * product


def _name_in(base: "dict[str, _safetensors.File]", wanted: str, path: Any) -> str:
    """The base's name of a tensor that an adapter changes; the base may be that of a model with one path more or less."""
    if wanted in base:
        return wanted
    others = [name for name in base if name.endswith("." + wanted) or wanted.endswith("." + name)]
    longest = [name for name in others if len(name) == max(map(len, others))]
    if len(longest) != 1:
        raise StowageError(f"{path}: the adapter changes '{wanted}', which the base does not have{' once' if longest else ''}")
    return longest[0]


def _merged(file: _safetensors.File, name: str, adapter: _Adapter, module: Optional[str], whole: Optional[str]) -> "Iterator[np.ndarray]":
    """The pieces of a tensor, in its type: that of the adapter in its place, and what its pair of factors adds."""
    dtype, shape = file.tensors[name][:2]
    if dtype not in _safetensors.FLOATS:  # a counter, which is nothing but taken
        yield adapter.file.read(whole)
        return
    given = None if whole is None else adapter.numbers(whole)
    if given is not None and given.shape != shape:
        raise StowageError(f"{adapter.file.path}: '{whole}' is {list(given.shape)}, that of the base {list(shape)}")
    change = None if module is None else _Change(adapter, module, name, shape)
    rows = max(1, _PIECE // max(1, int(np.prod(shape[1:], dtype=np.int64))))
    for first in range(0, shape[0], rows):
        count = min(rows, shape[0] - first)
        numbers = given[first : first + count] if given is not None else _safetensors.widened(file.read(name, first, count), dtype)
        if change is not None:
            numbers = numbers + change.rows(first, count).reshape(numbers.shape)
        yield _safetensors.rounded(numbers, dtype)


def _merge_file(file: _safetensors.File, output: Path, adapter: _Adapter, pairs: "dict[str, str]", whole: "dict[str, str]") -> None:
    spans = sorted(tensor[2:] for tensor in file.tensors.values())
    if [begin for begin, _ in spans] != [0, *(end for _, end in spans)][: len(spans)]:
        raise StowageError(f"{file.path}: expected tensors one behind another, found room between some, or one in another")
    with _safetensors.replaced(output) as target:
        target.write(len(file.header).to_bytes(8, "little") + file.header)
        for name, (_, _, begin, end) in sorted(file.tensors.items(), key=lambda item: item[1][2:]):
            if name in whole or name in pairs:
                for piece in _merged(file, name, adapter, pairs.get(name), whole.get(name)):
                    target.write(piece.tobytes())
                continue
            with open(file.path, "rb") as source:
                source.seek(file.start + begin)
                while begin < end:
                    begin += target.write(source.read(min(end - begin, 1 << 24)))


def merge(base: Any, adapter: Any, output: Any) -> None:
    """Writes the base with an adapter of PEFT in its weights: W + scale * (B @ A), computed in float32 and rounded to the type of W.

    `base` is a folder of Hugging Face's, also of shards, or a file; `adapter` a folder as PEFT, and `Step.save_adapter`, writes it. The shards
    of `output`, a new folder, are those of the base, beside what else it has (configuration, tokenizer). A piece of a matrix is held at a time.
    """
    base, output = Path(base), Path(output)
    files, change = _safetensors.files_of(base), _Adapter(Path(adapter))
    if output.exists() and any(output.iterdir()):
        raise StowageError(f"{output}: expected a new folder, or an empty one")
    held = {name: file for file in files for name in file.tensors}
    pairs = {_name_in(held, f"{module}.weight", base): module for module in change.pairs}
    whole = {_name_in(held, name, base): source for name, source in change.whole.items()}
    for name in (*pairs, *whole):
        source = change.file.tensors[whole[name]] if name in whole else None
        is_counter = source is not None and source[:2] == held[name].tensors[name][:2]
        if held[name].tensors[name][0] not in _safetensors.FLOATS and not is_counter:
            raise StowageError(f"{held[name].path}: '{name}' is in {held[name].tensors[name][0]}; expected a base in {', '.join(_safetensors.FLOATS)}")
    output.mkdir(parents=True, exist_ok=True)
    for file in files:
        _merge_file(file, output / file.path.name, change, pairs, whole)
    for file in sorted(base.iterdir()) if base.is_dir() else []:
        if file.is_file() and file.suffix not in _OF_WEIGHTS and file.name != CONFIGURATION:
            shutil.copyfile(file, output / file.name)


class AdapterFiles:
    """The adapters of a step whose module is one of PEFT's, and what beside them it trains: modules that PEFT keeps whole, with their buffers, and the
    running statistics of all others."""

    def __init__(self, module: Any) -> None:
        self.adapter: str = module.active_adapter
        self.configuration = module.peft_config[self.adapter]
        names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
        # Of a module that modules_to_save names PEFT asks for all that its state_dict() has.
        names += [name for name in module.state_dict() if f".modules_to_save.{self.adapter}." in name and name not in names]
        self.saved = {name: saved for name in names if (saved := saved_name(name, self.adapter)) is not None}

    def save(self, folder: Any, read: Any, statistics: "Iterable[str]") -> None:
        """`read` gives the value of a parameter, or of a buffer, by its name in the module; `statistics` are names of what training writes."""
        os.makedirs(folder, exist_ok=True)
        names = {**{name: name for name in statistics}, **self.saved}
        tensors = {saved: read(name) for name, saved in sorted(names.items())}
        _safetensors.write(Path(folder) / WEIGHTS, tensors, {"format": "pt"})
        is_training = self.configuration.inference_mode
        self.configuration.inference_mode = True  # as PEFT saves it: whoever loads it does not train it unasked
        try:
            self.configuration.save_pretrained(os.fspath(folder))
        finally:
            self.configuration.inference_mode = is_training

    def load(self, folder: Any, shapes: "Mapping[str, tuple[int, ...]]", write: Any, statistics: "Iterable[str]") -> None:
        """`shapes` has those of the module's tensors by name, `write` sets a value; nothing is written unless all fits. Statistics of modules that PEFT
        does not keep whole are in no file of its own: they stay as they are then, with a warning."""
        _, file = _read(Path(folder))
        own = {name: name for name in statistics if name not in self.saved}
        absent = [name for name in own if name not in file.tensors]
        if len(absent) == len(own):
            own = {}
        names = {**own, **self.saved}
        missing = [saved for saved in names.values() if saved not in file.tensors]
        unknown = [name for name in file.tensors if name not in names.values()]
        if missing or unknown:
            raise StowageError(f"{file.path}: this is another model's adapter: "
                               + (f"'{missing[0]}' is missing" if missing else f"'{unknown[0]}' is unknown"))  # fmt: skip
        for name, saved in names.items():
            if file.tensors[saved][1] != shapes[name]:
                raise StowageError(f"{file.path}: '{saved}' is {list(file.tensors[saved][1])}, that of the step {list(shapes[name])}; "
                                   "expected an adapter of the same settings")  # fmt: skip
        if absent:
            warnings.warn(f"{file.path} has no running statistics of the base, '{absent[0]}' and {len(absent) - 1} more: the step keeps its own",
                          StowageWarning, stacklevel=caller_level())  # fmt: skip
        for name, saved in names.items():
            dtype = file.tensors[saved][0]
            write(name, _safetensors.widened(file.read(saved), dtype) if dtype in _safetensors.FLOATS else file.read(saved))


def adapter_files(module: Any) -> Optional[AdapterFiles]:
    """Nothing for a module that is none of PEFT's."""
    return AdapterFiles(module) if hasattr(module, "peft_config") and isinstance(getattr(module, "active_adapter", None), str) else None
