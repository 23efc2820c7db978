"""Times training steps of PyTorch and Viaduct, alternating, and prints the ratio: `./viaduct.sh peers steps` (docs/benchmarks.md).

default: PyTorch's default settings: SDPA, eager, AdamW, the system's allocator.
best:    the fastest of {SDPA, baddbmm with an additive mask} × {eager, torch.compile} × {AdamW, fused AdamW}, with jemalloc (if it is
         installed) that keeps its memory and uses huge pages. The search runs once and is kept in build/peers/best.json."""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from machine import cpu_name, describe, jemalloc, median, onednn_version

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CASES = [("gpt_10m", "bf16"), ("llama_10m", "bf16"), ("llama_100m", "bf16"), ("gpt2_124m", "bf16"), ("gpt2_124m", "fp32")]
DEFAULT = {"attention": "sdpa", "compile": False, "fused": False, "allocator": "system"}


def name_of(setting):
    return (f"{setting['attention']}, {'compile' if setting['compile'] else 'eager'}, "
            f"{'fused ' if setting['fused'] else ''}AdamW, {setting['allocator']}")


class Torch:
    """A process of torch_step.py that waits between measurements."""

    def __init__(self, case, setting, warmup):
        environment = dict(os.environ, OMP_NUM_THREADS=str(case["threads"]),
                           TORCHINDUCTOR_CACHE_DIR=str(ROOT / "build/peers/inductor"))
        if setting["allocator"] == "jemalloc":
            environment["LD_PRELOAD"] = jemalloc()
            environment["MALLOC_CONF"] = "thp:always,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"
        orders = {**case, **setting, "warmup": warmup}
        self.process = subprocess.Popen([sys.executable, "-B", str(HERE / "torch_step.py"), json.dumps(orders)], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.about = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"peers: PyTorch ended:\n{self.process.stderr.read()[-2000:]}")
        return json.loads(line)

    def steps(self, count):
        print(count, file=self.process.stdin, flush=True)
        return self.answer()["seconds"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def viaduct(options, dtype, *arguments):
    """Runs a command on a configuration and returns its JSON document."""
    command = [options.viaduct, *arguments, "--json", f"dist.threads_per_rank={options.threads}"]
    command += ["mixed_precision=fp32"] if dtype == "fp32" else []
    done = subprocess.run(command + options.overrides, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"peers: {' '.join(command)} failed")
    return json.loads(done.stdout)


def resolved(document):
    """The configuration from a dry run's document. YAML 1.1 reads `1e-05` as text."""
    text = re.sub(r": (-?\d+)(e-?\d+)$", r": \1.0\2", document["config"], flags=re.M)
    return yaml.safe_load(text)


def timed(options, case, setting, shown):
    """(median seconds of a few steps, setting) of PyTorch."""
    with Torch(case, setting, 2 if setting["compile"] else 1) as torch:
        seconds = median(torch.steps(1 if options.quick else 2))
    print(f"  search: {shown}: {seconds:.3f} s", file=sys.stderr, flush=True)
    return seconds, setting


def remembered_best(options, key, search):
    """The fastest setting for `key`, from build/peers/best.json or by `search()`, which returns `timed` of each setting."""
    cache = ROOT / "build/peers/best.json"
    known = json.loads(cache.read_text()) if cache.exists() else {}
    if key not in known or options.search:
        found = sorted(search(), key=lambda entry: entry[0])
        known[key] = {"best": found[0][1], "searched": [{"seconds": s, **setting} for s, setting in found]}
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(known, indent=1))
    return known[key]["best"]


def best_setting(options, config, case, torch_version):
    allocator = "jemalloc" if jemalloc() else "system"

    def time(attention, compiled, fused):
        setting = {"attention": attention, "compile": compiled, "fused": fused, "allocator": allocator}
        return timed(options, case, setting, name_of(setting))

    def search():
        found = [time(attention, compiled, True) for attention, compiled in itertools.product(["sdpa", "baddbmm"], [False, True])]
        # The optimizer's time does not depend on the model's settings, so the other optimizer is tried only with the winner.
        winner = min(found, key=lambda entry: entry[0])[1]
        return [*found, time(winner["attention"], winner["compile"], False)]

    key = f"{config} {case['dtype']} {case['threads']} threads, torch {torch_version}, {cpu_name()}"
    return remembered_best(options, key, search)


