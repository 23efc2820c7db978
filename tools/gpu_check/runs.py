"""Runs whose results are compared: with the cpu device, and under compute-sanitizer."""

import ctypes
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from phases import Failed, Skipped, call

TINY = ["model.family=llama", "model.num_layers=2", "model.hidden_size=128", "model.ffn_hidden_size=256", "model.num_attention_heads=4",
        "model.vocab_size=256", "model.seq_length=128", "dataset.mock=true", "train.global_batch_size=4", "train.micro_batch_size=2",
        "optimizer.lr=1e-3", "scheduler.lr_warmup_iters=0", "validation.eval_iters=0", "logger.log_interval=1"]


def needs(path, what):
    if not Path(path).exists():
        raise Skipped(f"{path} does not exist: {what}")


def needs_build(options):
    needs(options.viaduct, "build it with ./viaduct.sh build")
    needs(options.library, "build it with cmake --preset cuda && cmake --build --preset cuda")


def environment(options):
    return dict(os.environ, VIADUCT_CUDA_LIBRARY=options.library)


def train(options, settings, seconds, before=()):
    """Runs a training and returns the lines of its metrics.jsonl that have a loss."""
    needs_build(options)
    with tempfile.TemporaryDirectory() as folder:
        call([*before, options.viaduct, "train", *settings, f"checkpoint.save={folder}", "checkpoint.save_interval=1000000"], seconds,
             env=environment(options))
        return [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]


def starts(options):
    lines = train(options, [*TINY, "dist.device=cuda", "train.train_iters=1"], 30)
    return {"rows": [("first step on the GPU", f"loss {lines[-1]['loss']:.4f}")]}


def tests(options):
    """The tests of ops and models, in several processes that share the GPU: most of their time is that of the reference on the cpu."""
    needs(options.tests, "build it with cmake --build build/release --target test_on_gpu")
    needs(options.library, "build it with cmake --preset cuda && cmake --build --preset cuda")
    shards = min(8, os.cpu_count() or 1)
    end = time.monotonic() + 170
    running = []
    for shard in range(shards):
        env = dict(environment(options), GTEST_TOTAL_SHARDS=str(shards), GTEST_SHARD_INDEX=str(shard))
        running.append(subprocess.Popen([options.tests, "--gtest_brief=1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env))
    passed, reasons = 0, []
    try:
        # The pipes of all are read at once: a test that fails may say more than a pipe holds.
        with ThreadPoolExecutor(shards) as readers:
            said = list(readers.map(lambda process: process.communicate(timeout=max(1, end - time.monotonic()))[0], running))
    except subprocess.TimeoutExpired:
        raise Failed("the tests did not end in 170 s") from None
    finally:
        for process in running:
            process.kill()
    for process, text in zip(running, said):
        done = re.search(r"(\d+) tests passed, (\d+) failed", text)
        if done is None or process.returncode not in (0, 1):
            raise Failed(f"the tests exit with {process.returncode}: {text.strip()[-500:]}")
        passed += int(done[1])
        reasons += re.findall(r"\[  FAILED  \] ([^\s,]+\.[^\s,]+)", text)
    if reasons:
        failed = sorted(set(reasons))
        raise Failed(f"{passed} tests passed, {len(failed)} failed: {', '.join(failed)}")
    return {"rows": [("tests of ops and models on the device", f"{passed} passed")], "passed": passed}


def has_cudnn():
    try:
        return bool(ctypes.CDLL(os.environ.get("VIADUCT_CUDNN_LIBRARY", "libcudnn.so.9")))
    except OSError:
        return False


def beside_cpu(options):
    """Compares the losses of 20 steps on the GPU and the cpu. Tokens are random, so a difference is an error of the weights."""
    cases = [("fp32", "fp32", 2e-4, []), ("bf16_mixed", "bf16_mixed", 2e-2, [])]
    if has_cudnn():
        cases.append(("bf16_mixed, attention by cuDNN", "bf16_mixed", 2e-2, ["model.attention_backend=fused"]))
    rows, worst, bad = [], {}, []
    for name, recipe, limit, on_gpu in cases:
        settings = [*TINY, "train.train_iters=20", f"mixed_precision={recipe}"]
        cpu = train(options, [*settings, "dist.device=cpu"], 60)
        cuda = train(options, [*settings, "dist.device=cuda", *on_gpu], 60)
        if len(cpu) != 20 or len(cuda) != 20:
            raise Failed(f"{name}: {len(cpu)} steps on the cpu, {len(cuda)} on the GPU")
        differences = [abs(a["loss"] - b["loss"]) for a, b in zip(cpu, cuda)]
        worst[name] = max(differences) if all(map(math.isfinite, differences)) else math.inf
        rows.append((f"20 steps, {name}", f"largest difference of the loss from the cpu's {worst[name]:.1e} (limit {limit:.0e})"))
        if not worst[name] <= limit:
            bad.append(f"{name} {worst[name]:.1e}")
    if bad:
        raise Failed(f"losses differ from the cpu's: {', '.join(bad)}")
    return {"rows": rows, "differences": worst}


def sanitized(options):
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        raise Skipped("compute-sanitizer is not installed")
    rows = []
    for check in ("memcheck", "racecheck"):
        train(options, [*TINY, "model.num_layers=1", "dist.device=cuda", "train.train_iters=1", "mixed_precision=bf16_mixed"], 80,
              [tool, "--tool", check, "--error-exitcode", "9"])
        rows.append((f"compute-sanitizer, {check}", "one step without an error"))
    return {"rows": rows}
