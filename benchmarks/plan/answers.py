#!/usr/bin/env python3
"""Does it fit? Known models, by their configurations alone, planned for several cards: the tables of docs/answers.md.

  benchmarks/plan/answers.py                         all rows, a table in Markdown
  benchmarks/plan/answers.py --only=Mistral          those whose name has "Mistral"
  benchmarks/plan/answers.py --keep=docs/answers.md  what was planned as the page has it; the estimates are made anew
  benchmarks/plan/answers.py --published             the second table: settings that others have measured

Needs the package with PyTorch and Transformers, PEFT for adapters and Accelerate for its estimates (pip install peft accelerate);
STOWAGE_BINARY names the compiler. The sizes of the models are those of the config.json that their authors published; nothing is loaded.
"""

import argparse
import functools
import resource
import sys
import time
import warnings
from typing import Any

import stowage
import torch
import transformers as T
from stowage._plan import format_bytes

CARDS = {"RTX 4090": "cuda:rtx4090", "A100 80 GB": "cuda:a100", "H100": "cuda:h100"}
TRAINED = {"full": "all", "eight": "all, 8-bit states", "lora": "LoRA", "qlora": "QLoRA"}


def llama(**sizes: Any) -> Any:
    return T.LlamaConfig(architectures=["LlamaForCausalLM"], dtype="bfloat16", max_position_embeddings=131072, vocab_size=128256, **sizes)


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
}  # fmt: skip