def compare(options, config, dtype):
    """Measures the rows of one configuration: one for each requested setting of PyTorch."""
    path = str(ROOT / f"configs/bench/{config}.yaml")
    ours = viaduct(options, dtype, "train", path, "--dry-run")
    fields = resolved(ours)
    case = {"model": fields["model"], "rows": fields["train"]["global_batch_size"], "dtype": dtype, "threads": options.threads}
    tokens = case["rows"] * case["model"]["seq_length"]
    rows = []
    for kind in options.settings:
        setting = DEFAULT if kind == "default" else best_setting(options, config, case, options.torch_version)
        with Torch(case, setting, 1 if options.quick and not setting["compile"] else 2) as torch:
            if torch.about["parameters"] != ours["parameters"]:
                raise SystemExit(f"peers: {config}: PyTorch's model has {torch.about['parameters']} parameters, Viaduct's "
                                 f"{ours['parameters']}: they are not the same architecture")
            theirs, mine, ratios, fractions = [], [], [], []
            for _ in range(options.rounds):
                theirs += (seconds := torch.steps(options.steps))
                result = viaduct(options, dtype, "bench", "step", "--config", path, "--steps", str(options.steps), "--warmup", "1")
                mine.append(result["step_seconds"]["median"])
                ratios.append(median(seconds) / mine[-1])
                fractions.append(result["mfu"])
        rows.append({"config": config, "dtype": dtype, "kind": kind, "setting": name_of(setting), "parameters": ours["parameters"],
                     "torch_tokens_per_second": tokens / median(theirs), "viaduct_tokens_per_second": tokens / median(mine),
                     "ratio": median(ratios), "ratios": ratios, "viaduct_mfu": median(fractions), "peak": result["peak"],
                     "torch_cpu_capability": torch.about["cpu_capability"], "torch_loss": torch.about["loss"]})
        show(rows[-1])
    return rows


def show(row):
    print(f"| {row['config']}, {row['dtype']} | {row['kind']}: {row['setting']} | {row['torch_tokens_per_second']:,.0f} | "
          f"{row['viaduct_tokens_per_second']:,.0f} | {row['ratio']:.2f} ({min(row['ratios']):.2f} to {max(row['ratios']):.2f}) | "
          f"{100 * row['viaduct_mfu']:.0f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="viaduct.sh peers steps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the binary")
    parser.add_argument("--configs", default=",".join(f"{c}:{d}" for c, d in CASES), help="CONFIG:DTYPE[,…] of configs/bench (default: %(default)s)")
    parser.add_argument("--settings", default="default,best", help="of PyTorch (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="measured steps a turn (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both (default: all cores)")
    parser.add_argument("--quick", action="store_true", help="one turn of one step; a search with one step a setting")
    parser.add_argument("--search", action="store_true", help="search the best setting again")
    parser.add_argument("--out", help="write all figures as JSON")
    parser.add_argument("overrides", nargs="*", help="SECTION.FIELD=VALUE for Viaduct")
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.steps = 1
    options.settings = options.settings.split(",")
    if unknown := set(options.settings) - {"default", "best"}:
        raise SystemExit(f"peers: --settings {unknown}: expected default, best")
    import torch

    options.torch_version = torch.__version__
    print(f"{describe()}; PyTorch {torch.__version__}, oneDNN {onednn_version(torch)}; {options.threads} threads; "
          f"{options.rounds} turns of {options.steps} steps\n")
    print("| configuration | PyTorch's setting | PyTorch, tokens/s | Viaduct, tokens/s | Viaduct / PyTorch | Viaduct of its peak |")
    print("|---|---|---|---|---|---|", flush=True)
    rows = []
    for case in options.configs.split(","):
        config, _, dtype = case.partition(":")
        rows += compare(options, config, dtype or "bf16")
    if rows:
        print(f"\nPeak of Viaduct's last run: {rows[-1]['peak']}")
    if options.out:
        Path(options.out).write_text(json.dumps({"machine": describe(), "torch": options.torch_version, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
