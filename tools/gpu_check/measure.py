"""Measures training steps and ops of Viaduct, and of PyTorch."""

import contextlib
import json
import tempfile
from pathlib import Path

from phases import Failed, Skipped, call
from probe import torch_python
from runs import environment, needs_build

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LLAMA = ["model.family=llama", "model.hidden_size=4096", "model.ffn_hidden_size=14336", "model.num_attention_heads=32",
         "model.num_query_groups=8", "model.vocab_size=128256", "model.seq_length=8192", "train.global_batch_size=1", "train.micro_batch_size=1"]
GPT2 = ["model.family=gpt2", "model.num_layers=12", "model.hidden_size=768", "model.num_attention_heads=12", "model.seq_length=1024",
        "model.vocab_size=50304", "train.global_batch_size=16", "train.micro_batch_size=16"]
OFFLOADED = ["model.num_layers=32", "model.recompute_granularity=full", "model.recompute_method=block", "model.recompute_num_layers=32",
             "optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"]
FOUR = [*LLAMA, "model.num_layers=4"]
MIXTRAL = [*LLAMA, "model.family=mixtral", "model.num_layers=1", "model.num_moe_experts=8", "model.moe_router_topk=2"]
BF16, FP8, BLOCKS = ("mixed_precision=" + name for name in ("bf16_mixed", "bf16_with_fp8_current_scaling_mixed", "bf16_with_fp8_subchannel_scaling_mixed"))
FUSED, GRAPH = "model.attention_backend=fused", "model.cuda_graph_impl=full_iteration"
# What shrinks a case for a check on a double of the GPU.
SMALL = ["model.num_layers=1", "model.hidden_size=128", "model.ffn_hidden_size=256", "model.num_attention_heads=4", "model.num_query_groups=4",
         "model.vocab_size=256", "model.seq_length=32", "model.recompute_num_layers=1", "train.global_batch_size=1", "train.micro_batch_size=1"]
# A cluster of the catalog that has the GPU.
CLUSTERS = {"NVIDIA A100-SXM4-80GB": "dgx-a100", "NVIDIA H100 80GB HBM3": "dgx-h100", "NVIDIA H200": "dgx-h200", "NVIDIA B200": "dgx-b200"}
CASES = [
    {"name": "Llama-3-8B shape, 4 layers, BF16", "settings": [*FOUR, BF16, "model.attention_backend=flash"], "seconds": 30},
    {"name": "Llama-3-8B shape, 4 layers, BF16, attention by cuDNN", "settings": [*FOUR, BF16, FUSED], "seconds": 30},
    {"name": "Llama-3-8B shape, 4 layers, FP8", "settings": [*FOUR, FP8, FUSED], "seconds": 30},
    {"name": "Llama-3-8B shape, 4 layers, FP8 in blocks", "settings": [*FOUR, BLOCKS, FUSED], "seconds": 30},
    {"name": "Llama-3-8B shape, 4 layers, BF16, graph", "settings": [*FOUR, BF16, FUSED, GRAPH], "seconds": 30},
    {"name": "Mixtral shape, 1 layer, BF16", "settings": [*MIXTRAL, BF16, FUSED], "seconds": 30},
    {"name": "Mixtral shape, 1 layer, FP8 in blocks", "settings": [*MIXTRAL, BLOCKS, FUSED], "seconds": 30},
    {"name": "GPT-2 124M, BF16", "settings": [*GPT2, BF16], "seconds": 30},
]
LAST = {"name": "Llama-3-8B whole, recompute and offload, BF16", "settings": [*LLAMA, *OFFLOADED, BF16], "seconds": 60}
# Cases that PyTorch is measured beside.
PEERS = {"gpt2": "GPT-2 124M, BF16", "llama": "Llama-3-8B shape, 4 layers, BF16, attention by cuDNN"}


def torch_answer(*arguments):
    """Runs torch_gpu.py and returns the JSON document that it prints."""
    if torch_python() is None:
        raise Skipped("no Python in PATH or VIRTUAL_ENV has PyTorch")
    return json.loads(call([torch_python(), "-B", str(HERE / "torch_gpu.py"), *arguments]).splitlines()[-1])


