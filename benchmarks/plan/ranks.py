#!/usr/bin/env python3
"""Several devices on paper: what a rank of 1 to 1,000 needs and sends, by the plan alone, no network and no weight.

  benchmarks/plan/ranks.py                                          GPT-2 1.5B and Llama 3.1 8B, a table in Markdown
  benchmarks/plan/ranks.py --only=GPT-2 --devices=8                 one of them on 8 devices
  benchmarks/plan/ranks.py --only=Llama --shape=2x8192 --devices=8 --flags=--memory-budget=74GiB
  benchmarks/plan/ranks.py --only=Llama --devices=8 --shards=parameters --flags=--memory-budget=22GiB

Needs the package with PyTorch and Transformers. STOWAGE_BINARY names the compiler. Steps are in bf16 with AdamW, the optimizer's state in shards or weights as
well, planned for a processor with AVX2 and 8 threads, whatever machine plans; nothing is computed again, and no weight put together again, but for rows whose
flags say so.
"""

import argparse
import sys
import time

import stowage
import transformers as T

GIB = 2**30
# Sizes as their authors published them; (batch, tokens) of a rank.
MODELS = {
    "GPT-2 1.5B": (T.GPT2Config(n_embd=1600, n_layer=48, n_head=25), (1, 1024)),
    "Llama 3.1 8B": (
        T.LlamaConfig(
            vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, rope_theta=500000.0,
            max_position_embeddings=131072
        ),
        (1, 2048),
    ),
}  # fmt: skip
COLUMNS = [
    "model", "batch x tokens of a rank", "devices", "in shards", "flags", "arena, GiB", "of it parameters", "optimizer", "lower bound", "recomputation", "sent a step, GiB",
    "gathers", "seconds to plan",
]  # fmt: skip


def row(name: str, shape: "tuple[int, int] | None", devices: int, shards: str, flags: "list[str]") -> str:
    model, own = MODELS[name]
    shape = shape or own
    several = {"devices": devices, "shard_state": shards} if devices > 1 else {}
    start = time.monotonic()
    settings = {"optimizer": "adamw:lr=1e-4", "precision": "bf16", "target_cpu": "x86-64-v3", "threads": 8}
    try:
        plan = stowage.plan(model, shape, flags=flags, **settings, **several)
    except stowage.StowageError as error:
        return f"{name}, {shape}, {devices} devices, {' '.join(flags)}:\n{error}\n"
    seconds = time.monotonic() - start
    known = plan.json
    kinds = {"parameter": 0, "optimizer": 0}
    for buffer in known["buffers"]:
        if buffer["kind"] in kinds:
            kinds[buffer["kind"]] += buffer["size"]
    sums = known["graphs"][0].get("reductions", {})
    cells = [
        name, "x".join(map(str, shape)), f"{devices:,}", shards if devices > 1 else "", " ".join(f"`{flag}`" for flag in flags), f"{plan.arena_bytes / GIB:.2f}",
        f"{kinds['parameter'] / GIB:.2f}", f"{kinds['optimizer'] / GIB:.2f}", f"{known['lower_bound_bytes'] / GIB:.2f}",
        f"{100 * known['extra_time_fraction']:.1f} %", f"{sums.get('sent_bytes', 0) / GIB:.2f}", str(sums.get("gathers", 0)), f"{seconds:.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--shape", help="samples x tokens of a rank (default: the model's own)")
    parser.add_argument("--devices", default="1,8,64,1000", help="numbers of devices, by commas")
    parser.add_argument("--shards", default="optimizer", help="what lies in shards: none, optimizer, parameters or auto")
    parser.add_argument("--flags", default="--recompute=none", help="flags of stowage plan, by spaces")
    args = parser.parse_args()
    batch, tokens = map(int, args.shape.split("x")) if args.shape else (0, 0)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for name in MODELS:
        for devices in map(int, args.devices.split(",")) if args.only in name else ():
            print(row(name, (batch, tokens) if args.shape else None, devices, args.shards, args.flags.split()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
