"""The safetensors package reads the output of `viaduct convert`, and `viaduct generate` samples from it."""

import json
import pathlib
import shutil
import unittest

import safetensors
from support import DATA, InteropTest, viaduct


def stored(folder):
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        for name, tensor in safetensors.deserialize(path.read_bytes()):
            assert name not in tensors, f"{name} is in two files"
            tensors[name] = (tensor["dtype"], tuple(tensor["shape"]), bytes(tensor["data"]))
    return tensors


class Convert(InteropTest):
    def test_round_trip(self):
        for model in ("llama_tied/model_sharded_bf16", "gpt2/model_bare", "llama/model"):
            with self.subTest(model):
                source, name = DATA / "golden" / model, model.replace("/", "_")
                viaduct("convert", "--from", source, "--to", self.folder / name)
                back = self.folder / (name + "_hf")
                viaduct("convert", "--from", self.folder / name, "--to", back, "--max-shard-bytes", 150_000)
                self.assertEqual(stored(back), stored(source))
                index = json.loads((back / "model.safetensors.index.json").read_text())
                for tensor, file in index["weight_map"].items():
                    with safetensors.safe_open(back / file, framework="numpy") as shard:
                        self.assertIn(tensor, shard.keys())

    def test_generate_from_any_form(self):
        model = self.folder / "model"
        shutil.copytree(DATA / "golden" / "gpt2" / "model", model)
        text = self.folder / "text"
        text.write_text("the cat and the hat and the rat")
        viaduct("tokenizer", "train", "--input", text, "--vocab-size", 262, "--output", model)
        viaduct("convert", "--from", model, "--to", self.folder / "save")
        viaduct("convert", "--from", self.folder / "save", "--to", self.folder / "hf")
        texts = [
            viaduct("generate", "--model", form, "--prompt", "the ", "--temperature", 0, "--max-new-tokens", 16)
            for form in (model, self.folder / "save", self.folder / "save" / "step_00000000", self.folder / "hf")
        ]
        self.assertTrue(texts[0].startswith("the "))
        self.assertEqual(len(set(texts)), 1)


if __name__ == "__main__":
    unittest.main()
