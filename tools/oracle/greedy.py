"""Writes tests/data/generation.json: what transformers' greedy generation continues the golden models' first rows with, in FP32, plain
and with a repetition penalty, and what of each row's prompt the tokens follow.

    build/oracle-env/bin/python tools/oracle/greedy.py
"""

import json
import pathlib

import torch
import transformers
from safetensors.torch import load_file

from reference import default_attention, load

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "data" / "golden"
PROMPT, NEW, PENALTY = 12, 40, 1.25


def continued(network, prompt, **settings):
    ids = torch.tensor([prompt])
    out = network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, eos_token_id=None,
                           pad_token_id=0, **settings)
    return out[0, len(prompt):].tolist()


def main():
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    models = {}
    for folder in sorted(path for path in GOLDEN.iterdir() if (path / "model" / "config.json").exists()):
        rows = load_file(folder / "golden.safetensors").get("input_ids")
        if rows is None or "packed" in folder.name:
            continue
        config = transformers.AutoConfig.from_pretrained(folder / "model")
        network = load(folder / "model", attention=default_attention(config))
        network.generation_config = transformers.GenerationConfig()
        prompt = rows[0, :PROMPT].tolist()
        models[folder.name] = {"prompt": prompt, "greedy": continued(network, prompt),
                               "penalized": continued(network, prompt, repetition_penalty=PENALTY)}
    text = json.dumps({"transformers": transformers.__version__, "repetition_penalty": PENALTY, "models": models})
    (ROOT / "tests" / "data" / "generation.json").write_text(text.replace('"prompt"', '\n"prompt"').replace('"greedy"', '\n"greedy"') + "\n")


if __name__ == "__main__":
    main()
