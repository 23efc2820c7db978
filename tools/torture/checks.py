"""Conditions of a save folder that must hold after any attack on the run that wrote it."""

import json
import os
import re
import subprocess


class Finding(Exception):
    """A guarantee was broken."""


def check(condition, message):
    if not condition:
        raise Finding(message)


def latest(save):
    try:
        with open(os.path.join(save, "latest")) as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def shards(save, step):
    """The bytes of all tensors of a step, by file."""
    folder = os.path.join(save, step)
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("rank_"):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = file.read()
    return found


def check_loads(binary, save, scratch):
    """Checks that the newest checkpoint is complete: `viaduct convert` reads all of it."""
    step = latest(save)
    if step is None:
        return
    check(os.path.isdir(os.path.join(save, step)), f"latest names {step}, which is missing")
    done = subprocess.run([binary, "convert", "--from", save, "--to", scratch], capture_output=True, text=True)
    check(done.returncode == 0, f"{step} does not load: {done.stderr.strip()}")
    subprocess.run(["rm", "-rf", scratch])


def rows(save):
    """Rows of metrics.jsonl as (step, kind)."""
    found = []
    with open(os.path.join(save, "metrics.jsonl")) as file:
        for line in file:
            check(line.endswith("\n"), "metrics.jsonl: the last row is cut short")
            row = json.loads(line)
            kind = "stop" if "stopped" in row else "validation" if "validation_loss" in row else "step"
            found.append((row["step"], kind))
    return found


def check_rows(save, steps, eval_interval=7):
    found = rows(save)
    twice = sorted({row for row in found if found.count(row) > 1})
    check(not twice, f"metrics.jsonl: duplicate rows: {twice[:5]}")
    wanted = {(step, "step") for step in range(1, steps + 1)}
    wanted |= {(step, "validation") for step in [*range(0, steps, eval_interval), steps]}
    missing = sorted(wanted - set(found))
    check(not missing, f"metrics.jsonl: missing rows: {missing[:5]}")
    more = sorted(row for row in set(found) - wanted if row[1] != "stop")
    check(not more, f"metrics.jsonl: unexpected rows: {more[:5]}")


def check_tidy(save):
    for folder, _, names in os.walk(save):
        for name in [*names, os.path.basename(folder)]:
            check(not re.search(r"\.tmp-", name), f"left behind: {os.path.join(folder, name)}")


def check_finished(save, steps):
    step = f"step_{steps:08d}"
    check(latest(save) == step, f"latest is {latest(save)}, expected {step}")
    check(os.path.exists(os.path.join(save, "config.yaml")), "config.yaml is missing")
    check_rows(save, steps)
    check_tidy(save)


def contents(save):
    found = {}
    for folder, _, names in os.walk(save):
        for name in names:
            path = os.path.join(folder, name)
            if name != "run.lock":
                with open(path, "rb") as file:
                    found[path] = file.read()
    return found