def ceilings():
    found = torch_answer("ceilings")
    return {"rows": [("copy, read and written", f"{found['copy'] / 1e12:.2f} TB/s"),
                     ("BF16 product 8192³, random values, PyTorch", f"{found['bf16'] / 1e12:.0f} TFLOP/s")], **found}


def bench(options, arguments):
    needs_build(options)
    return call([options.viaduct, "bench", *arguments, "--device", "cuda"], env=environment(options))


def ops(options):
    """Each op of a layer, as a share of the fastest product or of the copy that the same command measures."""
    small = ["--tokens", "64", "--sequence", "32", "--hidden", "64", "--ffn", "128", "--heads", "4", "--kv-heads", "2", "--vocab", "256", "--rounds", "1"]
    found = json.loads(bench(options, ["ops", "--json", *(small if options.small else [])]))
    rows = [("ceilings of the ops, measured by Viaduct", f"{found['peak']} {found['peak_tflops']:.0f} TFLOP/s; copy "
             f"{found['copy_gbytes_per_second'] / 1000:.2f} TB/s")]
    for op in found["ops"]:
        rate = f"{op['tflops']:.0f} TFLOP/s" if op["bound"] == "product" else f"{op['gbytes_per_second'] / 1000:.2f} TB/s"
        rows.append((f"`{op['op']}` ({op['kernel']}) of {op['shapes']}", f"{op['seconds'] * 1e6:.0f} µs, {rate}, "
                     f"{100 * op['ceiling_fraction']:.0f} % of the {op['bound']}"))
    return {"rows": rows, **found}


def calibration(options, gpu, results):
    """Writes the table that `viaduct plan` reads, and compares its prediction of the first case with the measured step."""
    bench(options, ["--calibrate", "--seconds", "0.5" if options.small else "30", "--out", options.calibration])
    rows = [("calibration", Path(options.calibration).name)]
    cluster = CLUSTERS.get(gpu["name"])
    if cluster is None or options.small:
        return {"rows": rows}
    case = next(case for case in CASES if case["name"] == PEERS["gpt2"])
    with settings_file() as config:
        said = call([options.viaduct, "plan", "--config", config, *case["settings"], "dist.ranks=1", "--cluster", cluster, "--calibration",
                     options.calibration, "--json"])
    predicted = json.loads(said)["predicted"]["tokens_per_second_per_gpu"]
    measured = results.get(f"steps, {case['name']}", {}).get("tokens_per_second")
    text = f"{predicted:.0f} tokens/s" + (f", {100 * (predicted / measured - 1):+.0f} % of the measured rate" if measured else "")
    return {"rows": [*rows, (f"{case['name']}, predicted from the calibration", text)], "predicted_tokens_per_second": predicted}


@contextlib.contextmanager
def settings_file():
    """A configuration of mock data. Nothing is saved: weights of these shapes are gigabytes."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("dataset: {mock: true}\n")
        file.flush()
        yield file.name


def steps(options, case):
    """The median of six steps after three."""
    needs_build(options)
    with settings_file() as config:
        said = json.loads(call([options.viaduct, "bench", "step", "--config", config, "--steps", "2" if options.small else "6", "--warmup", "3", "--json", *case["settings"],
                                *(SMALL if options.small else []), "dist.device=cuda"], env=environment(options)))
    rate, flops = said["tokens_per_second"], said["tflops_per_rank"]
    return {"rows": [(case["name"], f"{rate:.0f} tokens/s, {flops:.0f} TFLOP/s, {1000 * said['step_seconds']['median']:.1f} ms a step")],
            "tokens_per_second": rate, "tflops": flops}


def peer(name, results):
    """PyTorch's step of a case, beside ours."""
    found = torch_answer("step", name)
    case, theirs = PEERS[name], found["tokens_per_second"]
    ours = results.get(f"steps, {case}", {}).get("tokens_per_second")
    text = f"{theirs:.0f} tokens/s" + (f"; ours is {ours / theirs:.2f} times that" if ours else "")
    return {"rows": [(f"{case}: PyTorch (compile, SDPA, fused AdamW)", text)], **found}
