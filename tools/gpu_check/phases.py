"""Phases of a check: each has a time limit and ends as done, skipped or failed, with the reason."""

import subprocess
import time


class Skipped(Exception):
    """The machine lacks something that the phase needs."""


class Failed(Exception):
    pass


class Phases:
    def __init__(self, seconds, only=None):
        self.end = time.monotonic() + seconds
        self.only = only
        self.results = {}

    def run(self, name, seconds, work):
        """Runs a phase. Returns what `work` returns, {"rows": [(what, result), …], …}, or None if it was skipped or failed."""
        if self.only and name not in self.only:
            return None
        begin = time.monotonic()
        left = self.end - begin
        value, status, why = None, "done", ""
        try:
            if left < seconds / 2:
                raise Skipped(f"only {left:.0f} s were left")
            value = work() or {}
        except Skipped as reason:
            status, why = "skipped", str(reason)
        except (Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as reason:
            status, why = "failed", str(reason).replace("\n", " ")[-600:]
        result = {"status": status, "seconds": round(time.monotonic() - begin, 1), **(value or {})}
        if why:
            result["why"] = why
        self.results[name] = result
        print(f"gpu_check: {name}: {status}{', ' + why if why else ''} ({result['seconds']} s)", flush=True)
        return value


def call(command, seconds, **more):
    """Runs a command and returns its standard output. Raises Failed with the end of its output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds, **more)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} did not end in {seconds} s") from None
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command[:3]))} … exits with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout
