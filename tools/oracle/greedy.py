"""Writes tests/data/generation.json: transformers' greedy continuations of the golden models' first rows, in FP32, plain
and with a repetition penalty, with the part of each row that is the prompt; of models with an encoder, which read it there, their answers.

    build/oracle-newest-env/bin/python tools/oracle/greedy.py
"""

import json
import pathlib

import torch
import transformers
from safetensors.torch import load_file

from reference import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "data" / "golden"
PROMPT, NEW, PENALTY = 12, 40, 1.25
# Of LongRoPE, transformers takes short_factor until a text has more tokens than the original length, then long_factor; Viaduct takes one
# for all texts of a run, by the longest (src/run/longrope_note.h).
OTHER_CHOICE = {"longrope"}


def continued(network, prompt, **settings):
    ids = torch.tensor([prompt])
    if network.config.is_encoder_decoder:
        settings["decoder_start_token_id"] = network.config.decoder_start_token_id
    out = network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, eos_token_id=None,
                           pad_token_id=0, **settings)
    return out[0, 1 if network.config.is_encoder_decoder else len(prompt):].tolist()


def main():
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    models = {}
    for folder in sorted(path for path in GOLDEN.iterdir() if (path / "model" / "config.json").exists()):
        golden = load_file(folder / "golden.safetensors")
        rows = golden.get("input_ids")
        if rows is None or "pixel_values" in golden or "packed" in folder.name or folder.name in OTHER_CHOICE:
            continue
        network = load(folder / "model")
        inputs = {name: golden[name] for name in ("input_ids", "attention_mask", "decoder_input_ids") if name in golden}
        with torch.no_grad():
            difference = (network(**inputs).logits - golden["logits"]).abs().max().item()
        if difference > 1e-4:
            raise RuntimeError(f"{folder.name}: this version of transformers does not compute the results of golden.safetensors ({difference})")
        network.generation_config = transformers.GenerationConfig()
        prompt = rows[0, :PROMPT].tolist()
        models[folder.name] = {"prompt": prompt, "greedy": continued(network, prompt),
                               "penalized": continued(network, prompt, repetition_penalty=PENALTY)}
    text = json.dumps({"transformers": transformers.__version__, "repetition_penalty": PENALTY, "models": models})
    (ROOT / "tests" / "data" / "generation.json").write_text(text.replace('"prompt"', '\n"prompt"').replace('"greedy"', '\n"greedy"') + "\n")


if __name__ == "__main__":
    main()
