"""Writes the adapters of models with an encoder that the tests compare with, by PEFT on the folder's own T5:

    ./viaduct.sh oracle encoders --store DIR

DIR/t5_v1_1/model is read; adapter_goldens.py says what is written."""

import argparse
import pathlib
import sys

import peft
import torch
import transformers

import adapter_goldens

SIZE = 0.05  # attention has no scale: with larger elements gradients are large, and their rounding too

# name: model, fields of LoraConfig
ADAPTERS = {
    # Every linear layer of both halves, cross attention included.
    "lora_t5": ("t5_v1_1", {"r": 3, "lora_alpha": 6, "task_type": "SEQ_2_SEQ_LM", "target_modules": ["q", "k", "v", "o", "wi_0", "wi_1", "wo"]}),
    # The decoder alone.
    "dora_t5": ("t5_v1_1", {"r": 2, "lora_alpha": 4, "task_type": "SEQ_2_SEQ_LM", "use_dora": True,
                            "target_modules": r"decoder\..*\.(q|v)"}),
}


def load(folder):
    return transformers.T5ForConditionalGeneration.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)


def batch_of(config, generator):
    """Four pairs; one label in eight is not scored."""
    ids = torch.randint(2, config.vocab_size, (4, 24), generator=generator)
    answers = torch.randint(2, config.vocab_size, (4, 16), generator=generator)
    return {"input_ids": ids, "labels": torch.where(torch.rand(answers.shape, generator=generator) < 0.125, -100, answers)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=pathlib.Path, required=True)
    folder = parser.parse_args().store
    torch.set_num_threads(1)
    for name, (base, fields) in ADAPTERS.items():
        adapter_goldens.store_adapter(name, base, fields, folder, load, batch_of, SIZE)
    print(f"transformers {transformers.__version__}, peft {peft.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    sys.exit(main())
