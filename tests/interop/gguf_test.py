"""llama.cpp's package reads GGUF files of `viaduct convert`, and its files are converted back."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

import gguf
import numpy as np
import safetensors.numpy
from gguf.constants import GGMLQuantizationType as Type
from support import BINARY, DATA, InteropTest, viaduct

GOLDEN = {
    "llama": "llama",
    "llama_tied": "llama",
    "llama3_rope": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gpt2": "gpt2",
}
ARCHITECTURES = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}


def weights_of(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def permute(weights, heads):
    """convert_hf_to_gguf.py, LlamaModel.permute."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def as_llama_cpp_stores_it(name, weight, config):
    """Converts a Hugging Face tensor as convert_hf_to_gguf.py does."""
    family = config["model_type"]
    if family in ("llama", "mistral") and ".q_proj." in name:
        return permute(weight, config["num_attention_heads"])
    if family in ("llama", "mistral") and ".k_proj." in name:
        return permute(weight, config["num_key_value_heads"])
    if family.startswith("gemma") and name.endswith("norm.weight"):
        return weight + np.float32(1)
    if family == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
        return weight.transpose(1, 0)
    return weight


class Gguf(InteropTest):
    def convert(self, model, *arguments):
        path = self.folder / "m.gguf"
        path.unlink(missing_ok=True)
        viaduct("convert", "--from", model, "--to", path, *arguments)
        return gguf.GGUFReader(path)

    def test_names_types_and_values(self):
        for model, architecture in GOLDEN.items():
            with self.subTest(model):
                source = DATA / "golden" / model / "model"
                config = json.loads((source / "config.json").read_text())
                reader = self.convert(source)
                field = lambda key: reader.fields[key].contents()
                self.assertEqual(field("general.architecture"), architecture)
                layers = field(architecture + ".block_count")
                names = gguf.get_tensor_name_map(ARCHITECTURES[architecture], layers)
                tensors = {tensor.name: tensor for tensor in reader.tensors}
                expected = {}
                for name, weight in weights_of(source).items():
                    if name.endswith((".attn.bias", ".masked_bias")) or (name == "lm_head.weight" and config.get("tie_word_embeddings", model == "gpt2")):
                        continue
                    stem = names.get_name(name, try_suffixes=(".weight", ".bias"))
                    self.assertIsNotNone(stem, name)
                    expected[stem] = as_llama_cpp_stores_it(name, weight, config)
                self.assertEqual(set(tensors) - {"rope_freqs.weight"}, set(expected))
                for name, weight in expected.items():
                    self.assertEqual(tensors[name].tensor_type, Type.F32, name)
                    self.assertEqual(tuple(reversed(tensors[name].shape)), weight.shape, name)
                    np.testing.assert_array_equal(tensors[name].data.reshape(weight.shape), weight, name)

    def test_keys(self):
        reader = self.convert(DATA / "golden/llama3_rope/model")
        config = json.loads((DATA / "golden/llama3_rope/model/config.json").read_text())
        keys = gguf.Keys
        for key, field in (
            (keys.LLM.CONTEXT_LENGTH, "max_position_embeddings"),
            (keys.LLM.EMBEDDING_LENGTH, "hidden_size"),
            (keys.LLM.BLOCK_COUNT, "num_hidden_layers"),
            (keys.LLM.FEED_FORWARD_LENGTH, "intermediate_size"),
            (keys.LLM.VOCAB_SIZE, "vocab_size"),
            (keys.Attention.HEAD_COUNT, "num_attention_heads"),
            (keys.Attention.HEAD_COUNT_KV, "num_key_value_heads"),
            (keys.Attention.KEY_LENGTH, "head_dim"),
            (keys.Attention.VALUE_LENGTH, "head_dim"),
            (keys.Rope.DIMENSION_COUNT, "head_dim"),
        ):
            self.assertEqual(reader.fields[key.format(arch="llama")].contents(), config[field], key)
        for key, field in ((keys.Attention.LAYERNORM_RMS_EPS, "rms_norm_eps"), (keys.Rope.FREQ_BASE, "rope_theta")):
            self.assertEqual(np.float32(reader.fields[key.format(arch="llama")].contents()), np.float32(config[field]), key)
        # convert_hf_to_gguf.py, LlamaModel.generate_extra_tensors.
        scaling = config["rope_scaling"]
        wavelengths = 2 * np.pi * config["rope_theta"] ** (np.arange(0, 16, 2) / 16)
        low, high, old = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["original_max_position_embeddings"]
        smooth = (old / wavelengths - low) / (high - low)
        blended = 1 / ((1 - smooth) / scaling["factor"] + smooth)
        factors = np.where(wavelengths < old / high, 1, np.where(wavelengths > old / low, scaling["factor"], blended))
        stored = next(tensor.data for tensor in reader.tensors if tensor.name == "rope_freqs.weight")
        np.testing.assert_allclose(stored, factors, rtol=1e-5)
        gemma = self.convert(DATA / "golden/gemma2/model").fields
        self.assertEqual(gemma[keys.Attention.SLIDING_WINDOW.format(arch="gemma2")].contents(), 5)
        self.assertEqual(gemma[keys.LLM.ATTN_LOGIT_SOFTCAPPING.format(arch="gemma2")].contents(), 2.0)
        self.assertEqual(gemma[keys.LLM.FINAL_LOGIT_SOFTCAPPING.format(arch="gemma2")].contents(), 3.0)
        yarn = self.convert(DATA / "golden/yarn/model").fields
        self.assertEqual(yarn[keys.Rope.SCALING_TYPE.format(arch="llama")].contents(), gguf.RopeScalingType.YARN.value)

    def test_q8_0_and_narrow_formats_are_the_packages(self):
        source = DATA / "golden/qwen2/model"
        weights = weights_of(source)
        for dtype, type_ in (("q8_0", Type.Q8_0), ("fp16", Type.F16), ("bf16", Type.BF16)):
            with self.subTest(dtype):
                tensors = {tensor.name: tensor for tensor in self.convert(source, "--dtype", dtype).tensors}
                for layer in range(4):
                    for ours, theirs in (("attn_q", "self_attn.q_proj"), ("ffn_down", "mlp.down_proj")):
                        tensor = tensors[f"blk.{layer}.{ours}.weight"]
                        weight = weights[f"model.layers.{layer}.{theirs}.weight"]
                        self.assertEqual(tensor.tensor_type, type_)
                        packed = gguf.quants.quantize(weight, type_)
                        np.testing.assert_array_equal(tensor.data.view(np.uint8).ravel(), packed.view(np.uint8).ravel())
                self.assertEqual(tensors["blk.0.attn_q.bias"].tensor_type, Type.F32)

    def test_q8_0_is_read_as_the_package_decodes_it(self):
        source = DATA / "golden/qwen2/model"
        tensors = {tensor.name: tensor for tensor in self.convert(source, "--dtype", "q8_0").tensors}
        viaduct("convert", "--from", self.folder / "m.gguf", "--to", self.folder / "back")
        back = weights_of(self.folder / "back")
        for layer in range(4):
            tensor = tensors[f"blk.{layer}.ffn_up.weight"]
            np.testing.assert_array_equal(back[f"model.layers.{layer}.mlp.up_proj.weight"], gguf.quants.dequantize(tensor.data, Type.Q8_0))

    def test_searched_types_are_read_as_the_package_decodes_them(self):
        source = DATA / "gguf_blocks/model.gguf"
        types = {"q4_0": Type.Q4_0, "q4_1": Type.Q4_1, "q5_0": Type.Q5_0, "q5_1": Type.Q5_1, "q4_k_m": Type.Q4_K, "q5_k_m": Type.Q5_K, "q6_k": Type.Q6_K}
        for dtype, type_ in types.items():
            with self.subTest(dtype):
                reader = self.convert(source, "--dtype", dtype)
                self.assertEqual(gguf.LlamaFileType(reader.fields["general.file_type"].contents()).name, "MOSTLY_" + dtype.upper())
                self.assertEqual(reader.fields["general.quantization_version"].contents(), gguf.GGML_QUANT_VERSION)
                tensors = {tensor.name: tensor for tensor in reader.tensors}
                self.assertEqual(tensors["output.weight"].tensor_type, Type.Q6_K)
                viaduct("convert", "--from", self.folder / "m.gguf", "--to", self.folder / dtype)
                back = weights_of(self.folder / dtype)
                for layer in range(2):
                    tensor = tensors[f"blk.{layer}.ffn_up.weight"]
                    self.assertEqual(tensor.tensor_type, type_)
                    np.testing.assert_array_equal(back[f"model.layers.{layer}.mlp.up_proj.weight"], gguf.quants.dequantize(tensor.data, type_))

    def test_every_type_is_read_as_the_package_decodes_it(self):
        oracle = pathlib.Path(__file__).resolve().parents[2] / "tools/oracle/gguf_types.py"
        done = subprocess.run([sys.executable, "-B", oracle, "--viaduct", BINARY, "--rows", "8", "--columns", "256"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count(" 0 differ"), 14, done.stdout)

    def test_reads_a_file_of_the_package(self):
        source = DATA / "golden/llama_tied/model"
        config = json.loads((source / "config.json").read_text())
        path = self.folder / "theirs.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_block_count(config["num_hidden_layers"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_rope_freq_base(config.get("rope_theta", 10000.0))
        if "head_dim" in config:
            writer.add_key_length(config["head_dim"])
            writer.add_value_length(config["head_dim"])
            writer.add_rope_dimension_count(config["head_dim"])
        writer.add_bos_token_id(config["bos_token_id"])
        writer.add_eos_token_id(config["eos_token_id"])
        names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
        weights = weights_of(source)
        for name, weight in weights.items():
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(as_llama_cpp_stores_it(name, weight, config)))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        viaduct("convert", "--from", path, "--to", self.folder / "back")
        back = weights_of(self.folder / "back")
        self.assertEqual(set(back), set(weights))
        for name, weight in weights.items():
            np.testing.assert_array_equal(back[name], weight, name)
        read = json.loads((self.folder / "back/config.json").read_text())
        for field in ("hidden_size", "num_hidden_layers", "num_key_value_heads", "rms_norm_eps", "bos_token_id", "eos_token_id", "tie_word_embeddings"):
            self.assertEqual(read[field], config[field], field)

    def test_tokenizer_and_the_same_text(self):
        model = self.folder / "model"
        shutil.copytree(DATA / "golden/gpt2/model", model)
        (self.folder / "text").write_text("the cat and the hat and the rat")
        viaduct("tokenizer", "train", "--input", self.folder / "text", "--vocab-size", 262, "--output", model)
        fields = self.convert(model).fields
        tokens = fields[gguf.Keys.Tokenizer.LIST].contents()
        types = fields[gguf.Keys.Tokenizer.TOKEN_TYPE].contents()
        written = json.loads((model / "tokenizer.json").read_text())
        for token, number in written["model"]["vocab"].items():
            self.assertEqual(tokens[number], token)
        self.assertEqual(types[0], gguf.TokenType.CONTROL)
        self.assertEqual(len(tokens), 512)
        self.assertEqual(fields[gguf.Keys.Tokenizer.MERGES].contents(), written["model"]["merges"])
        self.assertEqual(fields[gguf.Keys.Tokenizer.PRE].contents(), "gpt-2")
        viaduct("convert", "--from", self.folder / "m.gguf", "--to", self.folder / "back")
        texts = [
            viaduct("generate", "--model", form, "--prompt", "the ", "--temperature", 0, "--max-new-tokens", 16)
            for form in (model, self.folder / "back")
        ]
        self.assertEqual(texts[0], texts[1])


if __name__ == "__main__":
    unittest.main()
