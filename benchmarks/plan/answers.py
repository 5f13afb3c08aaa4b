#!/usr/bin/env python3
"""Does it fit? Known models, by their configurations alone, planned for several cards and a CPU: the tables of docs/answers.md.

  benchmarks/plan/answers.py                         all rows, a table in Markdown
  benchmarks/plan/answers.py --only=Mistral          those whose name has "Mistral"
  benchmarks/plan/answers.py --keep=docs/answers.md  cells that the page has as they are, those that it lacks are planned; the estimates are made anew
  benchmarks/plan/answers.py --keep=docs/answers.md --targets=CPU  as above, with the column of the CPU planned anew
  benchmarks/plan/answers.py --published             the second table: settings that others have measured

Needs the package with PyTorch and Transformers, PEFT for adapters and Accelerate for its estimates (pip install peft accelerate), and for the U-Net of
Stable Diffusion its own library (pip install diffusers): without that, its rows are left out and named, and the exit status is 1. STOWAGE_BINARY names the
compiler. The sizes of the models are those that their authors published; nothing is loaded.
"""

import argparse
import functools
import importlib.util
import resource
import sys
import time
import warnings
from typing import Any

import stowage
import torch
import transformers as T
from stowage._plan import format_bytes

# Column: arguments of stowage.plan. The CPU is one with AVX2, of 8 cores, in a machine with 32 GiB, whatever machine plans.
TARGETS = {
    "RTX 4090": {"target": "cuda:rtx4090"},
    "A100 80 GB": {"target": "cuda:a100"},
    "H100": {"target": "cuda:h100"},
    "CPU, 32 GiB": {"target": "host", "target_cpu": "x86-64-v3", "threads": 8, "card": "32GiB"},
}
TRAINED = {"full": "all", "eight": "all, 8-bit states", "lora": "LoRA", "qlora": "QLoRA"}


def llama(**sizes: Any) -> Any:
    return T.LlamaConfig(architectures=["LlamaForCausalLM"], dtype="bfloat16", max_position_embeddings=131072, vocab_size=128256, **sizes)


