"""Writes blocks.txt and model.gguf beside it, and the fuzzer's llama_quantized, with llama.cpp's
package (pip install gguf==0.19.0; it brings numpy).

    TYPE BYTES BITS...      a block of a type of GGUF tensors, and the FP32 bits of its values

Random bits, so that every one of them counts; scales are ordinary, then zero, subnormal and
negative ones. The models are small ones of the family llama with a matrix of every type.
"""

import pathlib

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type

# The FP16 numbers of a block: their offsets. An MXFP4 block begins with an exponent instead.
SCALES = {Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q2_K: [80, 82],
          Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.MXFP4: []}
here = pathlib.Path(__file__).parent


def random_blocks(type_, count, random, scale):
    """Rows of random bits, and scales of about `scale`."""
    elements, size = GGML_QUANT_SIZES[type_]
    blocks = random.integers(0, 256, (count, size), np.uint8)
    spread = {Type.Q2_K: 16, Type.Q3_K: 32, Type.Q4_K: 64, Type.Q5_K: 64, Type.Q6_K: 128}.get(type_, 1)
    for offset in SCALES[type_]:
        numbers = random.uniform(0.5, 1, count) * scale / spread
        blocks[:, offset : offset + 2] = numbers.astype(np.float16).view(np.uint8).reshape(count, 2)
    if type_ == Type.MXFP4:
        blocks[:, 0] = random.integers(119, 122, count)
    return blocks


def lines():
    for type_, offsets in SCALES.items():
        random = np.random.default_rng(int(type_))
        blocks = random_blocks(type_, 2 if GGML_QUANT_SIZES[type_][0] == 256 else 4, random, 1)
        for offset in offsets:
            blocks[0, offset : offset + 2] = np.array([-0.0314], np.float16).view(np.uint8)
            blocks[1, offset : offset + 2] = np.array([3e-6], np.float16).view(np.uint8)
        if type_ == Type.MXFP4:
            blocks[:, 0] = [0, 1, 127, 254]
        for block, values in zip(blocks, gguf.quants.dequantize(blocks, type_)):
            yield " ".join([type_.name, block.tobytes().hex(), *(f"{bits:08x}" for bits in values.view(np.uint32))])


def write_model(path, vocabulary, layers):
    random = np.random.default_rng(7)
    hidden, heads, head, forward = 256, 2, 2, 4
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("quantized")
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(forward)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["<|end|>", "Ġ", *"abcdefghijklmnopqrstuvwxyz.,!?"][:vocabulary])
    writer.add_token_types([3, *[1] * (vocabulary - 1)])
    writer.add_token_merges(["a b"] if vocabulary < 32 else [])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")
    types = iter([Type.Q4_K, Type.Q5_K, Type.Q2_K, Type.Q3_K, Type.Q8_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.MXFP4, Type.Q4_0] * 2)

    def matrix(name, rows, type_=None, gain=0.1):
        type_ = type_ or next(types)
        elements, size = GGML_QUANT_SIZES[type_]
        blocks = random_blocks(type_, rows * hidden // elements, random, gain)
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=type_)

    def narrow(name, columns):
        writer.add_tensor(name, (random.standard_normal((hidden, columns)) * 0.5).astype(np.float16))

    def norm(name):
        writer.add_tensor(name, random.uniform(0.5, 1.5, hidden).astype(np.float32))

    matrix("token_embd.weight", vocabulary, Type.Q6_K, 0.3)
    for layer in range(layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v"):
            matrix(f"{block}{name}.weight", heads * head)
        narrow(block + "attn_output.weight", heads * head)
        norm(block + "ffn_norm.weight")
        matrix(block + "ffn_gate.weight", forward)
        matrix(block + "ffn_up.weight", forward)
        narrow(block + "ffn_down.weight", forward)
    norm("output_norm.weight")
    matrix("output.weight", vocabulary, Type.Q4_K, 0.3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


(here / "blocks.txt").write_text("\n".join(lines()) + "\n")
write_model(here / "model.gguf", vocabulary=32, layers=2)
write_model(here.parents[1] / "fuzz/corpus/gguf/llama_quantized", vocabulary=4, layers=2)
