"""Compares the error of quantized GGUF files with that of llama.cpp's quantizer, from the same weights.

    ./viaduct.sh oracle rounding [--model DIR] [--whole] [--seed N] [FORMAT…]

For each format of `viaduct convert --dtype`: each tensor of the file is dequantized by the package `gguf`, and so is what llama.cpp makes of the FP32
weights in the same type, without an importance matrix. The ratio of the two squared errors, summed over the tensors of a type, must be at most
LIMIT. The weights are a random model's of several distributions, or those of --model. llama.cpp is built from the source package
llama-cpp-python: the part with the quantizers in a minute; with --whole its library, for several minutes, which then quantizes the whole file, and
the types of all tensors and general.file_type must be the same too.
"""

import argparse
import collections
import ctypes
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from safetensors.numpy import save_file

LIMIT = 1.05
# The name of --dtype: llama.cpp's number of the format (llama_ftype).
FORMATS = {"q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18}
PLAIN = (Type.F32, Type.F16)


def build_llama_cpp(folder, whole):
    """The folder with the libraries of llama.cpp, built in `folder` unless they are there."""
    library = "libllama.so" if whole else "libggml-base.so"
    built = folder / "build" / "bin"
    if (built / library).exists():
        return built
    if not glob.glob(str(folder / "llama_cpp_python-*.tar.gz")):
        print("downloads the source package llama-cpp-python", flush=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", "llama-cpp-python",
                        "--dest", folder, "llama-cpp-python"], check=True)
    archive = pathlib.Path(sorted(glob.glob(str(folder / "llama_cpp_python-*.tar.gz")))[-1])
    source = folder / archive.name.removesuffix(".tar.gz") / "vendor" / "llama.cpp"
    if not source.exists():
        subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    print(f"builds {library}", flush=True)
    parts = [f"-DLLAMA_BUILD_{part}=OFF" for part in ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER")]
    subprocess.run(["cmake", "-S", source, "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF", *parts],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder / "build", "--target", "llama" if whole else "ggml-base"], check=True, stdout=subprocess.DEVNULL)
    return built


class Quantizer:
    """llama.cpp's, by its C functions."""

    class Parameters(ctypes.Structure):
        # llama_model_quantize_params begins so; what follows differs between versions, and has its defaults.
        _fields_ = [("threads", ctypes.c_int32), ("format", ctypes.c_int32), ("rest", ctypes.c_char * 512)]

    def __init__(self, libraries, whole):
        base = ctypes.CDLL(libraries / "libggml-base.so", mode=ctypes.RTLD_GLOBAL)
        self.chunk = base.ggml_quantize_chunk
        self.chunk.restype = ctypes.c_size_t
        self.chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        self.llama = ctypes.CDLL(libraries / "libllama.so") if whole else None
        if self.llama:
            self.llama.llama_backend_init()
            self.llama.llama_model_quantize_default_params.restype = self.Parameters
            self.llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(self.Parameters)]
            self.llama.llama_model_quantize.restype = ctypes.c_uint32

    def blocks(self, weights, type_):
        """FP32 [rows, columns] as bytes [rows, …]."""
        rows, columns = weights.shape
        elements, size = GGML_QUANT_SIZES[type_]
        made = numpy.empty((rows, columns // elements * size), numpy.uint8)
        weights = numpy.ascontiguousarray(weights, numpy.float32)
        written = self.chunk(int(type_), weights.ctypes.data, made.ctypes.data, 0, rows, columns, None)
        assert written == made.nbytes, (written, made.nbytes)
        return made

    def file(self, source, target, number):
        parameters = self.llama.llama_model_quantize_default_params()
        parameters.format = number
        if self.llama.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters)) != 0:
            raise RuntimeError(f"llama.cpp does not quantize {source}")


