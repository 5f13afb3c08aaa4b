#!/usr/bin/env python3
"""Does it fit? Known models, by their configurations alone, planned for several cards: the table of docs/answers.md.

  benchmarks/plan/answers.py                  all rows, a table in Markdown
  benchmarks/plan/answers.py --only=Mistral   those whose name has "Mistral"

Needs the package with PyTorch and Transformers, and PEFT for adapters (pip install peft); STOWAGE_BINARY names the compiler. The sizes of the
models are those of the config.json that their authors published; nothing is loaded.
"""

import argparse
import resource
import sys
import time
import warnings
from typing import Any

import stowage
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--method", choices=TRAINED, help="one way to train alone")
    args = parser.parse_args()
    print(f"| model | trained | batch | {' | '.join(CARDS)} | seconds a plan |\n|---|---|---|{'---|' * len(CARDS)}---:|", flush=True)
    slowest = 0.0
    rows = [(name, configuration, method, shape) for name, (configuration, methods, shapes) in MODELS.items() if args.only in name
            for method in methods if args.method in (None, method) for shape in shapes]  # fmt: skip
    for name, configuration, method, shape in rows:
        plans = [answer(configuration, method, shape, target) for target in CARDS.values()]
        slowest = max(slowest, *(seconds for _, seconds in plans))
        print(f"| {name} | {TRAINED[method]} | {' x '.join(map(str, shape))} | {' | '.join(cell(plan) for plan, _ in plans)} | "
              f"{' '.join(f'{seconds:.0f}' for _, seconds in plans)} |", flush=True)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"\nAt most {slowest:.0f} s and {peak / 1e6:.1f} GB of memory for a plan.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
