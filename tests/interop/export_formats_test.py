"""Decodes exports of `viaduct convert --dtype` with numpy, and converts quantized folders made with numpy."""

import json
import pathlib
import struct
import unittest

import numpy as np
import safetensors
from support import DATA, InteropTest, viaduct

FLOATS = {"F32": np.float32, "F16": np.float16, "U8": np.uint8, "F8_E4M3": np.uint8}


def e4m3_table():
    """FP8 formats for deep learning (Micikevicius et al. 2022), table 1."""
    table = []
    for code in range(128):
        exponent, mantissa = code >> 3, code & 7
        table.append(mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    table[127] = np.nan
    return np.array(table + [-value for value in table])


E4M3 = e4m3_table()


def tensors_of(folder):
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        for name, tensor in safetensors.deserialize(path.read_bytes()):
            data = bytes(tensor["data"])
            if tensor["dtype"] == "BF16":
                values = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                values = np.frombuffer(data, FLOATS[tensor["dtype"]])
            tensors[name] = (tensor["dtype"], values.reshape(tensor["shape"]))
    return tensors


def to_bf16(values):
    """Rounds float64 to BF16, to nearest even."""
    bits = np.asarray(values, np.float64)
    mantissa, exponent = np.frexp(bits)
    return np.ldexp(np.rint(np.ldexp(mantissa, 8)), exponent - 8).astype(np.float32)


def write_safetensors(path, tensors):
    """Reads tensors without the package, which does not support FP8 in numpy."""
    header, data = {}, b""
    for name, (dtype, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class ExportFormats(InteropTest):
    def test_narrow_formats(self):
        source = DATA / "golden/llama/model"
        weights = tensors_of(source)
        for dtype, stored, torch_dtype in (("bf16", "BF16", "bfloat16"), ("fp16", "F16", "float16"), ("fp32", "F32", "float32")):
            with self.subTest(dtype):
                to = self.folder / dtype
                viaduct("convert", "--from", source, "--to", to, "--to-format", "hf", "--dtype", dtype)
                self.assertEqual(json.loads((to / "config.json").read_text())["torch_dtype"], torch_dtype)
                for name, (kind, values) in tensors_of(to).items():
                    self.assertEqual(kind, stored)
                    exact = weights[name][1]
                    expected = {"bf16": to_bf16, "fp16": np.float16, "fp32": np.float32}[dtype](exact)
                    np.testing.assert_array_equal(values, expected, name)

    def test_fp8_blocks(self):
        source = DATA / "golden/llama/model"
        weights, to = tensors_of(source), self.folder / "fp8"
        text = viaduct("convert", "--from", source, "--to", to, "--to-format", "hf", "--dtype", "fp8")
        self.assertRegex(text, r"^fp8: \d+ of \d+ elements were rounded, by [\d.]+ % over all \(L2\) and at most [\d.]+ % of an element that stays above zero \(")
        config = json.loads((to / "config.json").read_text())
        self.assertEqual(config["torch_dtype"], "bfloat16")
        quantization = config["quantization_config"]
        self.assertEqual(quantization["quant_method"], "fp8")
        self.assertEqual(quantization["weight_block_size"], [128, 128])
        self.assertEqual(quantization["modules_to_not_convert"], ["lm_head"])
        tensors = tensors_of(to)
        quantized = [name for name, (kind, _) in tensors.items() if kind == "F8_E4M3"]
        self.assertEqual(len(quantized), 4 * 7)
        decoded = {}
        for name, (kind, values) in tensors.items():
            if name.endswith("_scale_inv"):
                continue
            if kind == "F8_E4M3":
                scales = tensors[name + "_scale_inv"][1]
                self.assertEqual(scales.shape, tuple(-(-size // 128) for size in values.shape))
                wide = np.repeat(np.repeat(scales, 128, 0), 128, 1)[: values.shape[0], : values.shape[1]]
                decoded[name] = E4M3[values] * wide.astype(np.float64)
                exact = weights[name][1].astype(np.float64)
                self.assertLessEqual(np.max(np.abs(decoded[name] - exact)), np.max(wide) * 16.0001)
            else:
                self.assertEqual(kind, "BF16", name)
        # Reading back gives the product rounded to BF16.
        viaduct("convert", "--from", to, "--to", self.folder / "back", "--to-format", "hf")
        config = json.loads((self.folder / "back/config.json").read_text())
        self.assertNotIn("quantization_config", config)
        back = tensors_of(self.folder / "back")
        self.assertEqual(set(back), set(weights))
        for name, values in decoded.items():
            np.testing.assert_array_equal(back[name][1], to_bf16(values), name)
        viaduct("convert", "--from", to, "--to", self.folder / "save")
        viaduct("convert", "--from", self.folder / "save", "--to", self.folder / "again")
        self.assertEqual((self.folder / "again/model.safetensors").read_bytes(), (self.folder / "back/model.safetensors").read_bytes())

    def test_reads_per_tensor_fp8(self):
        source, model = DATA / "golden/qwen2/model", self.folder / "model"
        model.mkdir()
        config = json.loads((source / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "static"}
        (model / "config.json").write_text(json.dumps(config))
        random = np.random.default_rng(1)
        written, expected = {}, {}
        for name, (_, values) in tensors_of(source).items():
            if "_proj.weight" in name:
                codes = random.integers(0, 256, values.shape, dtype=np.uint8)
                codes[(codes & 127) == 127] = 1
                scale = np.float32(random.uniform(1e-3, 1e-2))
                written[name] = ("F8_E4M3", codes)
                written[name + "_scale"] = ("F32", np.array([scale]))
                written[name.replace("weight", "input_scale")] = ("F32", np.array([1], np.float32))
                expected[name] = to_bf16(E4M3[codes] * np.float64(scale))
            else:
                written[name], expected[name] = ("F32", values), values
        write_safetensors(model / "model.safetensors", written)
        viaduct("convert", "--from", model, "--to", self.folder / "save")
        viaduct("convert", "--from", self.folder / "save", "--to", self.folder / "back")
        back = tensors_of(self.folder / "back")
        self.assertEqual(set(back), set(expected))
        for name, values in expected.items():
            np.testing.assert_array_equal(back[name][1], values, name)


if __name__ == "__main__":
    unittest.main()
