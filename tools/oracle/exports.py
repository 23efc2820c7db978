"""Opens every export of every family with the newest transformers and gguf, and compares logits.

    ./viaduct.sh oracle exports [CASE…]

A case: `viaduct train` makes one step of a small model, whose checkpoint is converted to Hugging Face folders (its own format, BF16, FP16)
and, where llama.cpp has the architecture, to GGUF files (its own format; of a wider model in each quantized one). One without
experts is trained with an adapter, which is exported for PEFT, and merged. transformers (for adapters with peft) opens all; its logits are compared with those
of `viaduct probe` in FP32, relative L2 of at most 2e-5. A tensor that transformers misses or does not expect is an error, and so is a warning
of `viaduct convert`. Prints a table: a line for each case, a column for each form ("read back": transformers does not read the architecture,
Viaduct's own reading of the file is compared). Every family that the program has must have a case. Packages are the newest of PyPI at the
time when the environment is made (build/oracle-newest-env; remove it for newer ones).
"""

import argparse
import json
import pathlib
import sys
import tempfile

import gguf
import peft
import torch
import transformers

from export_forms import LENGTH, VOCABULARY, Export
from viaduct import Viaduct

COMMON = ["model.num_layers=2", "model.hidden_size=32", "model.num_attention_heads=4", "model.num_query_groups=2",
          "model.ffn_hidden_size=48", f"model.seq_length={LENGTH}", "model.max_position_embeddings=64", f"model.vocab_size={VOCABULARY}",
          "dataset.mock=true", "train.train_iters=1", "train.global_batch_size=2", "validation.eval_iters=0", "mixed_precision=fp32",
          "model.init_method_std=0.2", "logger.log_throughput=false"]
EXPERTS = ["num_moe_experts=4", "moe_router_topk=2"]
QWEN_EXPERTS = [*EXPERTS, "moe_ffn_hidden_size=16"]
LATENT = ["num_query_groups=4", "kv_lora_rank=12", "qk_head_dim=8", "qk_pos_emb_head_dim=4", "v_head_dim=8", *QWEN_EXPERTS,
          "moe_shared_expert_intermediate_size=16", "moe_layer_freq=[0,1]"]
SHARED_EXPERTS = [*QWEN_EXPERTS, "moe_shared_expert_intermediate_size=32", "moe_layer_freq=[0,1]"]
GROUPS = ["moe_router_num_groups=2", "moe_router_group_topk=1"]
YARN = "rope_scaling={rope_type: yarn, factor: 4.0, original_max_position_embeddings: 16}"
LLAMA3 = ("rope_scaling={rope_type: llama3, factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, "
          "original_max_position_embeddings: 16}")
LINEAR = "rope_scaling={rope_type: linear, factor: 2.5}"
TIED, UNTIED = ("share_embeddings_and_output_weights=" + value for value in ("true", "false"))