LITGPT = "[LitGPT](https://github.com/Lightning-AI/litgpt/tree/main/config_hub/finetune), A10G"
TORCHTUNE = "[torchtune](https://github.com/pytorch/torchtune#memory-and-training-speed), RTX 4090"
QUERY_VALUE = {"r": 32, "lora_alpha": 16, "lora_dropout": 0.05, "target_modules": ["q_proj", "v_proj"]}
NO_KEYS = {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
# What others have measured: model, whether the base is in nf4, adapters, shape, bytes of the allocator's peak, where it is stated.
PUBLISHED = [
    ("Mistral-7B", False, QUERY_VALUE, (2, 512), 20.66e9, LITGPT),
    ("Mistral-7B", True, QUERY_VALUE, (2, 512), 14.29e9, LITGPT),
    ("Llama-3.1-8B", False, QUERY_VALUE, (1, 512), 19.73e9, LITGPT),
    ("Llama-3.1-8B", True, QUERY_VALUE, (2, 512), 17.41e9, LITGPT),
    ("Llama-3.1-8B", False, NO_KEYS, (2, 2048), 16.2 * 2**30, TORCHTUNE),
    ("Llama-3.1-8B", True, NO_KEYS, (2, 2048), 7.4 * 2**30, TORCHTUNE),
]


@functools.cache
def estimate(name: str) -> str:
    """What `accelerate estimate-memory --dtypes float16` prints: bytes to load the model, and to train it with Adam."""
    from accelerate import init_empty_weights
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    with init_empty_weights():
        model = T.AutoModel.from_config(MODELS[name][0], dtype=torch.float32)
    size, _ = calculate_maximum_sizes(model)
    return f"{format_bytes(size // 2)}, {format_bytes(max(estimate_training_usage(size, 'float16').values()))}"


def published(only: str) -> None:
    """Plans of settings that others have measured: as they are, and within the bytes that were measured."""
    from peft import LoraConfig

    print("| model | trained | batch | measured peak | where | arena | within the measured peak |\n|---|---|---|---:|---|---:|---|")
    for name, in_nf4, adapters, shape, peak, source in PUBLISHED:
        if only not in name:
            continue
        # As method="qlora" has it: nf4, but for the output's matrix.
        flags = ["--frozen=nf4,*.lm_head.weight:bf16"] if in_nf4 else []

        def plan(**budget: Any) -> stowage.Plan:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return stowage.plan(MODELS[name][0], shape, method=LoraConfig(**adapters), optimizer="adamw", precision="bf16",  # noqa: B023
                                    target="cuda:rtx4090", flags=flags, **budget)  # fmt: skip  # noqa: B023

        whole = plan()
        within = "fits as it is"
        if whole.arena_bytes > peak:
            try:
                tight = plan(memory_budget=int(peak))
                within = f"{format_bytes(tight.arena_bytes)} in {100 * tight.extra_time_fraction:.1f} % more time"
            except stowage.InfeasibleBudget as error:
                within = f"does not fit: {format_bytes(error.smallest_bytes)} at least"
        trained = f"{'QLoRA' if in_nf4 else 'LoRA'}, rank {adapters['r']}, {len(adapters['target_modules'])} matrices a layer"
        print(f"| {name} | {trained} | {' x '.join(map(str, shape))} | {format_bytes(int(peak))} | {source} | {format_bytes(whole.arena_bytes)} | {within} |",
              flush=True)  # fmt: skip


def answer(configuration: Any, method: str, shape: "tuple[int, ...]", target: str) -> "tuple[stowage.Plan, float]":
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it does not fit is the answer, not a surprise
        options = {"method": "full", "optimizer_state": "8bit"} if method == "eight" else {"method": method}
        plan = stowage.plan(configuration, shape, optimizer="adamw", precision="bf16", target=target, **options)
    return plan, time.monotonic() - began


def cell(plan: stowage.Plan) -> str:
    verdict = plan.verdict
    if verdict.fits:
        return f"{format_bytes(plan.arena_bytes)}, {format_bytes(verdict.spare_bytes)} to spare"
    recompute = next((remedy["text"] for remedy in verdict.remedies if remedy["text"].startswith("values computed again")), "")
    at_all = f"; fits in {recompute.partition(', in ')[2]}" if recompute else "; no plan fits"
    return f"{format_bytes(plan.arena_bytes)}, {format_bytes(-verdict.spare_bytes)} too much{at_all}"


def keep(page: str, only: str) -> None:
    """The rows of the page, with estimates of today."""
    with open(page) as file:
        rows = [[text.strip() for text in line.strip().strip("|").split("|")] for line in file if line.startswith("|")]
    for row in rows:
        if row[0] in MODELS and only in row[0] and row[-1][:1].isdigit():  # of the first table
            print(f"| {' | '.join([*row[: 3 + len(CARDS)], estimate(row[0]), row[-1]])} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--method", choices=TRAINED, help="one way to train alone")
    parser.add_argument("--keep", metavar="PAGE", help="a page with the table: nothing is planned, and what is not of plans is made anew")
    parser.add_argument("--published", action="store_true", help="the table of settings that others have measured")
    args = parser.parse_args()
    if args.published:
        published(args.only)
        return 0
    print(f"| model | trained | batch | {' | '.join(CARDS)} | Accelerate: to load, to train | seconds a plan |\n"
          f"|---|---|---|{'---|' * len(CARDS)}---|---:|", flush=True)  # fmt: skip
    if args.keep:
        keep(args.keep, args.only)
        return 0
    slowest = 0.0
    rows = [(name, configuration, method, shape) for name, (configuration, methods, shapes) in MODELS.items() if args.only in name
            for method in methods if args.method in (None, method) for shape in shapes]  # fmt: skip
    for name, configuration, method, shape in rows:
        plans = [answer(configuration, method, shape, target) for target in CARDS.values()]
        slowest = max(slowest, *(seconds for _, seconds in plans))
        print(f"| {name} | {TRAINED[method]} | {' x '.join(map(str, shape))} | {' | '.join(cell(plan) for plan, _ in plans)} | "
              f"{estimate(name)} | {' '.join(f'{seconds:.0f}' for _, seconds in plans)} |", flush=True)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"\nAt most {slowest:.0f} s and {peak / 1e6:.1f} GB of memory for a plan.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