def write_model(folder, random):
    """A Llama whose layers have weights of different distributions."""
    hidden, forward, layers, vocabulary, heads = 512, 1024, 10, 256, 8
    draws = [
        lambda shape: random.standard_normal(shape) * 0.02,
        lambda shape: random.standard_t(3, shape) * 0.02,
        lambda shape: random.laplace(size=shape) * 0.02,
        lambda shape: random.standard_normal(shape) * 0.02 * numpy.exp(0.7 * random.standard_normal(shape[1])),
        lambda shape: random.standard_normal(shape) * numpy.where(random.random(shape) < 0.01, 0.24, 0.02),
        lambda shape: random.standard_normal(shape) * 1e-3,
        lambda shape: random.uniform(-0.05, 0.05, shape),
    ]
    tensors = {"model.norm.weight": numpy.ones(hidden)}
    for name in ("model.embed_tokens", "lm_head"):
        tensors[f"{name}.weight"] = random.standard_normal((vocabulary, hidden)) * 0.02
    for layer in range(layers):
        draw = draws[layer % len(draws)]
        prefix = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = numpy.ones(hidden)
        for name in "qkvo":
            tensors[f"{prefix}self_attn.{name}_proj.weight"] = draw((hidden, hidden))
        for name in ("gate", "up"):
            tensors[f"{prefix}mlp.{name}_proj.weight"] = draw((forward, hidden))
        tensors[f"{prefix}mlp.down_proj.weight"] = draw((hidden, forward))
    folder.mkdir()
    save_file({name: value.astype(numpy.float32) for name, value in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": forward, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": heads, "vocab_size": vocabulary, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32"}))


def convert(viaduct, source, target, *options):
    done = subprocess.run([viaduct, "convert", "--from", source, "--to", target, *options], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"oracle: error: viaduct convert: {done.stderr.strip()}")


def squares(values, weights):
    return float(((values.astype(numpy.float64) - weights) ** 2).sum())


def tensors_of(path):
    reader = gguf.GGUFReader(path)
    return {tensor.name: tensor for tensor in reader.tensors}, int(reader.fields["general.file_type"].contents())


def compare(weights, ours, quantizer, theirs=None):
    """By type: tensors, our squared error, theirs, the largest ratio of a tensor; of `weights` [name] in FP32, `ours` tensors by name. With
    `theirs` the other side is a file's tensors too."""
    found = collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for name, tensor in ours.items():
        if tensor.tensor_type in PLAIN:
            continue
        weight = weights[name]
        made = theirs[name].data if theirs else quantizer.blocks(weight, tensor.tensor_type)
        errors = [squares(gguf.quants.dequantize(data, tensor.tensor_type).reshape(weight.shape), weight) for data in (tensor.data, made)]
        row = found[tensor.tensor_type]
        row[0] += 1
        row[1] += errors[0]
        row[2] += errors[1]
        row[3] = max(row[3], errors[0] / errors[1] if errors[1] > 0 else float(errors[0] > 0))
    return found


def main():
    parser = argparse.ArgumentParser(prog="oracle rounding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"default: all of {', '.join(FORMATS)}")
    parser.add_argument("--model", type=pathlib.Path, help="a model's folder or file instead of random weights")
    parser.add_argument("--whole", action="store_true", help="llama.cpp quantizes the file; compare types too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.formats if name not in FORMATS]:
        parser.error(f"unknown formats: {', '.join(unknown)}; known are {', '.join(FORMATS)}")
    os.makedirs(arguments.folder, exist_ok=True)
    quantizer = Quantizer(build_llama_cpp(arguments.folder.resolve(), arguments.whole), arguments.whole)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="viaduct-rounding-") as work:
        work = pathlib.Path(work)
        model = arguments.model
        if model is None:
            model = work / "model"
            write_model(model, numpy.random.default_rng(arguments.seed))
        convert(arguments.viaduct, model, work / "fp32.gguf", "--dtype", "fp32")
        weights = {name: tensor.data for name, tensor in tensors_of(work / "fp32.gguf")[0].items()}
        for name in arguments.formats or FORMATS:
            path = work / f"{name}.gguf"
            convert(arguments.viaduct, model, path, "--dtype", name)
            ours, file_type = tensors_of(path)
            theirs = None
            if arguments.whole:
                quantizer.file(work / "fp32.gguf", work / "theirs.gguf", FORMATS[name])
                theirs, their_file_type = tensors_of(work / "theirs.gguf")
                others = [f"{key}: {ours[key].tensor_type.name}, llama.cpp {theirs[key].tensor_type.name}" for key in ours
                          if ours[key].tensor_type != theirs[key].tensor_type]
                for text in [*others, *([f"file_type {file_type}, llama.cpp {their_file_type}"] if file_type != their_file_type else [])]:
                    print(f"{name:7} differs: {text}")
                    failed += 1
                if others:
                    theirs = None
            for type_, (count, error, other, worst) in sorted(compare(weights, ours, quantizer, theirs).items()):
                ratio = error / other if other > 0 else 1.0
                over = ratio > LIMIT
                failed += over
                elements = sum(weights[key].size for key, tensor in ours.items() if tensor.tensor_type == type_)
                print(f"{name:7} {type_.name:5} {count:4} tensors, mean squared error {error / elements:.4g}, llama.cpp's {other / elements:.4g}: "
                      f"{ratio:.4f} (one tensor: at most {worst:.4f}){' TOO LARGE' if over else ''}", flush=True)
            path.unlink()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
