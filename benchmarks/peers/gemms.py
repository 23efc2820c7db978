"""Times matrix products of a linear layer in oneDNN, OpenBLAS and Viaduct, alternating, and prints the ratio: `./viaduct.sh peers gemms`.

oneDNN is PyTorch's: BF16 through torch.mm, FP32 through the operator of its mkldnn back end (torch.mm in FP32 is MKL, shown too). OpenBLAS
is the system's, sgemm on all threads. K and N are input and output features, M is the number of tokens; forms are those of `viaduct bench gemm`. The weight
gradient of oneDNN is BF16; Viaduct's is added to an FP32 gradient."""

import argparse
import ctypes
import json
import os
import subprocess
import time
from pathlib import Path

from machine import describe, median, onednn_version

ROOT = Path(__file__).resolve().parent.parent.parent
SHAPES = [(768, 3072), (3072, 768), (768, 2304), (768, 50304), (2048, 8192), (4096, 14336)]
FORMS = ["forward", "data_gradient", "weight_gradient"]


class OpenBlas:
    """cblas_sgemm on the memory of contiguous FP32 tensors."""

    ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112

    def __init__(self, threads):
        name = "libopenblas.so.0"
        try:
            self.library = ctypes.CDLL(name)
        except OSError as error:
            raise SystemExit(f"peers: {name} cannot be loaded ({error}); Debian: libopenblas0-pthread") from error
        self.library.openblas_set_num_threads(threads)
        self.library.openblas_get_config.restype = ctypes.c_char_p
        self.version = self.library.openblas_get_config().decode()

    def product(self, a, a_transposed, b, b_transposed, c):
        rows, columns = c.shape
        inner = a.shape[0] if a_transposed else a.shape[1]
        pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        self.library.cblas_sgemm(self.ROW_MAJOR, self.TRANSPOSED if a_transposed else self.PLAIN,
                                 self.TRANSPOSED if b_transposed else self.PLAIN, rows, columns, inner, ctypes.c_float(1), pointer(a),
                                 a.shape[1], pointer(b), b.shape[1], ctypes.c_float(0), pointer(c), columns)


def libraries(torch, blas, form, dtype, M, N, K):
    """Calls by name that compute the product of fixed random operands."""
    x, w, dy = (torch.randn(shape).to(dtype) for shape in ((M, K), (N, K), (M, N)))
    a, b = {"forward": (x, w.t()), "data_gradient": (dy, w), "weight_gradient": (dy.t(), x)}[form]
    out = torch.empty(a.shape[0], b.shape[1], dtype=dtype)
    calls = {}
    if dtype == torch.bfloat16:
        calls["oneDNN"] = lambda: torch.mm(a, b, out=out)
        return calls
    linear = torch.ops.mkldnn._linear_pointwise
    calls["oneDNN"] = lambda: linear(a, b.t(), None, "none", [], "")
    calls["MKL"] = lambda: torch.mm(a, b, out=out)
    if form == "forward":
        calls["OpenBLAS"] = lambda: blas.product(x, False, w, True, out)
    elif form == "data_gradient":
        calls["OpenBLAS"] = lambda: blas.product(dy, False, w, False, out)
    else:
        calls["OpenBLAS"] = lambda: blas.product(dy, True, x, False, out)
    check(torch, calls, out)
    return calls


def check(torch, calls, out):
    """Checks the direct calls of OpenBLAS against torch.mm."""
    calls["MKL"]()
    expected = out.clone()
    calls["OpenBLAS"]()
    if not torch.allclose(out, expected, rtol=1e-3, atol=1e-2):
        raise SystemExit("peers: OpenBLAS and MKL disagree about a product")


def rate(call, flops, seconds_at_least):
    """TFLOP/s: the median of calls for this many seconds, after a warm-up call."""
    call()
    times = []
    while sum(times) < seconds_at_least or len(times) < 2:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return flops / median(times) * 1e-12


def measure(options, torch, blas, form, name, M, N, K):
    dtype = torch.bfloat16 if name == "bf16" else torch.float32
    calls = libraries(torch, blas, form, dtype, M, N, K)
    flops = 2.0 * M * N * K
    rates = {library: [] for library in calls}
    ours, peaks, ratios = [], [], []
    for _ in range(options.rounds):
        for library, call in calls.items():
            rates[library].append(rate(call, flops, options.seconds))
        done = subprocess.run([options.viaduct, "bench", "gemm", "--m", str(M), "--n", str(N), "--k", str(K), "--form", form, "--dtype",
                               name, "--threads", str(options.threads), "--rounds", str(options.viaduct_rounds), "--json"],
                              stdout=subprocess.PIPE, text=True, check=True)
        document = json.loads(done.stdout)
        ours.append(document["tflops"])
        peaks.append(document["peak_tflops"])
        ratios.append(ours[-1] / max(values[-1] for values in rates.values()))
    return {"form": form, "dtype": name, "M": M, "N": N, "K": K, "libraries": {n: median(v) for n, v in rates.items()},
            "viaduct": median(ours), "kernel": document["kernel"], "peak_tflops": median(peaks), "peak": document["peak"],
            "ratio": median(ratios), "ratios": ratios}


def show(row):
    libraries = ", ".join(f"{name} {tflops:.3f}" for name, tflops in row["libraries"].items())
    print(f"| {row['K']}, {row['N']} | {row['form'].replace('_', ' ')} | {row['dtype']} | {libraries} | {row['viaduct']:.3f} "
          f"({100 * row['viaduct'] / row['peak_tflops']:.0f} %) | {row['ratio']:.2f} ({min(row['ratios']):.2f} to "
          f"{max(row['ratios']):.2f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="viaduct.sh peers gemms", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the binary")
    parser.add_argument("--tokens", type=int, default=2048, help="M (default: %(default)s)")
    parser.add_argument("--shapes", default=",".join(f"{k}x{n}" for k, n in SHAPES), help="KxN[,…] (default: %(default)s)")
    parser.add_argument("--dtypes", default="bf16,fp32", help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of all (default: all cores)")
    parser.add_argument("--quick", action="store_true", help="one short turn of the first three shapes")
    parser.add_argument("--out", help="write all figures as JSON")
    options = parser.parse_args()
    options.seconds, options.viaduct_rounds = 0.3, 9
    shapes = [tuple(int(side) for side in shape.split("x")) for shape in options.shapes.split(",")]
    if options.quick:
        options.rounds, options.seconds, options.viaduct_rounds, shapes = 1, 0.05, 3, shapes[:3]
    blas = OpenBlas(options.threads)
    import torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    print(f"{describe()}; oneDNN {onednn_version(torch)} and MKL of PyTorch {torch.__version__}; {blas.version}; {options.threads} threads; M "
          f"{options.tokens}; {options.rounds} turns; TFLOP/s\n")
    print("| K, N | form | format | libraries | Viaduct (of its peak) | Viaduct / fastest |")
    print("|---|---|---|---|---|---|", flush=True)
    rows = []
    for name in options.dtypes.split(","):
        for K, N in shapes:
            for form in FORMS:
                rows.append(measure(options, torch, blas, form, name, options.tokens, N, K))
                show(rows[-1])
    print(f"\nPeak of Viaduct's last run: {rows[-1]['peak']}, {rows[-1]['peak_tflops']:.3f} TFLOP/s")
    if options.out:
        Path(options.out).write_text(json.dumps({"machine": describe(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
