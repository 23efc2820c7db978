"""Writes the small models with images that the tests compare with: transformers' logits, loss and gradients of one batch, and ten steps of
AdamW; and adapters on two of them, with PEFT's.

    ./viaduct.sh oracle images --store DIR

DIR/CASE/model is the folder as transformers saves it, DIR/CASE/golden.safetensors the batch and its numbers (gradients under the names of
the folder's weights, parameters without one left out), DIR/CASE/train.safetensors ten batches with loss and gradient norm of each step.
Adapters: adapter_goldens.py.
"""

import argparse
import pathlib
import sys

import peft
import safetensors.torch
import torch
import transformers

import adapter_goldens

TOKEN = 5  # stands for each row of an image


def text(model_type, **fields):
    return {"model_type": model_type, "vocab_size": 48, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, **fields}


def tower(model_type, **fields):
    return {"model_type": model_type, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2,
            "image_size": 12, "patch_size": 6, **fields}


SLIDING, FULL = "sliding_attention", "full_attention"
GEMMA = {"model_type": "gemma3_text", "vocab_size": 48, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "query_pre_attn_scalar": 10, "max_position_embeddings": 64,
         "sliding_window": 4, "layer_types": [SLIDING, FULL, SLIDING], "rms_norm_eps": 1e-6, "pad_token_id": 0}

# name: fields of LlavaConfig or Gemma3Config
CASES = {
    # The last block of the tower, and the norm after it, are not read.
    "llava_clip": {"text_config": text("llama", head_dim=6), "vision_config": tower("clip_vision_model", projection_dim=8),
                   "vision_feature_layer": -2, "vision_feature_select_strategy": "default"},
    # Two layers side by side, all their tokens, a pooling head that is not read; images of 13 pixels, whose last line is in no patch.
    "llava_siglip": {"text_config": text("qwen2", tie_word_embeddings=True),
                     "vision_config": tower("siglip_vision_model", image_size=13), "vision_feature_layer": [1, -1],
                     "vision_feature_select_strategy": "full", "projector_hidden_act": "gelu", "multimodal_projector_bias": False,
                     "tie_word_embeddings": True},
    # Squares of 2 x 2 patches; a window that is shorter than an image; two images side by side, which see each other.
    "gemma3_images": {"text_config": GEMMA, "vision_config": tower("siglip_vision_model", num_hidden_layers=2, image_size=12, patch_size=2,
                                                                   vision_use_head=False),
                      "mm_tokens_per_image": 9},
}

# name: model, fields of LoraConfig
ADAPTERS = {
    # Every linear layer, those of the tower's block that nothing reads too.
    "lora_llava_clip": ("llava_clip", {"r": 3, "lora_alpha": 6, "target_modules": "all-linear"}),
    # Names that tower and text model have both, and some of the tower's alone.
    "dora_gemma3_images": ("gemma3_images", {"r": 2, "lora_alpha": 4, "use_dora": True, "target_modules": ["q_proj", "v_proj", "fc2"]}),
}


def rows_of(config):
    if config.model_type == "gemma3":
        return config.mm_tokens_per_image
    side = config.vision_config.image_size // config.vision_config.patch_size
    tokens = side * side + (config.vision_config.model_type == "clip_vision_model")
    return tokens - (config.vision_feature_select_strategy == "default")


def batch_of(config, generator):
    """Three rows with two images, none and one; one label in eight is not scored, and none of an image's tokens."""
    length, rows = 24, rows_of(config)
    gemma = config.model_type == "gemma3"
    ids = torch.randint(TOKEN + 1, config.text_config.vocab_size, (3, length), generator=generator)
    for row, begin in ((0, 1), (0, 1 + rows if gemma else 3 + rows), (2, 6)):
        ids[row, begin:begin + rows] = TOKEN
    labels = torch.where(torch.rand(ids.shape, generator=generator) < 0.125, -100, ids)
    labels[ids == TOKEN] = -100
    side = config.vision_config.image_size
    batch = {"input_ids": ids, "labels": labels, "pixel_values": torch.randn(3, 3, side, side, generator=generator)}
    return {**batch, "token_type_ids": (ids == TOKEN).long()} if gemma else batch


@torch.no_grad()
def randomize(model, generator):
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name and name.endswith("weight") or "layrnorm.weight" in name:
            stored_minus_one = type(model).__name__.startswith("Gemma3") and ".encoder." not in name and "post_layernorm" not in name
            parameter.copy_((0 if stored_minus_one else 1) + 0.1 * noise)
        elif name.endswith("bias") and parameter.dim() == 1:
            parameter.copy_(0.05 * noise)
        else:
            parameter.copy_(0.2 * noise)


def stored_names(model, folder):
    """From the names of parameters to those of the folder, by their values."""
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    names = {}
    for name, parameter in model.named_parameters():
        equal = [one for one, tensor in stored.items() if tensor.shape == parameter.shape and torch.equal(tensor, parameter)]
        if len(equal) != 1:
            raise RuntimeError(f"{name} is {equal} in {folder}")
        names[name] = equal[0]
    return names


def load(folder):
    return transformers.AutoModelForImageTextToText.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)


def store(name, fields, folder):
    generator = torch.Generator().manual_seed(20261129)
    gemma = "mm_tokens_per_image" in fields
    kind = "Gemma3" if gemma else "Llava"
    config = getattr(transformers, kind + "Config")(image_token_index=TOKEN, **fields)
    if not gemma:
        config.image_seq_length = rows_of(config)
    model = getattr(transformers, kind + "ForConditionalGeneration")._from_config(config, attn_implementation="eager").eval()
    randomize(model, generator)
    model.save_pretrained(folder / name / "model")
    names = stored_names(model, folder / name / "model")
    batch = batch_of(config, generator)
    out = adapter_goldens.run(model, batch)
    golden = {**batch, "logits": out.logits.detach(), "loss": out.loss.detach()}
    for parameter, tensor in model.named_parameters():
        if tensor.grad is not None:
            golden[f"grad.{names[parameter]}"] = tensor.grad.clone()
    safetensors.torch.save_file({key: value.contiguous() for key, value in golden.items()}, folder / name / "golden.safetensors")
    safetensors.torch.save_file(adapter_goldens.steps(model, lambda: batch_of(config, generator)), folder / name / "train.safetensors")
    print(f"{name}: loss {out.loss.item():.6f}, {sum(key.startswith('grad.') for key in golden)} gradients")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=pathlib.Path, required=True)
    folder = parser.parse_args().store
    torch.set_num_threads(1)
    for name, fields in CASES.items():
        store(name, fields, folder)
    for name, (base, fields) in ADAPTERS.items():
        adapter_goldens.store_adapter(name, base, fields, folder, load, batch_of)
    print(f"transformers {transformers.__version__}, peft {peft.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    sys.exit(main())
