"""Runs of `viaduct train`, and what they leave: exit status, output, metrics."""

import json
import os
import re
import shutil
import signal
import subprocess


class Session:
    """A run that has ended. `status`: None for one that did not end in time and was killed."""

    def __init__(self, command, status, text):
        self.command, self.status, self.text = command, status, text

    def error(self):
        lines = [line for line in self.text.splitlines() if "error" in line]
        return lines[0] if lines else self.text.strip()[-300:]

    def is_refused(self):
        return self.status == 2

    def diverged(self):
        return self.status == 1 and "finite" in self.text


class Runner:
    def __init__(self, binary, seconds):
        self.binary, self.seconds, self.count = binary, seconds, 0

    def train(self, overrides, ranks, mpi, folder):
        command = [self.binary, "train", *overrides, f"checkpoint.save={folder}"]
        if ranks > 1 and not mpi:
            command.append(f"dist.ranks={ranks}")
        if mpi:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
        return self.run(command)

    def run(self, command):
        self.count += 1
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env=environment, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=self.seconds)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            status = None
        return Session(command, status, output.decode(errors="replace"))

    def check_saved(self, folder, read, adapter=False):
        """What is wrong with the checkpoint of a finished run, or ""; without `read` only whether there is one. One of an `adapter` becomes
        a folder of PEFT."""
        if not os.path.exists(os.path.join(folder, "latest")):
            return "nothing is saved"
        if not read:
            return ""
        scratch = folder + ".read"
        form = "peft" if adapter else "viaduct"
        session = self.run([self.binary, "convert", "--from", folder, "--to", scratch, "--to-format", form])
        shutil.rmtree(scratch, ignore_errors=True)
        return "" if session.status == 0 else f"the checkpoint cannot be read: {session.error()}"


def metrics(folder):
    """Loss and gradient norm by step."""
    found = {}
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        for line in file:
            row = json.loads(line)
            if "loss" in row:
                found[row["step"]] = (row["loss"], row.get("grad_norm"))
    return found


def named_fields(text, known):
    """The fields that a message names, with their section or, where that is unique, without."""
    words = set(re.findall(r"[A-Za-z_0-9]+(?:\.[A-Za-z_0-9]+)*", text))
    sections = {name.split(".")[0] for name in known}
    words |= {part for word in words for part in word.split(".")}
    found = {name for name in known if name in words or name.split(".", 1)[1] in words}
    return found | {word for word in words if word.split(".")[0] in sections and "." in word}


def difference(one, other):
    """The largest relative difference of losses, and of gradient norms; infinite if steps are missing."""
    if one.keys() != other.keys() or not one:
        return float("inf"), float("inf")
    most = [0.0, 0.0]
    for step, values in one.items():
        for i, (a, b) in enumerate(zip(values, other[step])):
            if a is None or b is None or a == b:
                continue
            most[i] = max(most[i], abs(a - b) / max(abs(a), abs(b), 1e-3))
    return tuple(most)
