#!/usr/bin/env python3
"""What Stowage says that PyTorch eager takes, beside the live tensors of a step that PyTorch runs.

  eager_memory.py --stowage=build/release/bin/stowage [--dtype=bfloat16] [NAME...]

Each model takes two steps on this processor while every operator below autograd is seen (peak_memory.py): the peak is the second one's.
Beside it stands `pytorch_eager_bytes` of the plan of the exported module. Prints a row per model and optimizer, and fails where they differ
by more than 5 %. With --dtype modules and their inputs are in that type. Run in the environment of scripts/install.sh python.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/zoo"), str(ROOT / "benchmarks/pytorch")]
warnings.filterwarnings("ignore")

import models as zoo  # noqa: E402
import stowage  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from models import Case, Output, classifier, images, tokens  # noqa: E402
from peak_memory import steady_peak  # noqa: E402
from stowage import _types  # noqa: E402

OPTIMIZERS = {
    "sgd:lr=0.01,momentum=0.9": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adamw:lr=1e-3": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}


def vision(name: str, size: int, batch: int) -> Callable[[], Case]:
    import torchvision

    return lambda: classifier(torchvision.models.get_model(name, num_classes=10), batch, size)


def causal(make: Callable[[Any], nn.Module]) -> Callable[[], Case]:
    def build() -> Case:
        import transformers

        ids = tokens(4, 257, 4000)
        return Case(Output(make(transformers), "logits", ["input_ids"]), {"input_ids": ids[:, :-1].contiguous()}, ids[:, 1:].contiguous(),
                    class_axis=-1)  # fmt: skip

    return build


def gpt2(t: Any) -> nn.Module:
    return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=4000, n_positions=256, n_embd=256, n_layer=4, n_head=4, use_cache=False,
                                          bos_token_id=1, eos_token_id=2))  # fmt: skip


def llama(t: Any) -> nn.Module:
    return t.LlamaForCausalLM(t.LlamaConfig(vocab_size=4000, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=8,
                                            num_key_value_heads=4, max_position_embeddings=256, use_cache=False))  # fmt: skip


def bert() -> Case:
    import transformers as t

    model = t.BertForSequenceClassification(t.BertConfig(vocab_size=4000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                                         intermediate_size=1024, max_position_embeddings=128, num_labels=10))  # fmt: skip
    return Case(Output(model, "logits", ["input_ids"]), {"input_ids": tokens(8, 128, 4000)}, torch.randint(0, 10, (8,)))


def t5() -> Case:
    import transformers as t

    model = t.T5ForConditionalGeneration(t.T5Config(vocab_size=4000, d_model=256, d_kv=64, d_ff=1024, num_layers=3, num_heads=4, use_cache=False,
                                                    decoder_start_token_id=0))  # fmt: skip
    ids = tokens(4, 129, 4000)
    inputs = {"input_ids": tokens(4, 128, 4000), "decoder_input_ids": ids[:, :-1].contiguous()}
    return Case(Output(model, "logits", list(inputs)), inputs, ids[:, 1:].contiguous(), class_axis=-1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(signal)[0][:, -1])


def mlp() -> Case:
    layers = [nn.Flatten(), nn.Linear(3072, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
    return classifier(nn.Sequential(*layers), 256, 32)


CASES = {
    "resnet18": vision("resnet18", 112, 16),
    "mobilenet_v2": vision("mobilenet_v2", 112, 8),
    "convnext_tiny": vision("convnext_tiny", 96, 4),
    "deit_tiny": zoo.timm_classifier("deit_tiny_patch16_224", img_size=112),
    "swin_t": vision("swin_t", 112, 4),
    "unet": lambda: Case(zoo.UNet((16, 32, 64)), images(4, 96), torch.randint(0, 10, (4, 96, 96))),
    "gpt2": causal(gpt2),
    "llama": causal(llama),
    "bert": bert,
    "t5": t5,
    "lstm": lambda: Case(Recurrent(), {"signal": torch.randn(32, 64, 64)}, torch.randint(0, 10, (32,))),
    "mlp": mlp,
}


def measured(case: Case, optimizer: Any) -> int:
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output.movedim(case.class_axis, 1), target)

    return steady_peak(case.module.train(), list(case.inputs.values()), case.target, optimizer, loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", default=os.environ.get("STOWAGE_BINARY"))
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("names", nargs="*", help=", ".join(CASES))
    args = parser.parse_args()
    worst = 0.0
    print("| model | optimizer | PyTorch's live peak, bytes | as replayed | |\n|---|---|---:|---:|---:|", flush=True)
    for name in args.names or CASES:
        torch.manual_seed(0)
        case = CASES[name]()
        if args.dtype != "float32":
            case.module.to(getattr(torch, args.dtype))
            case.inputs = {key: _types.taken_by(case.module)(value) for key, value in case.inputs.items()}
        for text, make in OPTIMIZERS.items():
            plan = stowage.plan(case.module, tuple(case.inputs.values()), loss=f"cross-entropy:class-axis={case.class_axis}", optimizer=text,
                                card="1024GiB", recompute="none", threads=2, binary=args.stowage)  # fmt: skip
            said, seen = plan.verdict.pytorch_eager_bytes, measured(case, make(case.module.parameters()))
            off = said / seen - 1
            worst = max(worst, abs(off))
            note = f" ({plan.verdict.pytorch_eager_note})" if plan.verdict.pytorch_eager_note else ""
            print(f"| {name} | {text.split(':')[0]} | {seen:,} | {said:,} | {100 * off:+.1f} %{note} |", flush=True)
    print(f"the largest difference is {100 * worst:.1f} %; at most 5 % are to be")
    sys.exit(worst > 0.05)


if __name__ == "__main__":
    main()
