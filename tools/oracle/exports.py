"""Opens every export of every family with the newest transformers and gguf, and compares logits.

    ./viaduct.sh oracle exports [CASE…]

A case: `viaduct train` makes one step of a small model, whose checkpoint is converted to a Hugging Face folder and, where llama.cpp has the
architecture, to a GGUF file. transformers opens both; its logits are compared with those of `viaduct probe` on the checkpoint (FP32, relative
L2 of at most 2e-5). A tensor that transformers misses or does not expect is an error, and so is a warning of `viaduct convert`. Packages are
the newest of PyPI at the time when the environment is made (build/oracle-newest-env; remove it for newer ones).
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import gguf
import torch
import transformers
from safetensors.torch import save_file

from viaduct import Refused, Viaduct

LIMIT = 2e-5
LENGTH, VOCABULARY = 24, 100
COMMON = ["model.num_layers=2", "model.hidden_size=32", "model.num_attention_heads=4", "model.num_query_groups=2",
          "model.ffn_hidden_size=48", f"model.seq_length={LENGTH}", "model.max_position_embeddings=64", f"model.vocab_size={VOCABULARY}",
          "dataset.mock=true", "train.train_iters=1", "train.global_batch_size=2", "validation.eval_iters=0", "mixed_precision=fp32",
          "model.init_method_std=0.2", "logger.log_throughput=false"]
EXPERTS = ["num_moe_experts=4", "moe_router_topk=2"]
QWEN_EXPERTS = [*EXPERTS, "moe_ffn_hidden_size=16"]
LATENT = ["num_query_groups=4", "kv_lora_rank=12", "qk_head_dim=8", "qk_pos_emb_head_dim=4", "v_head_dim=8", *QWEN_EXPERTS,
          "moe_shared_expert_intermediate_size=16", "moe_layer_freq=[0,1]"]
GROUPS = ["moe_router_num_groups=2", "moe_router_group_topk=1"]
YARN = "rope_scaling={rope_type: yarn, factor: 4.0, original_max_position_embeddings: 16}"
LLAMA3 = ("rope_scaling={rope_type: llama3, factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, "
          "original_max_position_embeddings: 16}")
LINEAR = "rope_scaling={rope_type: linear, factor: 2.5}"
TIED, UNTIED = ("share_embeddings_and_output_weights=" + value for value in ("true", "false"))

# name: fields of section model; the family is the name up to the first "-"
CASES = {
    "gpt2": ["num_query_groups=4"],
    "gpt2-untied": ["num_query_groups=4", UNTIED],
    "llama": [],
    "llama-tied": [TIED],
    "llama-yarn": [YARN],
    "llama-llama3": [LLAMA3],
    "llama-linear": [LINEAR],
    "llama-wide_heads": ["kv_channels=20"],
    "llama-odd_epsilon": ["layernorm_epsilon=9.999999747378752e-06", "rotary_base=12345.678"],
    "mistral": [],
    "mistral-window": ["window_size=7"],
    "qwen2": [],
    "qwen2-yarn": [YARN, TIED],
    "qwen3": ["kv_channels=12"],
    "gemma": ["kv_channels=8"],
    "gemma2": ["kv_channels=16"],
    "gemma2-untied": ["kv_channels=8", UNTIED],
    "gemma3_text": ["kv_channels=8", "window_size=7", "window_layers=[1,0]"],
    "smollm3": ["no_rope_freq=[0,1]"],
    "olmo2": [],
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
    "exaone4": ["kv_channels=8", "window_size=7", "window_layers=[1,0]", "no_rope_freq=[0,1]"],
    "mixtral": EXPERTS,
    "olmoe": EXPERTS,
    "qwen2_moe": [*QWEN_EXPERTS, "moe_shared_expert_intermediate_size=16"],
    "qwen3_moe": [*QWEN_EXPERTS, "kv_channels=12"],
    "qwen3_moe-dense": [*QWEN_EXPERTS, "moe_layer_freq=[0,1]"],
    "gpt_oss": [*EXPERTS, "kv_channels=8"],
    "gpt_oss-yarn": [*EXPERTS, "kv_channels=8", YARN],
    "deepseek_v2": [*LATENT, "q_lora_rank=null"],
    "deepseek_v2-yarn": [*LATENT, "q_lora_rank=12", YARN],
    "deepseek_v2-groups": [*LATENT, "q_lora_rank=12", *GROUPS, "moe_router_group_score_topk=1"],
    "deepseek_v3": [*LATENT, "q_lora_rank=12", *GROUPS],
    "deepseek_v3-yarn": [*LATENT, "q_lora_rank=null", *GROUPS, YARN],
}
GGUF = {"gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2"}
# llama.cpp has no windows in this architecture, and transformers no head beside the table.
NOT_GGUF = {"mistral-window", "gemma2-untied"}


def distance(found, expected):
    return (torch.linalg.vector_norm(found.double() - expected) / torch.linalg.vector_norm(expected, dtype=torch.float64)).item()


def convert(viaduct, source, target):
    """Converts, and returns what the command warns of."""
    done = subprocess.run([viaduct.binary, "convert", "--from", source, "--to", target], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(f"viaduct convert: {done.stderr.strip()}")
    return [line for line in done.stderr.splitlines() if "warning" in line and "no tokenizer" not in line]


def logits_of(ids, *where, **how):
    """transformers' logits of a folder or a GGUF file, and what does not fit its model."""
    model, said = transformers.AutoModelForCausalLM.from_pretrained(
        *where, **how, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    problems = [f"{kind}: {sorted(said[kind])[:3]}" for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") if said.get(kind)]
    with torch.no_grad():
        return model.eval()(ids, use_cache=False).logits, problems


def check_gguf(viaduct, family, work, ids, expected):
    """(distance or None, problems). None where transformers does not read the architecture: gguf opens the file, and Viaduct reads it back."""
    path = work / "model.gguf"
    problems = convert(viaduct, work / "run", path)
    reader = gguf.GGUFReader(path)
    if not reader.tensors or "general.architecture" not in reader.fields:
        problems.append("gguf finds no tensors or no architecture")
    viaduct("convert", "--from", path, "--to", work / "from_gguf")
    again = viaduct.probe(work / "from_gguf", work / "batch.safetensors", work / "again.safetensors", "mixed_precision=fp32")["logits"]
    if not distance(again, expected) <= LIMIT:
        problems.append(f"read back: logits {distance(again, expected):.1e}")
    # transformers reads neither scaled positions, nor Gemma 2's caps, nor the sizes of some heads out of such a file: those are in the folder.
    how = {} if family == "mistral" else {"config": transformers.AutoConfig.from_pretrained(work / "exported")}  # a llama there
    try:
        found, unfit = logits_of(ids, work, gguf_file=path.name, **how)
    except ValueError as unsupported:
        if "not supported" not in str(unsupported):
            raise
        return None, problems
    return distance(found, expected), problems + unfit


def check(viaduct, name, fields):
    """(distances of folder and GGUF file, problems)."""
    family = name.split("-")[0]
    with tempfile.TemporaryDirectory(prefix="viaduct-exports-") as work:
        work = pathlib.Path(work)
        viaduct("train", f"model.family={family}", *COMMON, *(f"model.{field}" for field in fields), f"checkpoint.save={work / 'run'}")
        ids = torch.randint(VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(len(name)))
        save_file({"input_ids": ids, "labels": ids.clone()}, work / "batch.safetensors")
        expected = viaduct.probe(work / "run", work / "batch.safetensors", work / "out.safetensors", "mixed_precision=fp32")["logits"]
        problems = convert(viaduct, work / "run", work / "exported")
        found, unfit = logits_of(ids, work / "exported")
        distances = {"folder": distance(found, expected)}
        problems += unfit
        if family in GGUF and name not in NOT_GGUF:
            distances["GGUF"], more = check_gguf(viaduct, family, work, ids, expected)
            problems += [f"GGUF: {one}" for one in more]
    problems += [f"{kind}: logits {error:.1e}" for kind, error in distances.items() if error is not None and not error <= LIMIT]
    return distances, problems


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
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, gguf {getattr(gguf, '__version__', '')}".rstrip(", "))
    viaduct, failed = Viaduct(arguments.viaduct), 0
    for name in arguments.cases or CASES:
        try:
            distances, problems = check(viaduct, name, CASES[name])
        except Exception as error:  # whatever transformers raises for a file that it does not open
            distances, problems = {}, [f"{type(error).__name__}: {error}"]
        failed += bool(problems)
        shown = ", ".join(f"{kind} {'read back' if error is None else format(error, '.1e')}" for kind, error in distances.items())
        print(f"{name:24} {shown:32} {'; '.join(problems) or 'ok'}", flush=True)
    print(f"{len(arguments.cases or CASES)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