class Denoising(torch.nn.Module):
    """The loss of a step of diffusers' examples/text_to_image/train_text_to_image_lora.py: latents and texts are encoded before."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, noisy: torch.Tensor, times: torch.Tensor, texts: torch.Tensor, noise: torch.Tensor) -> "dict[str, torch.Tensor]":
        predicted = self.model(noisy, times, encoder_hidden_states=texts, return_dict=False)[0]
        return {"loss": torch.nn.functional.mse_loss(predicted.float(), noise)}


class StableDiffusion:
    """The U-Net of Stable Diffusion 1.5, which Transformers does not have, for images of batch x height x width pixels."""

    needs = "diffusers"
    # What github.com/CompVis/stable-diffusion states in configs/stable-diffusion/v1-inference.yaml, in the words of diffusers: 859.5 million parameters.
    sizes = {
        "sample_size": 64, "in_channels": 4, "out_channels": 4, "layers_per_block": 2, "block_out_channels": (320, 640, 1280, 1280),
        "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        "cross_attention_dim": 768, "attention_head_dim": 8,
    }  # fmt: skip

    def model(self) -> torch.nn.Module:
        from diffusers import UNet2DConditionModel

        return UNet2DConditionModel(**self.sizes)

    def tuned(self, shape: "tuple[int, ...]") -> "tuple[torch.nn.Module, dict[str, torch.Tensor]]":
        """With the adapters of diffusers' script for LoRA, rank 4 on the attentions' matrices, and an example of the latents."""
        from peft import LoraConfig, get_peft_model

        batch, height, width = shape[0], shape[1] // 8, shape[2] // 8
        with torch.device("meta"):
            base = self.model().requires_grad_(False)
            module = Denoising(get_peft_model(base, LoraConfig(r=4, lora_alpha=4, target_modules=["to_k", "to_q", "to_v", "to_out.0"])))
            latents = torch.zeros(batch, 4, height, width)
            return module, {"noisy": latents, "times": torch.zeros(batch, dtype=torch.long), "texts": torch.zeros(batch, 77, 768),
                            "noise": torch.zeros_like(latents)}  # fmt: skip


# name: configuration, methods, shapes
MODELS = {
    "GPT-2 124M": (T.GPT2Config(architectures=["GPT2LMHeadModel"]), ["full"], [(1, 1024), (8, 1024)]),
    "Qwen2.5-0.5B": (
        T.Qwen2Config(architectures=["Qwen2ForCausalLM"], dtype="bfloat16", vocab_size=151936, hidden_size=896, intermediate_size=4864,
                      num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True),
        ["full"], [(1, 2048), (4, 2048)]),
    "Llama-3.2-1B": (llama(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                           tie_word_embeddings=True), ["full", "eight"], [(1, 2048), (4, 2048)]),
    "Mistral-7B": (
        T.MistralConfig(architectures=["MistralForCausalLM"], dtype="bfloat16", vocab_size=32000, hidden_size=4096, intermediate_size=14336,
                        num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8), ["lora", "qlora"], [(1, 2048), (4, 2048)]),
    "Llama-3.1-8B": (llama(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8),
                     ["lora", "qlora"], [(1, 2048), (4, 2048)]),
    "Qwen2.5-14B": (
        T.Qwen2Config(architectures=["Qwen2ForCausalLM"], dtype="bfloat16", vocab_size=152064, hidden_size=5120, intermediate_size=13824,
                      num_hidden_layers=48, num_attention_heads=40, num_key_value_heads=8), ["qlora"], [(1, 2048), (4, 2048)]),
    "ViT-L/16": (
        T.ViTConfig(architectures=["ViTForImageClassification"], hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                    intermediate_size=4096, num_labels=1000), ["full"], [(8,), (32,)]),
    "Whisper-small": (
        T.WhisperConfig(architectures=["WhisperForConditionalGeneration"], vocab_size=51865, d_model=768, encoder_layers=12,
                        decoder_layers=12, encoder_attention_heads=12, decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072),
        ["full"], [(1, 448), (8, 448)]),
    "Stable Diffusion 1.5, U-Net": (StableDiffusion(), ["lora"], [(1, 512, 512), (4, 512, 512)]),
}  # fmt: skip


LITGPT = "[LitGPT](https://github.com/Lightning-AI/litgpt/tree/main/config_hub/finetune), A10G"
TORCHTUNE = "[torchtune](https://github.com/pytorch/torchtune#memory-and-training-speed), RTX 4090"
QUERY_VALUE = {"r": 32, "lora_alpha": 16, "lora_dropout": 0.05, "target_modules": ["q_proj", "v_proj"]}
NO_KEYS = {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
# What others have measured: model, whether the base is in nf4, adapters, shape, pieces of the head and its loss, bytes of the allocator's peak, where it
# is stated. In pieces the module gives its loss alone, as torchtune's recipe does: logits that it gives as well are whole in an evaluation.
PUBLISHED = [
    ("Mistral-7B", False, QUERY_VALUE, (2, 512), 1, 20.66e9, LITGPT),
    ("Mistral-7B", True, QUERY_VALUE, (2, 512), 1, 14.29e9, LITGPT),
    ("Llama-3.1-8B", False, QUERY_VALUE, (1, 512), 1, 19.73e9, LITGPT),
    ("Llama-3.1-8B", True, QUERY_VALUE, (2, 512), 1, 17.41e9, LITGPT),
    ("Llama-3.1-8B", False, NO_KEYS, (2, 2048), 8, 16.2 * 2**30, TORCHTUNE),
    ("Llama-3.1-8B", True, NO_KEYS, (2, 2048), 8, 7.4 * 2**30, TORCHTUNE),
]


@functools.cache
def estimate(name: str) -> str:
    """What `accelerate estimate-memory --dtypes float16` prints: bytes to load the model, and to train it with Adam."""
    from accelerate import init_empty_weights
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    with init_empty_weights():
        configuration = MODELS[name][0]
        model = configuration.model() if isinstance(configuration, StableDiffusion) else T.AutoModel.from_config(configuration, dtype=torch.float32)
    size, _ = calculate_maximum_sizes(model)
    return f"{format_bytes(size // 2)}, {format_bytes(max(estimate_training_usage(size, 'float16').values()))}"


class LossAlone(torch.nn.Module):
    """A language model that gives nothing but its loss."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> "dict[str, torch.Tensor]":
        return {"loss": self.model(input_ids=input_ids, labels=labels).loss}


def published(only: str) -> None:
    """Plans of settings that others have measured: as they are, and within the bytes that were measured."""
    from peft import LoraConfig, get_peft_model

    print("| model | trained | batch | measured peak | where | arena | within the measured peak |\n|---|---|---|---:|---|---:|---|")
    for name, in_nf4, adapters, shape, pieces, peak, source in PUBLISHED:
        if only not in name:
            continue
        # As method="qlora" has it: nf4, but for the output's matrix.
        flags = ["--frozen=nf4,*.lm_head.weight:bf16"] if in_nf4 else []

        model: Any = MODELS[name][0]
        example: Any = shape
        options: "dict[str, Any]" = {"method": LoraConfig(**adapters)}
        if pieces > 1:
            flags.append(f"--loss-chunks={pieces}")
            with torch.device("meta"):
                base = T.AutoModelForCausalLM.from_config(model, dtype=torch.bfloat16)
                example, options = {word: torch.empty(shape, dtype=torch.long) for word in ("input_ids", "labels")}, {}
            model = LossAlone(get_peft_model(base, LoraConfig(**adapters)))

        def plan(**budget: Any) -> stowage.Plan:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return stowage.plan(model, example, optimizer="adamw", precision="bf16", target="cuda:rtx4090", flags=flags,  # noqa: B023
                                    **options, **budget)  # fmt: skip  # noqa: B023

        whole = plan()
        within = "fits as it is"
        if whole.arena_bytes > peak:
            try:
                tight = plan(memory_budget=int(peak))
                within = f"{format_bytes(tight.arena_bytes)} in {100 * tight.extra_time:.1f} % more time"
            except stowage.InfeasibleBudget as error:
                within = f"does not fit: {format_bytes(error.smallest_bytes)} at least"
        trained = f"{'QLoRA' if in_nf4 else 'LoRA'}, rank {adapters['r']}, {len(adapters['target_modules'])} matrices a layer"
        print(f"| {name} | {trained} | {' x '.join(map(str, shape))} | {format_bytes(int(peak))} | {source} | {format_bytes(whole.arena_bytes)} | {within} |",
              flush=True)  # fmt: skip