# Families whose models are written to neither of the two formats that are read back here, and those that transformers has under another
# type only (kimi_k2: deepseek_v3).
WITHOUT_EXPORTS = {"t5", "kimi_k2"}
# name: fields of section model; the family is the name up to the first "-"
CASES = {
    "gpt2": ["num_query_groups=4"],
    "gpt2-untied": ["num_query_groups=4", UNTIED],
    "gpt_bigcode": ["num_query_groups=1"],
    "gpt_bigcode-own_keys": ["num_query_groups=4"],
    "gpt_neo": ["num_query_groups=4", "window_size=7", "window_layers=[0,1]"],
    "llama": [],
    "llama-tied": [TIED],
    "llama-yarn": [YARN],
    "llama-llama3": [LLAMA3],
    "llama-linear": [LINEAR],
    "llama-dynamic": ["rope_scaling={rope_type: dynamic, factor: 4.0}"],
    "llama-wide_heads": ["kv_channels=20"],
    "llama-odd_epsilon": ["layernorm_epsilon=9.999999747378752e-06", "rotary_base=12345.678"],
    "mistral": [],
    "ministral": ["kv_channels=12", "window_size=7", "window_layers=[0,1]"],
    "cwm": ["kv_channels=12", "window_size=7", "window_layers=[0,1]", LLAMA3],
    "cwm-plain": ["kv_channels=8"],
    "mistral-window": ["window_size=7"],
    "qwen2": [],
    "qwen2-yarn": [YARN, TIED],
    "qwen3": ["kv_channels=12"],
    "gemma": ["kv_channels=8"],
    "gemma2": ["kv_channels=16"],
    "gemma2-untied": ["kv_channels=8", UNTIED],
    "gemma3_text": ["kv_channels=8", "window_size=7", "window_layers=[1,0]"],
    "smollm3": ["no_rope_freq=[0,1]"],
    "olmo": ["num_query_groups=4"],
    "olmo2": [],
    "bloom": ["num_query_groups=4", "ffn_hidden_size=128"],
    "mpt": ["num_query_groups=4", "ffn_hidden_size=128"],
    "opt": ["num_query_groups=4"],
    "olmo3": ["window_size=7", "window_layers=[1,0]", YARN],
    "phi3": ["window_size=7", "rotary_percent=0.5"],
    "glm": ["kv_channels=16"],
    "glm4": ["kv_channels=16"],
    "granite": ["embedding_multiplier=3", "softmax_scale=0.3", "residual_multiplier=0.6", "logit_multiplier=0.5"],
    "seed_oss": ["kv_channels=12"],
    "arcee": [],
    "ernie4_5": ["kv_channels=16"],
    "starcoder2": ["window_size=7"],
    "stablelm": ["rotary_percent=0.5"],
    "stablelm-parallel": ["rotary_percent=0.5", "parallel_block=true", "parallel_block_shared_norm=true"],
    "gpt_neox": ["num_query_groups=4"],
    "gpt_neox-sequential": ["num_query_groups=4", "parallel_block=false", "rotary_percent=1"],
    "phi": [],
    "cohere": ["kv_channels=12"],
    "cohere-norms": ["qk_layernorm=true"],
    "stablelm-norms": ["rotary_percent=0.5", "qk_layernorm=true"],
    "cohere2": ["window_size=7", "window_layers=[1,0]"],
    "gemma4_text": ["kv_channels=8", "full_attention_kv_channels=16", "full_attention_num_query_groups=1",
                    "full_attention_values_from_keys=true", "window_size=7", "window_layers=[1,0]", "final_logit_softcapping=3.0",
                    "rope_scaling={rope_type: proportional, partial_rotary_factor: 0.25}"],
    "falcon": ["num_query_groups=1"],
    "falcon-alibi": ["num_query_groups=4", "parallel_block=false", "position_embedding_type=alibi"],
    "falcon-groups": ["parallel_block_shared_norm=false"],
    "gptj": ["num_query_groups=4", "rotary_percent=0.5"],
    "exaone4": ["kv_channels=8", "window_size=7", "window_layers=[1,0]", "no_rope_freq=[0,1]"],
    "apertus": [LLAMA3],
    "helium": [],
    "hunyuan_v1_dense": ["kv_channels=12", "rope_scaling={rope_type: dynamic, factor: 1.0, alpha: 50.0}"],
    "hunyuan_v1_moe": [*EXPERTS, "moe_shared_expert_intermediate_size=48", "kv_channels=12"],
    "ministral3": ["kv_channels=12", "window_size=7", YARN, "attention_temperature_scale=0.3", "attention_temperature_length=16"],
    "nemotron": [],
    "vaultgemma": ["kv_channels=8", "window_size=7", "window_layers=[1,0]", "attn_logit_softcapping=2.0"],
    "mixtral": EXPERTS,
    "olmoe": EXPERTS,
    "qwen2_moe": [*QWEN_EXPERTS, "moe_shared_expert_intermediate_size=16"],
    "qwen3_moe": [*QWEN_EXPERTS, "kv_channels=12"],
    "qwen3_moe-dense": [*QWEN_EXPERTS, "moe_layer_freq=[0,1]"],
    "gpt_oss": [*EXPERTS, "kv_channels=8"],
    "llama4_text": ["num_moe_experts=4", "moe_ffn_hidden_size=16", "moe_shared_expert_intermediate_size=16", "kv_channels=8",
                    "moe_layer_freq=[0,1]", "attention_chunk_size=5", "attention_chunk_layers=[1,0]", "no_rope_freq=[0,1]",
                    "no_rope_temperature_scale=0.5", "no_rope_temperature_length=4"],
    "gpt_oss-yarn": [*EXPERTS, "kv_channels=8", YARN],
    "deepseek_v2": [*LATENT, "q_lora_rank=null"],
    "deepseek_v2-yarn": [*LATENT, "q_lora_rank=12", YARN],
    "deepseek_v2-groups": [*LATENT, "q_lora_rank=12", *GROUPS, "moe_router_group_score_topk=1"],
    "deepseek_v3": [*LATENT, "q_lora_rank=12", *GROUPS],
    "deepseek_v3-yarn": [*LATENT, "q_lora_rank=null", *GROUPS, YARN],
    "deepseek_v3-moonlight": [*LATENT, "q_lora_rank=null", "moe_router_num_groups=1", "moe_router_group_topk=1", "layernorm_epsilon=0.05"],
    "glm4_moe": [*SHARED_EXPERTS, "kv_channels=16"],
    "glm4_moe-norms": [*SHARED_EXPERTS, *GROUPS, "qk_layernorm=true", "rotary_percent=1"],
    "glm4_moe_lite": [*LATENT, "q_lora_rank=12", "moe_router_num_groups=1", "moe_router_group_topk=1", "layernorm_epsilon=0.05"],
    "dots1": SHARED_EXPERTS,
    "ernie4_5_moe": SHARED_EXPERTS,
    "ernie4_5_moe-not_shared": [*QWEN_EXPERTS, "moe_shared_expert_intermediate_size=null", "moe_layer_freq=[1,0]"],
    "minimax_m2": [*EXPERTS, "kv_channels=8", "rotary_percent=0.5"],
    "phimoe": [*EXPERTS, "moe_router_sparsemixer_eps=0.25", "add_head_bias=true"],
    "solar_open": [*QWEN_EXPERTS, "moe_shared_expert_intermediate_size=32", "kv_channels=16"],
    "granitemoeshared": [*EXPERTS, "moe_shared_expert_intermediate_size=16", "softmax_scale=0.3"],
    "granitemoe": [*EXPERTS, "embedding_multiplier=3", "softmax_scale=0.3", "residual_multiplier=0.6", "logit_multiplier=0.5"],
}
GGUF = {"gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2"}
# llama.cpp has no windows in this architecture, and transformers no head beside the table.
NOT_GGUF = {"mistral-window", "gemma2-untied"}
ADAPTERS = {name for name, fields in CASES.items() if EXPERTS[0] not in fields}  # those without experts
WIDE = ["model.hidden_size=256", "model.ffn_hidden_size=512"]  # rows of whole blocks of the types with 256 elements


