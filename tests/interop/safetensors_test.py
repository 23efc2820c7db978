"""The safetensors package reads our weights, and we read its weights: same names, types and bytes."""

import json
import os
import pathlib
import subprocess
import unittest

import numpy
import safetensors
import safetensors.numpy
from support import DATA, InteropTest

COPY_WEIGHTS = pathlib.Path(os.environ["VIADUCT_INTEROP_TOOLS"]) / "copy_weights"
MODEL = DATA / "golden" / "llama_tied"


def copy_weights(source, target, shard_bytes=5_000_000_000):
    subprocess.run([COPY_WEIGHTS, source, target, str(shard_bytes)], check=True)


def stored(folder):
    """Name to (type, shape, bytes) of every tensor of a folder, opened file by file by the package."""
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        for name, tensor in safetensors.deserialize(path.read_bytes()):
            assert name not in tensors, f"{name} is in two files"
            tensors[name] = (tensor["dtype"], tuple(tensor["shape"]), bytes(tensor["data"]))
    return tensors


class Safetensors(InteropTest):
    def test_one_file(self):
        copy_weights(MODEL / "model", self.folder)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["model.safetensors"])
        self.assertEqual(stored(self.folder), stored(MODEL / "model"))
        with safetensors.safe_open(self.folder / "model.safetensors", framework="numpy") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})

    def test_shards(self):
        copy_weights(MODEL / "model_sharded_bf16", self.folder, 100_000)
        self.assertEqual(stored(self.folder), stored(MODEL / "model_sharded_bf16"))
        index = json.loads((self.folder / "model.safetensors.index.json").read_text())
        theirs = json.loads((MODEL / "model_sharded_bf16" / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"], theirs["metadata"])
        self.assertEqual(sorted(index["weight_map"]), sorted(theirs["weight_map"]))
        for name, file in index["weight_map"].items():
            with safetensors.safe_open(self.folder / file, framework="numpy") as shard:
                self.assertIn(name, shard.keys())

    def test_every_type_that_numpy_has(self):
        tensors = {"scalar": numpy.array(2.5, dtype=numpy.float64), "empty": numpy.zeros((0, 3), dtype=numpy.float32)}
        for number, name in enumerate(["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16"]):
            tensors[name] = (numpy.arange(3 * 5 * 7) * 31 + number).astype(name).reshape(3, 5, 7)
        source = self.folder / "source"
        source.mkdir()
        (source / "config.json").write_text("{}")
        safetensors.numpy.save_file(tensors, source / "model.safetensors")
        copy_weights(source, self.folder / "copy")
        self.assertEqual(stored(self.folder / "copy"), stored(source))
        ours = safetensors.numpy.load_file(self.folder / "copy" / "model.safetensors")
        for name, tensor in tensors.items():
            numpy.testing.assert_array_equal(ours[name], tensor)


if __name__ == "__main__":
    unittest.main()
