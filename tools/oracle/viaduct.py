"""Calls of the viaduct binary."""

import re
import subprocess

from safetensors.torch import load_file


class Refused(RuntimeError):
    """viaduct ended with a status other than 0; the message is its output."""


class Viaduct:
    def __init__(self, binary):
        self.binary = str(binary)

    def __call__(self, *arguments, text=None):
        """Runs the program and returns its output."""
        done = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True, input=text)
        if done.returncode != 0:
            said = done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}"
            raise Refused(f"viaduct {arguments[0]}: {said}")
        return done.stdout

    def probe(self, folder, batch, out, *overrides, flags=()):
        """Runs `viaduct probe` on a batch file and returns the tensors that it writes."""
        self("probe", "--model", folder, "--batch", batch, "--out", out, *flags, *overrides)
        return load_file(out)

    def instruction_sets(self):
        """The values of `dist.cpu_isa` that this machine supports, smallest first."""
        usable = re.search(r"usable here: (\w+(?:, \w+)*) \(", self("version"))
        return usable.group(1).split(", ")