COLUMNS = ["folder", "bf16", "fp16", "GGUF", "quantized", "adapter", "merged"]


def check(viaduct, name, fields):
    """(distances by column, problems)."""
    family = name.split("-")[0]
    settings = [*COMMON, *(f"model.{field}" for field in fields)]
    with tempfile.TemporaryDirectory(prefix="viaduct-exports-") as work:
        export = Export(viaduct, pathlib.Path(work), family, settings, len(name))
        distances = {"folder": export.folder(), "bf16": export.rounded("bf16"), "fp16": export.rounded("fp16")}
        if family in GGUF and name not in NOT_GGUF:
            distances["GGUF"] = export.gguf()
        if name in ADAPTERS:
            distances["adapter"], distances["merged"] = export.adapter()
        problems = export.problems
    if name in GGUF:
        with tempfile.TemporaryDirectory(prefix="viaduct-exports-") as work:
            wide = Export(viaduct, pathlib.Path(work), family, [*settings, *WIDE], len(name))
            distances["quantized"] = wide.quantized()
            problems += wide.problems
    return distances, problems


def row(name, distances, problems):
    shown = {column: "read back" if error is None else f"{error:.1e}" for column, error in distances.items()}
    cells = [f"{name:22}", *(f"{shown.get(column, ''):9}" for column in COLUMNS), "; ".join(problems) or "ok"]
    return f"| {' | '.join(cells)} |"


def families(viaduct):
    """Those that the program has."""
    knobs = json.loads(viaduct("knobs", "--json"))["knobs"]
    allowed = next(knob["allowed"] for knob in knobs if knob["name"] == "model.family")
    return [name for name in allowed.split("|") if name]


def main():
    parser = argparse.ArgumentParser(prog="oracle exports", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"default: all of {', '.join(CASES)}")
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error(f"unknown cases: {', '.join(unknown)}; known are {', '.join(CASES)}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    versions = [f"{module.__name__} {getattr(module, '__version__', '')}".strip() for module in (transformers, torch, peft, gguf)]
    print(", ".join(versions))
    viaduct, failed = Viaduct(arguments.viaduct), 0
    missing = set(families(viaduct)) - {name.split("-")[0] for name in CASES} - WITHOUT_EXPORTS
    if missing:
        parser.error(f"families without a case: {', '.join(sorted(missing))}")
    print(f"| {'case':22} | {' | '.join(f'{column:9}' for column in COLUMNS)} | problems |\n|{'---|' * (len(COLUMNS) + 2)}")
    for name in arguments.cases or CASES:
        try:
            distances, problems = check(viaduct, name, CASES[name])
        except Exception as error:  # whatever transformers raises for a file that it does not open
            distances, problems = {}, [f"{type(error).__name__}: {error}"]
        failed += bool(problems)
        print(row(name, distances, problems), flush=True)
    print(f"\n{len(arguments.cases or CASES)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
