"""Runs commands whose output goes to this program's output, and stops them when their time is over."""

import os
import re
import select
import signal
import subprocess
import sys
import time

PROGRESS = re.compile(rb"^\[(\d+)/(\d+)\]")


def say(text):
    print(text, flush=True)


class Stopped(Exception):
    """A command was stopped because its time was over, or would not suffice."""


def stop(process):
    """Ends the process and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue


def command(arguments, seconds=None, copy_to=None, quiet=False, line_seen=None):
    """Runs a command and returns its exit status. Its output goes to this program's output too unless `quiet`, and to the file
    `copy_to`. Raises Stopped after `seconds`, or once `line_seen`, which gets each line of the output, returns false."""
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    end = None if seconds is None else time.monotonic() + seconds
    with process.stdout:
        rest = b""
        while True:
            wait = None if end is None else max(0, end - time.monotonic())
            if not select.select([process.stdout], [], [], wait)[0]:
                stop(process)
                raise Stopped
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                break
            if not quiet:
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
            if copy_to:
                copy_to.write(data.decode(errors="replace"))
                copy_to.flush()
            *lines, rest = (rest + data).split(b"\n")
            if line_seen and not all([line_seen(line) for line in lines]):
                stop(process)
                raise Stopped
    return process.wait()


class Progress:
    """Follows a build by ninja's lines "[12/345] …": false once it has run for three minutes and will not end in time at its pace."""

    def __init__(self, seconds, clock=time.monotonic):
        self.seconds, self.clock, self.begin = seconds, clock, clock()

    def __call__(self, line):
        found = PROGRESS.match(line)
        passed = self.clock() - self.begin
        if not found or passed < 180:
            return True
        done, all_of_them = int(found[1]), int(found[2])
        return passed * all_of_them / max(done, 1) <= self.seconds
