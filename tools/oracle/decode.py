"""Tokens/s of greedy generation in BF16 compared with transformers on a model folder, alternating rounds, medians.

    build/oracle-env/bin/python tools/oracle/decode.py MODEL_DIR --viaduct build/release/viaduct [--new 64] [--rounds 3] [--batches 1,8,32]

Both continue the same prompts by the same number of tokens. The time includes the prompts, but not loading the weights. Both use all cores.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
import transformers

PROMPT = "The old lighthouse at the end of the bay had not been lit for years, and yet"


def viaduct_rate(arguments, prompts, batch):
    command = [arguments.viaduct, "generate", "--model", arguments.model, "--prompt-file", prompts, "--max-new-tokens", arguments.new,
               "--temperature", 0, "--batch-size", batch, "--json", "mixed_precision=bf16_mixed"]
    lines = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout.splitlines()
    texts = [json.loads(line) for line in lines]
    if any(len(text["tokens"]) != arguments.new for text in texts):
        raise RuntimeError("a text ended early: choose another prompt")
    return texts[-1]["tokens_per_second"]


def transformers_rate(network, ids, new):
    begin = time.perf_counter()
    with torch.no_grad():
        network.generate(ids, attention_mask=torch.ones_like(ids), min_new_tokens=new, max_new_tokens=new, do_sample=False)
    return ids.shape[0] * new / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--viaduct", required=True)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", default="1,8,32")
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    network = transformers.AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.bfloat16).eval()
    print(f"{torch.get_num_threads()} threads, {arguments.new} new tokens, median of {arguments.rounds} rounds, tokens/s of all texts")
    for batch in map(int, arguments.batches.split(",")):
        ids = torch.tensor([tokenizer(PROMPT)["input_ids"]] * batch)
        with tempfile.TemporaryDirectory() as work:
            prompts = pathlib.Path(work) / "prompts.txt"
            prompts.write_text(f"{PROMPT}\n" * batch)
            transformers_rate(network, ids, 4)
            rates = [(viaduct_rate(arguments, prompts, batch), transformers_rate(network, ids, arguments.new)) for _ in range(arguments.rounds)]
        ours, theirs = (statistics.median(side) for side in zip(*rates, strict=True))
        print(f"batch {batch:3}: viaduct {ours:8.1f}, transformers {theirs:8.1f}, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
