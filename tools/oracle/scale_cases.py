"""The cases of scale.py: models of few layers and real widths, each with one numerically hard property.

Sizes are chosen so that a case needs less than about 6 GB, PyTorch in FP64 included.
"""

import dataclasses
from collections.abc import Callable

import torch

import weights
from cases import decoder, gpt2, rope


@dataclasses.dataclass(frozen=True)
class Case:
    config: dict
    rows: int
    length: int
    adjust: Callable | None = None  # of the weights, by name
    batch: Callable | None = None  # (ids, generator) → tensors of the batch that are added or replaced
    confident: bool = False  # only tokens that the model predicts with p > 0.999 are scored
    micro_batches: int = 1
    layouts: tuple = ()  # layouts to run in addition to one rank
    bf16: bool = True  # False where BF16 has no correct digit, or PyTorch's attention takes minutes
    quick: bool = False  # part of --quick


def wide(model_type="llama", **fields):
    """A model of width 512 with grouped key-value heads; `fields` replace or add."""
    return decoder(model_type, **{
        "vocab_size": 4096, "hidden_size": 512, "intermediate_size": 1408, "num_attention_heads": 8, "num_key_value_heads": 2,
        "max_position_embeddings": 2048, "pad_token_id": None, **fields})


def wide_gpt2(**fields):
    return gpt2(**{"vocab_size": 4096, "n_embd": 768, "n_layer": 2, "n_head": 12, "n_positions": 1024, **fields})


def positions_to_131071(ids, generator):
    """Ascending positions over the whole range. The mask hides nothing; it tells transformers that a row is one document."""
    positions = torch.linspace(0, 131071, ids.shape[1], dtype=torch.float64).round().long()
    return {"position_ids": positions.expand_as(ids).contiguous(), "attention_mask": torch.ones_like(ids)}


def one_id_in_half(ids, generator):
    chosen = torch.randperm(ids.numel(), generator=generator)[: ids.numel() // 2]
    replaced = ids.flatten().clone()
    replaced[chosen] = 7
    return {"input_ids": replaced.view_as(ids), "labels": replaced.view_as(ids).clone()}


LLAMA3 = rope("llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
YARN = rope("yarn", factor=32.0, original_max_position_embeddings=4096)
FAR = {"max_position_embeddings": 131072}

CASES = {
    "vocabulary_131072": Case(
        wide(vocab_size=131072, hidden_size=384, num_attention_heads=6, intermediate_size=1024), 2, 128, layouts=("tp 2", "cp 2")),
    "vocabulary_256000": Case(
        wide("gemma2", vocab_size=256000, hidden_size=256, intermediate_size=1024, num_attention_heads=4, head_dim=64, sliding_window=48,
             query_pre_attn_scalar=64, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, tie_word_embeddings=True), 2, 96,
        layouts=("tp 2",), quick=True),
    "width_4096": Case(
        wide(vocab_size=1024, hidden_size=4096, intermediate_size=14336, num_attention_heads=16, num_key_value_heads=4, head_dim=128,
             num_hidden_layers=1), 1, 128),
    "rows_8192": Case(
        wide(vocab_size=2048, hidden_size=256, intermediate_size=704, num_attention_heads=4, max_position_embeddings=8192), 1, 8192,
        layouts=("tp 2", "cp 2"), bf16=False),
    "rows_16384": Case(
        wide(vocab_size=1024, hidden_size=128, intermediate_size=352, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=1,
             max_position_embeddings=16384), 1, 16384, layouts=("cp 2",), bf16=False),
    "window_1024": Case(
        wide("mistral", hidden_size=256, intermediate_size=704, num_attention_heads=4, sliding_window=1024, max_position_embeddings=4096),
        1, 4096),
    "grouped_heads": Case(
        wide("qwen3", hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_key_value_heads=2, head_dim=128), 2, 256,
        layouts=("tp 2",)),
    "positions_llama3": Case(wide(rope_theta=500000.0, **FAR, **LLAMA3), 2, 256, batch=positions_to_131071, layouts=("cp 2",)),
    "positions_yarn": Case(wide(rope_theta=500000.0, **FAR, **YARN), 2, 256, batch=positions_to_131071),
    "residual_mean_100": Case(wide_gpt2(), 2, 128, adjust=weights.residual_mean, layouts=("tp 2",), quick=True),
    "outlier_channels": Case(wide(), 6, 256, adjust=weights.outlier_channels, layouts=("tp 2",), quick=True),
    "one_id_16384_times": Case(
        wide(vocab_size=512, hidden_size=128, intermediate_size=352, num_attention_heads=2, num_key_value_heads=1), 16, 2048,
        batch=one_id_in_half, bf16=False),
    "confident_tokens": Case(
        wide(), 4, 256, adjust=weights.confident, confident=True, layouts=("tp 2",), bf16=False, quick=True),
    "common_offset": Case(
        wide_gpt2(tie_word_embeddings=False), 2, 256, adjust=weights.common_offset, layouts=("tp 2",), bf16=False, quick=True),
    "micro_batches_64": Case(wide(vocab_size=1024, hidden_size=256, intermediate_size=704, num_attention_heads=4), 64, 32, micro_batches=64, quick=True),
    "extreme_logits": Case(wide(), 2, 256, adjust=weights.extreme_logits, bf16=False),
}
