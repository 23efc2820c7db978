"""Times training steps of models with images in `transformers` and Viaduct, alternating, and prints the ratio: `./viaduct.sh peers images`
(docs/benchmarks.md). A row is an image and text behind it, whose tokens alone are scored.

llava_40m:  LLaVA's: a CLIP tower whose last block is not read, a projector of two layers, a Llama text model.
gemma3_40m: Gemma 3's: a SigLIP tower, pooled to 64 places of a row, a text model with windows whose images see themselves whole."""

import folders

ROWS, LENGTH, VOCABULARY = 4, 512, 8192


def llava():
    from transformers import LlavaConfig

    text = {"model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8,
            "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": LENGTH}
    vision = {"model_type": "clip_vision_model", "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 6,
              "image_size": 224, "patch_size": 16, "projection_dim": 384}
    return LlavaConfig(text_config=text, vision_config=vision, vision_feature_layer=-2, vision_feature_select_strategy="default",
                       image_token_index=VOCABULARY - 1, image_seq_length=196, architectures=["LlavaForConditionalGeneration"])


def gemma3():
    from transformers import Gemma3Config

    text = {"model_type": "gemma3_text", "vocab_size": VOCABULARY, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128, "query_pre_attn_scalar": 128, "sliding_window": 256,
            "layer_types": ["sliding_attention"] * 5 + ["full_attention"], "max_position_embeddings": LENGTH, "pad_token_id": 0}
    vision = {"model_type": "siglip_vision_model", "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6,
              "num_attention_heads": 6, "image_size": 224, "patch_size": 14, "vision_use_head": False}
    return Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=64, image_token_index=VOCABULARY - 1,
                        architectures=["Gemma3ForConditionalGeneration"])


def batch(config):
    """Rows that begin with an image, as those of `bench step` do."""
    import torch

    gemma = config.model_type == "gemma3"
    places = config.mm_tokens_per_image if gemma else config.image_seq_length
    side = config.vision_config.image_size
    ids = torch.randint(1, VOCABULARY - 1, (ROWS, LENGTH))
    ids[:, :places] = VOCABULARY - 1
    labels = ids.masked_fill(ids == VOCABULARY - 1, -100)
    found = {"input_ids": ids, "labels": labels, "pixel_values": torch.rand(ROWS, 3, side, side) * 2 - 1}
    return {**found, "token_type_ids": (ids == VOCABULARY - 1).long()} if gemma else found


CASES = {name: {"config": config, "batch": batch, "rows": ROWS, "model": {"seq_length": LENGTH}}
         for name, config in (("llava_40m", llava), ("gemma3_40m", gemma3))}

if __name__ == "__main__":
    folders.main("images", CASES, f"{__doc__}\n\n{folders.__doc__}")
