"""Mixtures of experts of Transformers that look up the tokens of each expert, whose number only data says: here each expert sees all tokens, and its
results count by how often and how much it was chosen.

Most mixtures of the library need none of this: they have products by batches (`experts_implementation="batched_mm"`) beside the loop.
"""

import sys
from typing import Any


def _shares(choices: Any, weights: Any, count: int) -> Any:
    """What each expert counts for each token, by what the token chose and with which weights."""
    import torch

    return (torch.nn.functional.one_hot(choices, count) * weights.unsqueeze(-1)).sum(1)


def _modules(self: Any, hidden_states: Any, choices: Any, weights: Any) -> Any:
    """Switch Transformers and NLLB: experts are modules; choices are their numbers, or ones and zeros."""
    import torch

    if choices.dtype in (torch.int64, torch.int32) and choices.dim() == weights.dim():
        choices = torch.nn.functional.one_hot(choices, self.num_experts)
    shares = (choices.permute(2, 1, 0) * weights.transpose(0, 1)).sum(1).unsqueeze(-1)
    dropped = float(getattr(self, "moe_token_dropout", 0))
    result = torch.zeros_like(hidden_states)
    for number in range(self.num_experts):
        seen = self[f"expert_{number}"](hidden_states) * shares[number]
        if dropped > 0:
            seen = self.token_dropout(seen) if self.training else seen * (1 - dropped)
        result = result + seen.to(hidden_states.dtype)
    return result


def _with_idle_ones(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
    """LongCat-Flash: the experts behind the routed ones change nothing."""
    import torch

    shares = _shares(top_k_index, top_k_weights, self.total_experts)
    routed = self.num_routed_experts if self.gate_up_proj is not None else 0
    result = hidden_states * shares[:, routed:].sum(1, keepdim=True)
    for number in range(routed):
        gate, up = torch.nn.functional.linear(hidden_states, self.gate_up_proj[number]).chunk(2, dim=-1)
        seen = torch.nn.functional.linear(self.act_fn(gate) * up, self.down_proj[number])
        result = result + seen * shares[:, number : number + 1]
    return result.to(hidden_states.dtype)


def _in_one_matrix(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
    """DBRX: the experts' matrices are the rows of one."""
    import torch

    tokens = hidden_states.reshape(-1, self.hidden_size)
    shares, result = _shares(top_k_index, top_k_weights, self.num_experts), torch.zeros_like(tokens)
    weights = [matrix.view(-1, self.ffn_hidden_size, self.hidden_size) for matrix in (self.mlp.w1, self.mlp.v1, self.mlp.w2)]
    for number in range(self.num_experts):
        seen = self.mlp(tokens, *(matrix[number] for matrix in weights))
        result = result + seen * shares[:, number : number + 1]
    return result.view(hidden_states.shape[0], -1, self.hidden_size)


_FORWARDS = {("switch_transformers", "SwitchTransformersExperts"): _modules, ("nllb_moe", "NllbMoeExperts"): _modules,
             ("longcat_flash", "LongcatFlashExperts"): _with_idle_ones, ("dbrx", "DbrxExperts"): _in_one_matrix}  # fmt: skip


def forwards() -> "list[tuple[Any, str, Any]]":
    """The classes of the library that are loaded, and what stands in the place of their forward."""
    found = ((getattr(sys.modules.get(f"transformers.models.{family}.modeling_{family}"), name, None), forward)
             for (family, name), forward in _FORWARDS.items())  # fmt: skip
    return [(kind, "forward", forward) for kind, forward in found if kind is not None]
