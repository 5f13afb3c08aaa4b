#!/usr/bin/env python3
"""Large models on a card of 24 GB whose host has 64 GB: what plans say of bytes that travel and of seconds that they hold the step.

  benchmarks/plan/slow_memory.py                 all rows, a table in Markdown
  benchmarks/plan/slow_memory.py --only=Qwen     those whose name has "Qwen"

Plans are of an RTX 4090 (--target=cuda:rtx4090), weighed by its data sheet, and by its link to the host for copies (--offload=host). Nothing
is run, and no weights are loaded. Seconds of a plan are processor time of `stowage plan`.

Needs the package with PyTorch, Transformers and PEFT, and diffusers for SDXL's U-Net, whose convolutions cuDNN plans (--cudnn); STOWAGE_BINARY
names the compiler.
"""

import argparse
import re
import resource
import sys
import warnings
from typing import Any

import stowage
import torch
import transformers as T
from stowage._plan import format_bytes

BUDGET = int(22.65 * 2**30)  # what `--card` leaves the arena of an RTX 4090's 23.65 GiB
CARD = ["--target=cuda:rtx4090"]
HOST = ["--offload=host", "--host-memory=64GiB"]


def mistral() -> Any:
    return T.MistralConfig(architectures=["MistralForCausalLM"], dtype="bfloat16", vocab_size=32000, hidden_size=4096, intermediate_size=14336,
                           num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8)  # fmt: skip


def qwen() -> Any:
    return T.Qwen2Config(architectures=["Qwen2ForCausalLM"], dtype="bfloat16", vocab_size=152064, hidden_size=5120, intermediate_size=13824,
                         num_hidden_layers=48, num_attention_heads=40, num_key_value_heads=8)  # fmt: skip


class Denoiser(torch.nn.Module):
    """A U-Net of diffusers with its sample first and its noise as the one output."""

    def __init__(self, unet: torch.nn.Module) -> None:
        super().__init__()
        self.unet = unet

    def forward(self, sample: Any, timestep: Any, text: Any, pooled: Any, sizes: Any) -> Any:
        added = {"text_embeds": pooled, "time_ids": sizes}
        return self.unet(sample, timestep, encoder_hidden_states=text, added_cond_kwargs=added, return_dict=False)[0]


def sdxl() -> torch.nn.Module:
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        return Denoiser(UNet2DConditionModel(
            sample_size=128, block_out_channels=(320, 640, 1280), layers_per_block=2, cross_attention_dim=2048,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), transformer_layers_per_block=(1, 2, 10),
            attention_head_dim=(5, 10, 20), use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=256,
            projection_class_embeddings_input_dim=2816))  # fmt: skip


def sdxl_tuned() -> torch.nn.Module:
    """With the adapters of diffusers' script for LoRA: rank 4 on the attentions' matrices."""
    from peft import LoraConfig, get_peft_model

    whole = sdxl().requires_grad_(False)
    with torch.device("meta"):
        whole.unet = get_peft_model(whole.unet, LoraConfig(r=4, lora_alpha=4, target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
    return whole


def sdxl_example(images: int = 1) -> "tuple[torch.Tensor, ...]":
    with torch.device("meta"):
        return (torch.empty(images, 4, 128, 128), torch.empty(images), torch.empty(images, 77, 2048), torch.empty(images, 1280),
                torch.empty(images, 6))  # fmt: skip


SLOW: "dict[str, list[str]]" = {"none": [], "values": HOST, "values and state": [*HOST, "--offload-state=auto"],
                               "values and the optimizer's state": [*HOST, "--offload-state=optimizer"],
                               "values and all state": [*HOST, "--offload-state=all"]}
# name, how it is trained, the model and an example of its inputs, options
ROWS = [
    ("Qwen2.5-14B", "QLoRA, 1 x 2048", qwen, lambda: (1, 2048), {"method": "qlora"}),
    ("Qwen2.5-14B", "QLoRA, 4 x 2048", qwen, lambda: (4, 2048), {"method": "qlora"}),
    ("Mistral-7B", "LoRA, 4 x 2048", mistral, lambda: (4, 2048), {"method": "lora"}),
    ("SDXL's U-Net", "LoRA, 1 x 1024 x 1024", sdxl_tuned, sdxl_example, {"loss": "mse", "frozen": "bf16"}),
    ("SDXL's U-Net", "LoRA, 8 x 1024 x 1024", sdxl_tuned, lambda: sdxl_example(8), {"loss": "mse", "frozen": "bf16"}),
    ("SDXL's U-Net", "all, 1 x 1024 x 1024", sdxl, sdxl_example, {"loss": "mse"}),
    ("Mistral-7B", "all, 1 x 2048", mistral, lambda: (1, 2048), {"method": "full"}),
    ("Mistral-7B", "all, state in 8 bits, 1 x 2048", mistral, lambda: (1, 2048), {"method": "full", "optimizer_state": "8bit"}),
]


def planned(model: Any, example: Any, options: "dict[str, Any]", budget: int, flags: "list[str]") -> "stowage.Plan | str":
    """The plan, or what it needs at least."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return stowage.plan(model(), example(), optimizer="adamw", precision="bf16", memory_budget=budget, flags=[*CARD, *flags], threads=1, **options)
        except stowage.InfeasibleBudget as error:
            return f"does not fit: {format_bytes(error.smallest_bytes)} at least, {bound(str(error))}"


def bound(refusal: str) -> str:
    found = re.search(r"of which state +(.*) \(", refusal)
    return f"of which state that stays {found[1]}" if found else ""


def seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cells(plan: "stowage.Plan | str") -> str:
    if isinstance(plan, str):
        return f"{plan} | | | | |"
    copies = [graph["copies"] for graph in plan.json["graphs"] if graph["name"] == "train" and "copies" in graph]
    step = plan.json["step_seconds"]
    text = f"{format_bytes(plan.arena_bytes)}, {step:.3f} s, {100 * plan.extra_time:.1f} % | "
    if not copies:
        return text + "nothing | | | |"
    (found,) = copies
    return (text + f"{format_bytes(found['bytes_out'])}, {format_bytes(found['bytes_in'])} | {format_bytes(found['slow_peak_bytes'])} | "
            f"{format_bytes(plan.json['slow_bytes'])} | "
            f"{found['hidden_seconds']:.3f}, {found['exposed_seconds']:.3f} |")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name and way to train have this")
    parser.add_argument("--cudnn", help="the folder of cuDNN, where it lies elsewhere than usual")
    parser.add_argument("--slow", choices=SLOW, help="one use of slow memory alone")
    arguments = parser.parse_args()
    only = arguments.only
    if arguments.cudnn:
        CARD.append(f"--cudnn={arguments.cudnn}")
    print("| model | trained | slow memory | arena, step, more time | out, in | there at once | pinned | hidden, waited for, s | seconds a plan |\n|---|---|---|---|---|---|---|---|---:|")
    for name, trained, model, example, options in ROWS:
        if only not in f"{name} {trained}":
            continue
        for words, flags in SLOW.items():
            if arguments.slow not in (None, words):
                continue
            began = seconds_of_children()
            row = cells(planned(model, example, options, BUDGET, flags))
            print(f"| {name} | {trained} | {words} | {row} {seconds_of_children() - began:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
