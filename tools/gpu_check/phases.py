"""Phases of a check: each has a time limit, after which its programs are killed, and ends as done, skipped or failed, with the reason."""

import contextlib
import os
import signal
import subprocess
import time


class Skipped(Exception):
    """The machine lacks something that the phase needs."""


class Failed(Exception):
    pass


_running = set()  # programs of the phase, each the leader of a group of its own


@contextlib.contextmanager
def started(command, **more):
    """Starts a program, which ends with the phase at the latest, together with all that it started."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **more)
    _running.add(process)
    try:
        yield process
    finally:
        kill(process)
        _running.discard(process)
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def out_of_time(*_):
    raise Failed("it did not end in its time")


class Phases:
    def __init__(self, seconds, only=None, results=None, note=lambda: None, slower=1):
        """`results`: of an earlier check, whose phases that were done are not repeated. `note` is called after each phase. Limits are
        `slower` times as long."""
        self.slower = slower
        self.end = time.monotonic() + seconds
        self.only = only
        self.names = []  # of all phases so far, also those that `only` leaves out
        self.results = results if results is not None else {}
        self.note = note
        signal.signal(signal.SIGALRM, out_of_time)

    def run(self, name, seconds, work):
        """Runs a phase for at most `seconds`. Returns what `work` returns, {"rows": [(what, result), …], …}, or None if it was
        skipped or failed."""
        self.names.append(name)
        if self.only and name not in self.only:
            return None
        if self.results.get(name, {}).get("status") == "done":
            return self.results[name]
        begin = time.monotonic()
        left, seconds = self.end - begin, seconds * self.slower
        value, status, why = None, "done", ""
        try:
            if left < seconds / self.slower / 2:
                raise Skipped(f"only {left:.0f} s were left")
            signal.setitimer(signal.ITIMER_REAL, min(seconds, left))
            value = work() or {}
        except Skipped as reason:
            status, why = "skipped", str(reason)
        except (Failed, OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as reason:
            status, why = "failed", str(reason).replace("\n", " ")[-600:]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for process in list(_running):
                kill(process)
        result = {"status": status, "seconds": round(time.monotonic() - begin, 1), **(value or {})}
        if why:
            result["why"] = why
        self.results[name] = result
        print(f"gpu_check: {name}: {status}{', ' + why if why else ''} ({result['seconds']} s)", flush=True)
        self.note()
        return value


def call(command, **more):
    """Runs a command, at most until the phase ends, and returns its standard output. Raises Failed with the end of its output."""
    with started(command, stderr=subprocess.PIPE, **more) as process:
        out, err = process.communicate()
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, command[:3]))} … exits with {process.returncode}: {(err or out).strip()[-500:]}")
    return out