def answer(configuration: Any, method: str, shape: "tuple[int, ...]", target: "dict[str, Any]") -> "tuple[stowage.Plan, float]":
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it does not fit is the answer, not a surprise
        options = {"method": "full", "optimizer_state": "8bit"} if method == "eight" else {"method": method}
        model, example = configuration, shape
        if isinstance(configuration, StableDiffusion):
            (model, example), options = configuration.tuned(shape), {"frozen": "bf16"}
        plan = stowage.plan(model, example, optimizer="adamw", precision="bf16", **target, **options)
    return plan, time.monotonic() - began


def cell(plan: stowage.Plan) -> str:
    verdict = plan.verdict
    if verdict.fits:
        return f"{format_bytes(plan.arena_bytes)}, {format_bytes(verdict.spare_bytes)} to spare"
    recompute = next((remedy["text"] for remedy in verdict.remedies if remedy["text"].startswith("values computed again")), "")
    at_all = f"; fits in {recompute.partition(', in ')[2]}" if recompute else "; no plan fits"
    return f"{format_bytes(plan.arena_bytes)}, {format_bytes(-verdict.spare_bytes)} too much{at_all}"


def cells_of(page: str) -> "dict[tuple[str, ...], dict[str, tuple[str, str]]]":
    """Of every row of the page's first table, by model, what is trained, and batch: each target's cell and the seconds of its plan."""
    with open(page) as file:
        rows = [[text.strip() for text in line.strip().strip("|").split("|")] for line in file if line.startswith("|")]
    cells: "dict[tuple[str, ...], dict[str, tuple[str, str]]]" = {}
    targets: "list[str]" = []
    for row in rows:
        if row[0] == "model":
            targets = row[3:-2] if row[-1] == "seconds a plan" else []
        elif targets and row[0] in MODELS:
            cells[tuple(row[:3])] = dict(zip(targets, zip(row[3:-2], row[-1].split(), strict=True), strict=True))
    if not cells:
        sys.exit(f"{page}: expected a table whose last column is \"seconds a plan\", found none; leave out --keep to plan all of it")
    return cells


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--method", choices=TRAINED, help="one way to train alone")
    parser.add_argument("--keep", metavar="PAGE", help="a page with the table: its cells are kept, and only what it lacks is planned")
    parser.add_argument("--targets", metavar="WORD", help="with --keep: columns whose name has this are planned anew")
    parser.add_argument("--published", action="store_true", help="the table of settings that others have measured")
    args = parser.parse_args()
    if args.targets is not None and (not args.keep or not any(args.targets in target for target in TARGETS)):
        parser.error(f"--targets={args.targets}: expected a part of one of {'; '.join(TARGETS)}; and beside it --keep=PAGE with the other columns")
    return args


def main() -> int:
    args = parsed()
    if args.published:
        published(args.only)
        return 0
    kept = cells_of(args.keep) if args.keep else {}
    print(f"| model | trained | batch | {' | '.join(TARGETS)} | Accelerate: to load, to train | seconds a plan |\n"
          f"|---|---|---|{'---|' * len(TARGETS)}---|---:|", flush=True)  # fmt: skip
    slowest = 0.0
    rows = [(name, configuration, method, shape) for name, (configuration, methods, shapes) in MODELS.items() if args.only in name
            for method in methods if args.method in (None, method) for shape in shapes]  # fmt: skip
    left_out = set()
    for name, configuration, method, shape in rows:
        needed = getattr(configuration, "needs", None)
        if needed and importlib.util.find_spec(needed) is None:
            left_out.add(f"{name}: its rows are left out, since {needed} is not installed: pip install {needed}")
            continue
        key = (name, TRAINED[method], " x ".join(map(str, shape)))
        cells = dict(kept.get(key, {}))
        for target, arguments in TARGETS.items():
            if target in cells and not (args.targets is not None and args.targets in target):
                continue
            plan, seconds = answer(configuration, method, shape, arguments)
            slowest = max(slowest, seconds)
            cells[target] = cell(plan), f"{seconds:.0f}"
        texts, seconds_of_plans = zip(*(cells[target] for target in TARGETS), strict=True)
        print(f"| {' | '.join([*key, *texts, estimate(name), ' '.join(seconds_of_plans)])} |", flush=True)
    for line in sorted(left_out):
        print(line, file=sys.stderr)
    if slowest > 0:
        peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        print(f"\nAt most {slowest:.0f} s and {peak / 1e6:.1f} GB of memory for a plan.")
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
