"""Shared code of the interop tests: running the binary, the test data, an empty working folder."""

import os
import pathlib
import subprocess
import tempfile
import unittest

BINARY = os.environ["VIADUCT_BINARY"]
DATA = pathlib.Path(os.environ["VIADUCT_TEST_DATA"])


def viaduct(*arguments, text=None):
    """Runs the binary and returns its output. Raises an error with its messages if it fails."""
    done = subprocess.run([BINARY, *map(str, arguments)], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"viaduct {' '.join(map(str, arguments))}: status {done.returncode}\n{done.stderr}")
    return done.stdout


class InteropTest(unittest.TestCase):
    """A test with an empty folder, `self.folder`, that is removed afterwards."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="viaduct-interop-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
