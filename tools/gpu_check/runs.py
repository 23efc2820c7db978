"""Runs whose results are compared: with the cpu device, and under compute-sanitizer."""

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from phases import Failed, Skipped, call, kill, started
from probe import libraries_of

TINY = ["model.family=llama", "model.num_layers=2", "model.hidden_size=128", "model.ffn_hidden_size=256", "model.num_attention_heads=4",
        "model.vocab_size=256", "model.seq_length=128", "dataset.mock=true", "train.global_batch_size=4", "train.micro_batch_size=2",
        "optimizer.lr=1e-3", "scheduler.lr_warmup_iters=0", "validation.eval_iters=0", "logger.log_interval=1"]


# What shrinks these runs for a check on a double of the GPU.
SMALLER = ["model.num_layers=1", "model.seq_length=32", "train.global_batch_size=1", "train.micro_batch_size=1"]


def tiny(options):
    return [*TINY, *(SMALLER if options.small else [])]


def needs(path, what):
    if not Path(path).exists():
        raise Skipped(f"{path} does not exist: {what}")


def needs_build(options):
    needs(options.viaduct, "build it with ./viaduct.sh build")
    needs(options.library, "build it with cmake --preset cuda && cmake --build --preset cuda")


def environment(options):
    """Of the program and the tests. A package has the libraries that they link beside them."""
    found = dict(os.environ, VIADUCT_CUDA_LIBRARY=options.library)
    if options.libraries.is_dir():
        found["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(options.libraries), os.environ.get("LD_LIBRARY_PATH")]))
    return found


def train(options, settings, before=()):
    """Runs a training and returns the lines of its metrics.jsonl that have a loss."""
    needs_build(options)
    with tempfile.TemporaryDirectory() as folder:
        call([*before, options.viaduct, "train", *settings, f"checkpoint.save={folder}", "checkpoint.save_interval=1000000"],
             env=environment(options))
        return [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]


def starts(options):
    lines = train(options, [*tiny(options), "dist.device=cuda", "train.train_iters=1"])
    return {"rows": [("first step on the GPU", f"loss {lines[-1]['loss']:.4f}")]}


def run_tests(options, chosen):
    """Tests of the device, in several processes that share the GPU: most of their time is that of the reference on the cpu."""
    needs(options.tests, "build it with cmake --build build/release --target test_on_gpu")
    needs(options.library, "build it with cmake --preset cuda && cmake --build --preset cuda")
    shards = min(8, os.cpu_count() or 1)
    with contextlib.ExitStack() as all_of_them:
        running = [all_of_them.enter_context(started([options.tests, "--gtest_brief=1", f"--gtest_filter={chosen}"], stderr=subprocess.STDOUT, env=dict(
            environment(options), GTEST_TOTAL_SHARDS=str(shards), GTEST_SHARD_INDEX=str(shard)))) for shard in range(shards)]
        # The pipes of all are read at once: a test that fails may say more than a pipe holds. A reader ends with its program.
        with ThreadPoolExecutor(shards) as readers:
            try:
                said = list(readers.map(lambda process: process.communicate()[0], running))
            except Failed:
                for process in running:
                    kill(process)
                raise
    passed, reasons = 0, []
    for process, text in zip(running, said):
        done = re.search(r"(\d+) tests passed, (\d+) failed", text)
        if done is None or process.returncode not in (0, 1):
            raise Failed(f"the tests exit with {process.returncode}: {text.strip()[-500:]}")
        passed += int(done[1])
        reasons += re.findall(r"\[  FAILED  \] ([^\s,]+\.[^\s,]+)", text)
    if reasons:
        failed = sorted(set(reasons))
        raise Failed(f"{passed} tests passed, {len(failed)} failed: {', '.join(failed)}")
    if passed == 0:
        raise Failed(f"no test is called {chosen}")
    return passed


def products(options):
    """Every kind of product: each is asked of cuBLASLt's heuristics, and compared with the cpu's."""
    passed = run_tests(options, options.product_tests)
    return {"rows": [("products of every kind", f"{passed} tests passed")], "passed": passed}


def tests(options):
    passed = run_tests(options, options.op_tests)
    return {"rows": [("tests of ops and models on the device", f"{passed} passed")], "passed": passed}


MOE = ["model.family=mixtral", "model.num_moe_experts=4", "model.moe_router_topk=2"]
# 20 steps: name, recipe, most difference of a loss from the cpu's, more settings, first target that has the products.
STEPS = [
    ("fp32", "fp32", 2e-4, [], "sm_80"),
    ("bf16_mixed", "bf16_mixed", 2e-2, ["model.attention_backend=flash"], "sm_80"),
    ("bf16_mixed, attention by cuDNN", "bf16_mixed", 2e-2, ["model.attention_backend=fused"], "sm_80"),
    ("bf16_mixed, experts", "bf16_mixed", 2e-2, MOE, "sm_80"),
    ("FP8, current scales", "bf16_with_fp8_current_scaling_mixed", 5e-2, [], "sm_89"),
    ("FP8, delayed scales", "bf16_with_fp8_delayed_scaling_mixed", 5e-2, [], "sm_89"),
    ("FP8, blocks", "bf16_with_fp8_subchannel_scaling_mixed", 5e-2, [], "sm_90a"),
    ("FP8, blocks, experts", "bf16_with_fp8_subchannel_scaling_mixed", 5e-2, MOE, "sm_90a"),
    ("MXFP8", "bf16_with_mxfp8_mixed", 5e-2, [], "sm_100a"),
    ("NVFP4", "bf16_with_nvfp4_mixed", 1e-1, [], "sm_100a"),
]
# Targets that have the products of a first one, besides itself.
ALSO = {"sm_80": ("sm_89", "sm_90a", "sm_100a", "sm_120"), "sm_89": ("sm_90a", "sm_100a", "sm_120"), "sm_90a": ("sm_100a",), "sm_100a": ()}


def beside_cpu(options, target, case):
    """Compares the losses of some steps on the GPU and the cpu. Tokens are random, so a difference is an error of the weights."""
    name, recipe, limit, more, first = case
    if target != first and target not in ALSO[first]:
        raise Skipped(f"{target} has no products of this format")
    fused = "model.attention_backend=fused"
    if fused in more and "not found" in libraries_of(options.viaduct, environment(options)).get("libcudnn.so.9", "not found"):
        raise Skipped("cuDNN is not installed")
    count = options.steps
    settings = [*tiny(options), f"train.train_iters={count}", f"mixed_precision={recipe}", *(word for word in more if word != fused)]
    cpu = train(options, [*settings, "dist.device=cpu"])
    cuda = train(options, [*settings, "dist.device=cuda", *(word for word in more if word == fused)])
    if len(cpu) != count or len(cuda) != count:
        raise Failed(f"{len(cpu)} steps on the cpu, {len(cuda)} on the GPU, expected {count}")
    differences = [abs(a["loss"] - b["loss"]) for a, b in zip(cpu, cuda)]
    worst = max(differences) if all(map(math.isfinite, differences)) else math.inf
    if not worst <= limit:
        raise Failed(f"the loss differs by {worst:.1e} from the cpu's, the limit is {limit:.0e}")
    return {"rows": [(f"{count} steps, {name}", f"largest difference of the loss from the cpu's {worst:.1e} (limit {limit:.0e})")], "difference": worst}


def sanitized(options, check):
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        raise Skipped("compute-sanitizer is not installed")
    train(options, [*tiny(options), "model.num_layers=1", "dist.device=cuda", "train.train_iters=1", "mixed_precision=bf16_mixed"],
          [tool, "--tool", check, "--error-exitcode", "9"])
    return {"rows": [(f"compute-sanitizer, {check}", "one step without an error")]}
