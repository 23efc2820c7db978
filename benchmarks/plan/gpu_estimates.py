#!/usr/bin/env python3
"""Prints the table of estimated steps on H100 in docs/benchmarks.md: what `viaduct plan` predicts for our own kernels and cuDNN's.

    benchmarks/plan/gpu_estimates.py [--binary build/release/viaduct] [--before OTHER]

--before takes the first of two columns from another build.
"""

import argparse
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARDED = ["ddp.data_parallel_sharding_strategy=optim_grads_params", "ddp.use_distributed_optimizer=true"]
LLAMA = ["configs/guides/llama3_8b.yaml", "model.attention_backend=flash", "dist.ranks=8", "model.context_parallel_size=1", *SHARDED]
# Mixtral 8x7B: the shape of its larger sister's file with other sizes.
MIXTRAL = ["configs/guides/mixtral_8x22b.yaml", "model.attention_backend=flash", "dist.ranks=32", "model.num_layers=32", "model.hidden_size=4096", "model.num_attention_heads=32",
           "model.ffn_hidden_size=14336", "model.moe_ffn_hidden_size=14336", "model.vocab_size=32000", "model.seq_length=4096",
           "model.max_position_embeddings=4096", "model.tensor_model_parallel_size=1", "model.pipeline_model_parallel_size=1",
           "model.context_parallel_size=1", "model.virtual_pipeline_model_parallel_size=null", "model.expert_model_parallel_size=8",
           "model.expert_tensor_parallel_size=1", "train.global_batch_size=256", "train.micro_batch_size=1", *SHARDED]
FUSED, TENSOR = "model.attention_backend=fused", "mixed_precision=bf16_with_fp8_current_scaling_mixed"
BLOCKS = "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed"
CASES = [("Llama 3 8B, 8 GPUs, rows of 8,192 tokens, BF16", LLAMA), ("the same, attention by cuDNN", [*LLAMA, FUSED]),
         ("FP8, one scale for a matrix", [*LLAMA, TENSOR]), ("the same, attention by cuDNN", [*LLAMA, TENSOR, FUSED]),
         ("FP8, blocks of 128", [*LLAMA, BLOCKS]), ("the same, attention by cuDNN", [*LLAMA, BLOCKS, FUSED]),
         ("Mixtral 8x7B, 32 GPUs, expert parallel 8, rows of 4,096 tokens, BF16", MIXTRAL), ("the same, attention by cuDNN", [*MIXTRAL, FUSED]),
         ("FP8, blocks of 128, attention by cuDNN", [*MIXTRAL, BLOCKS, FUSED])]
PEAK = 989.4  # dense BF16 TFLOP/s of the H100, in every format


def predicted(binary, settings):
    file, *overrides = settings
    done = subprocess.run([binary, "plan", "--config", ROOT / file, "--cluster", "dgx-h100", "--json", *overrides], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise SystemExit(f"gpu_estimates: {done.stderr.strip()}")
    return json.loads(done.stdout)["predicted"]


def cell(prediction):
    return f"{prediction['tokens_per_second_per_gpu']:,.0f}, {100 * prediction['tflops_per_gpu'] / PEAK:.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/viaduct"))
    parser.add_argument("--before")
    options = parser.parse_args()
    binaries = [binary for binary in (options.before, options.binary) if binary]
    for name, settings in CASES:
        print(f"| {name} | {' | '.join(cell(predicted(binary, settings)) for binary in binaries)} |")


if __name__ == "__main__":
    main()
