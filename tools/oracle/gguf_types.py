"""Compares the values of quantized GGUF tensors with those of llama.cpp's package `gguf`, bit by bit.

    ./viaduct.sh oracle gguf [--rows N] [--columns N] [--seed N] [TYPE…]

For each type two matrices of a model file: one that the package quantizes, where it can, and one of random bits, scales included (of these,
numbers that are not finite are compared as such). `viaduct convert` makes a Hugging Face folder of the file.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import gguf
import numpy
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from safetensors.numpy import load_file

TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K,
         Type.Q6_K, Type.MXFP4]
HEADS = 4


def random_bits(type_, shape, random):
    """Any bits, which are any codes and scales."""
    elements, size = GGML_QUANT_SIZES[type_]
    return random.integers(0, 256, (shape[0], shape[1] // elements * size), numpy.uint8)


def quantized(type_, shape, random):
    """Ordinary weights in the type, or nothing if the package only reads it."""
    weights = (random.standard_normal(shape) * 0.05).astype(numpy.float32)
    try:
        return gguf.quants.quantize(weights, type_).view(numpy.uint8).reshape(shape[0], -1)
    except NotImplementedError:
        return None


def write(path, type_, shape, random):
    """A file of the family llama, whose gates and ups of each layer are the matrices; returns them by name."""
    rows, columns = shape
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(columns)
    writer.add_block_count(1)
    writer.add_feed_forward_length(rows)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(2)
    writer.add_value_length(2)
    writer.add_rope_dimension_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    made = {}

    def add(name, data):
        writer.add_tensor(name, data, raw_dtype=type_)
        made[name] = data

    def zeros(name, *sizes):
        writer.add_tensor(name, numpy.zeros(sizes, numpy.float32))

    zeros("token_embd.weight", 8, columns)
    for name in ("attn_norm", "ffn_norm"):
        zeros(f"blk.0.{name}.weight", columns)
    # Rows of queries and keys are in another order in these files.
    add("blk.0.attn_q.weight", random_bits(type_, (HEADS * 2, columns), random))
    for name in ("attn_k", "attn_v"):
        zeros(f"blk.0.{name}.weight", HEADS * 2, columns)
    zeros("blk.0.attn_output.weight", columns, HEADS * 2)
    add("blk.0.ffn_gate.weight", random_bits(type_, shape, random))
    up = quantized(type_, shape, random)
    add("blk.0.ffn_up.weight", up if up is not None else random_bits(type_, shape, random))
    zeros("blk.0.ffn_down.weight", columns, rows)
    zeros("output_norm.weight", columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def halves_together(weights):
    """Rows of a head: of neighbours the first ones, then the second ones."""
    return weights.reshape(HEADS, -1, 2, weights.shape[1]).swapaxes(1, 2).reshape(weights.shape)


def compare(viaduct, type_, shape, random):
    """(values, values that differ, seconds of the conversion)"""
    with tempfile.TemporaryDirectory(prefix="viaduct-gguf-") as work:
        work = pathlib.Path(work)
        made = write(work / "m.gguf", type_, shape, random)
        begin = time.perf_counter()
        command = [viaduct, "convert", "--from", work / "m.gguf", "--to", work / "hf", "--dtype", "fp32"]
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        back = load_file(work / "hf" / "model.safetensors")
    values = wrong = 0
    for name, module in (("attn_q", "self_attn.q_proj"), ("ffn_gate", "mlp.gate_proj"), ("ffn_up", "mlp.up_proj")):
        with numpy.errstate(all="ignore"):
            expected = gguf.quants.dequantize(made[f"blk.0.{name}.weight"], type_).astype(numpy.float32)
        if name == "attn_q":
            expected = halves_together(expected)
        found = back[f"model.layers.0.{module}.weight"]
        same = (found.view(numpy.uint32) == numpy.ascontiguousarray(expected).view(numpy.uint32)) | (numpy.isnan(found) & numpy.isnan(expected))
        values += same.size
        wrong += int((~same).sum())
    return values, wrong, seconds


def main():
    parser = argparse.ArgumentParser(prog="oracle gguf", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", nargs="*", metavar="TYPE", help=f"default: all of {', '.join(type_.name for type_ in TYPES)}")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = {type_.name: type_ for type_ in TYPES}
    if unknown := [name for name in arguments.types if name not in names]:
        parser.error(f"unknown types: {', '.join(unknown)}; known are {', '.join(names)}")
    if arguments.columns % 256 != 0:
        parser.error("--columns: blocks have up to 256 elements; give a multiple")
    failed = 0
    for name in arguments.types or names:
        random = numpy.random.default_rng([arguments.seed, int(names[name])])
        try:
            values, wrong, seconds = compare(arguments.viaduct, names[name], (arguments.rows, arguments.columns), random)
        except RuntimeError as refused:
            print(f"{name:6} refused: {refused}")
            failed += 1
            continue
        failed += wrong > 0
        print(f"{name:6} {values:10,} values, {wrong:,} differ ({seconds:.2f} s)", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
