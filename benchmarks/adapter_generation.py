#!/usr/bin/env python3
"""Times `viaduct generate` with and without an adapter, in turn, and prints the ratio: one text, an adapter with random values on all
linear layers of a llama folder (docs/benchmarks.md).

    chrt -f 10 benchmarks/adapter_generation.py build/release/viaduct MODEL_DIR [--ranks 8 16] [--rounds 3] [--new 128] [SECTION.FIELD=VALUE…]
"""

import argparse
import array
import json
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile


def write_adapter(folder, model, rank):
    """A folder of PEFT: A about as large as at the start of a training, B a hundredth of that."""
    hidden, ffn, heads = model["hidden_size"], model["intermediate_size"], model["num_attention_heads"]
    head = model.get("head_dim") or hidden // heads
    queries, keys = heads * head, (model.get("num_key_value_heads") or heads) * head
    shapes = {"self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden), "self_attn.v_proj": (keys, hidden),
              "self_attn.o_proj": (hidden, queries), "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden), "mlp.down_proj": (hidden, ffn)}
    values, header, data = random.Random(1), {}, bytearray()
    for layer in range(model["num_hidden_layers"]):
        for module, (outputs, inputs) in shapes.items():
            for name, shape, size in (("lora_A", [rank, inputs], inputs**-0.5), ("lora_B", [outputs, rank], 0.01)):
                begin = len(data)
                data += array.array("f", (values.uniform(-size, size) for _ in range(shape[0] * shape[1]))).tobytes()
                header[f"base_model.model.model.layers.{layer}.{module}.{name}.weight"] = {
                    "dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank, "lora_dropout": 0.0, "bias": "none",
        "target_modules": sorted(module.split(".")[1] for module in shapes)}))


def tokens_per_second(options, adapter):
    command = [options.viaduct, "generate", "--model", options.model, "--prompt", "Once upon a time there was", "--max-new-tokens",
               str(options.new), "--temperature", "1", "--json", *(["--adapter", str(adapter)] if adapter else []), *options.overrides]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("viaduct")
    parser.add_argument("model")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--new", type=int, default=128)
    options = parser.parse_args()
    model = json.loads((pathlib.Path(options.model) / "config.json").read_text())
    with tempfile.TemporaryDirectory() as work:
        adapters = {"no adapter": None}
        for rank in options.ranks:
            adapters[f"rank {rank}"] = pathlib.Path(work) / str(rank)
            write_adapter(adapters[f"rank {rank}"], model, rank)
        speeds = {name: [] for name in adapters}
        for _ in range(options.rounds):
            for name, adapter in adapters.items():
                speeds[name].append(tokens_per_second(options, adapter))
        print("| | tokens/s, median | best | of no adapter's, medians | best |\n|---|---|---|---|---|")
        for name, found in speeds.items():
            of, most = statistics.median(found) / statistics.median(speeds["no adapter"]), max(found) / max(speeds["no adapter"])
            print(f"| {name} | {statistics.median(found):.1f} | {max(found):.1f} | {of:.2f} | {most:.2f} |")


if __name__ == "__main__":
    main()
