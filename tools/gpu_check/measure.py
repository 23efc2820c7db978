"""Measures the GPU's peaks with PyTorch, and training steps of Viaduct and PyTorch."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from phases import Failed, Skipped, call
from runs import environment, needs_build, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LLAMA = ["model.family=llama", "model.hidden_size=4096", "model.ffn_hidden_size=14336", "model.num_attention_heads=32",
         "model.num_query_groups=8", "model.vocab_size=128256", "model.seq_length=8192", "dataset.mock=true", "validation.eval_iters=0",
         "scheduler.lr_warmup_iters=0", "logger.log_interval=1", "train.global_batch_size=1", "train.micro_batch_size=1"]
GPT2 = [str(ROOT / "configs/bench/gpt2_124m.yaml"), "train.global_batch_size=16", "train.micro_batch_size=16", "logger.log_interval=1",
        "validation.eval_iters=0"]
OFFLOADED = ["model.num_layers=32", "model.recompute_granularity=full", "model.recompute_method=block", "model.recompute_num_layers=32",
             "optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"]
# A cluster of the catalog that has the GPU.
CLUSTERS = {"NVIDIA A100-SXM4-80GB": "dgx-a100", "NVIDIA H100 80GB HBM3": "dgx-h100", "NVIDIA H200": "dgx-h200", "NVIDIA B200": "dgx-b200"}
CASES = [
    {"name": "GPT-2 124M, BF16", "settings": [*GPT2, "mixed_precision=bf16_mixed"], "torch": "gpt2", "seconds": 60},
    {"name": "Llama-3-8B shape, 4 layers, BF16", "settings": [*LLAMA, "model.num_layers=4", "mixed_precision=bf16_mixed"], "torch": "llama", "seconds": 60},
    {"name": "Llama-3-8B shape, 4 layers, FP8", "settings": [*LLAMA, "model.num_layers=4", "mixed_precision=bf16_with_fp8_current_scaling_mixed"],
     "seconds": 40},
    {"name": "Llama-3-8B whole, recompute and offload, BF16", "settings": [*LLAMA, *OFFLOADED, "mixed_precision=bf16_mixed"], "seconds": 80},
    {"name": "Mixtral shape, 1 layer, BF16", "settings": [*LLAMA, "model.family=mixtral", "model.num_layers=1", "model.num_moe_experts=8",
     "model.moe_router_topk=2", "mixed_precision=bf16_mixed"], "seconds": 40},
]


def torch_answer(*arguments, seconds):
    """Runs torch_gpu.py and returns the JSON document that it prints."""
    if importlib.util.find_spec("torch") is None:
        raise Skipped("PyTorch is not installed")
    return json.loads(call([sys.executable, "-B", str(HERE / "torch_gpu.py"), *arguments], seconds).splitlines()[-1])


def ceilings(gpu):
    found = torch_answer("ceilings", seconds=55)
    return {"rows": [("copy, read and written", f"{found['copy'] / 1e12:.2f} TB/s"),
                     ("BF16 product 8192³, random values, PyTorch", f"{found['bf16'] / 1e12:.0f} TFLOP/s")], **found}


def bench(options, arguments, seconds):
    needs_build(options)
    return call([options.viaduct, "bench", *arguments, "--device", "cuda"], seconds, env=environment(options))


def ops(options):
    """Each op of a layer, as a share of the fastest product or of the copy that the same command measures."""
    found = json.loads(bench(options, ["ops", "--json"], 58))
    rows = [("ceilings of the ops, measured by Viaduct", f"{found['peak']} {found['peak_tflops']:.0f} TFLOP/s; copy "
             f"{found['copy_gbytes_per_second'] / 1000:.2f} TB/s")]
    for op in found["ops"]:
        rate = f"{op['tflops']:.0f} TFLOP/s" if op["bound"] == "product" else f"{op['gbytes_per_second'] / 1000:.2f} TB/s"
        rows.append((f"`{op['op']}` ({op['kernel']}) of {op['shapes']}", f"{op['seconds'] * 1e6:.0f} µs, {rate}, "
                     f"{100 * op['ceiling_fraction']:.0f} % of the {op['bound']}"))
    return {"rows": rows, **found}


def calibration(options, gpu, results):
    """Writes the table that `viaduct plan` reads, and compares its prediction of the first case with the measured step."""
    bench(options, ["--calibrate", "--seconds", "30", "--out", options.calibration], 58)
    rows = [("calibration", Path(options.calibration).name)]
    cluster = CLUSTERS.get(gpu["name"])
    if cluster is None:
        return {"rows": rows}
    said = call([options.viaduct, "plan", "--config", *CASES[0]["settings"], "dist.ranks=1", "--cluster", cluster, "--calibration",
                 options.calibration, "--json"], 30)
    predicted = json.loads(said)["predicted"]["tokens_per_second_per_gpu"]
    measured = results.get(f"steps, {CASES[0]['name']}", {}).get("tokens_per_second")
    text = f"{predicted:.0f} tokens/s" + (f", {100 * (predicted / measured - 1):+.0f} % of the measured rate" if measured else "")
    return {"rows": [*rows, (f"{CASES[0]['name']}, predicted from the calibration", text)], "predicted_tokens_per_second": predicted}


def steps(options, gpu, case, ceilings):
    """The median of six steps after two warm-up steps, also as a share of the measured matrix product."""
    try:
        lines = train(options, [*case["settings"], "dist.device=cuda", "train.train_iters=8"], case["seconds"])
    except Failed as reason:
        raise Failed(f"{case['name']}: {reason}") from None
    last = sorted(lines[2:], key=lambda line: line["step_seconds"])[len(lines[2:]) // 2]
    rate, flops = last["tokens_per_second"], last["tflops_per_rank"]
    share = f", {100 * flops * 1e12 / ceilings['bf16']:.0f} % of the measured product" if ceilings else ""
    result = {"tokens_per_second": rate, "tflops": flops}
    text = f"{rate:.0f} tokens/s, {flops:.0f} TFLOP/s{share}"
    if "torch" in case:
        try:
            peer = torch_answer("step", case["torch"], seconds=case["seconds"])
            result["torch_tokens_per_second"] = peer["tokens_per_second"]
            text += f"; PyTorch (compile, SDPA, fused AdamW) {peer['tokens_per_second']:.0f} tokens/s: {rate / peer['tokens_per_second']:.2f} times"
        except (Skipped, Failed, subprocess.SubprocessError) as reason:
            text += f"; PyTorch: not measured ({reason})"
    return {"rows": [(case["name"], text)], **result}
