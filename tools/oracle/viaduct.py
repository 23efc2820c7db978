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
        """What it prints."""
        done = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True, input=text)
        if done.returncode != 0:
            said = done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}"
            raise Refused(f"viaduct {arguments[0]}: {said}")
        return done.stdout

    def probe(self, folder, batch, out, *overrides):
        """The tensors that `viaduct probe` writes for a batch file."""
        self("probe", "--model", folder, "--batch", batch, "--out", out, *overrides)
        return load_file(out)

    def instruction_sets(self):
        """Those of `dist.cpu_isa` that this machine has, least first."""
        usable = re.search(r"usable here: (\w+(?:, \w+)*) \(", self("version"))
        return usable.group(1).split(", ")
