#!/usr/bin/env python3
"""A small GPT-2 of Hugging Face's Transformers: compiled from the module, trained three steps in 70 % of its memory.

    pip install ./python[torch] transformers && python/examples/huggingface_gpt2.py

Prints both losses of every step; exits with 1 where they differ by more than 1e-3. Dropout is off, because its random
numbers are not PyTorch's.
"""

import sys

import stowage
import torch
import transformers


def main() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=128, n_positions=32, n_embd=64, n_layer=2, n_head=4, use_cache=False,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)  # fmt: skip
    module = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(0, 128, (3, 4, 33))
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)

    # Each position predicts the next token: logits [4, 32, 128], labels [4, 32].
    inputs = {"input_ids": tokens[0, :, :-1]}
    loss = "cross-entropy:class-axis=-1"
    step = stowage.compile(module, inputs, loss=loss, optimizer=optimizer, memory_budget="70%", threads=2,
                           check=True)
    print(step.plan)
    print(f"with everything kept: {step.plan.without_recompute_bytes:,} bytes")

    worst = 0.0
    for batch in tokens:
        now, following = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()
        found = step(now, following)
        optimizer.zero_grad()
        logits = module.train()(input_ids=now).logits
        expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        expected.backward()
        optimizer.step()
        worst = max(worst, abs(found - expected.item()))
        print(f"loss {found:.6f}, PyTorch {expected.item():.6f}")

    # The output layer and the embedding are one tensor, here as in the module.
    state = step.state_dict()
    tied = torch.equal(state["lm_head.weight"], state["transformer.wte.weight"])
    difference = max((value - state[name]).abs().max().item() for name, value in module.state_dict().items())
    print(f"largest difference of a loss {worst:.1e}, of a weight {difference:.1e}; tied: {tied}")
    sys.exit(worst > 1e-3 or difference > 1e-3 or not tied)


if __name__ == "__main__":
    main()
