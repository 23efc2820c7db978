"""Finds the GPU and the libraries of this machine."""

import ctypes
import importlib.util
import shutil
import subprocess

# Compute capabilities, from and to, whose GPUs run the kernels of a target (src/hardware/cuda_target.cpp).
TARGETS = {"sm_80": (80, 88), "sm_89": (89, 89), "sm_90a": (90, 90), "sm_100a": (100, 109), "sm_120": (120, 1 << 20)}


def target_of(capability):
    """The target of a GPU of compute capability "10.3"; None if there are no kernels for it."""
    number = int(capability.replace(".", ""))
    return next((name for name, (first, last) in TARGETS.items() if first <= number <= last), None)


def find_gpu():
    """A dictionary that describes the first GPU, or one sentence that says what was found and what is needed."""
    need = "this check needs an NVIDIA GPU of compute capability 8.x, 9.0, 10.x, or 12.0 and newer, with its driver"
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return f"found no GPU (there is no nvidia-smi); {need}"
    query = "name,memory.total,driver_version,compute_cap,clocks.max.sm,pci.bus_id"
    asked = subprocess.run([tool, f"--query-gpu={query}", "--format=csv,noheader"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = asked.stdout.strip().splitlines()
    if asked.returncode != 0 or not lines:
        return f"found no GPU (nvidia-smi: {lines[-1] if lines else 'no GPU'}); {need}"
    name, memory, driver, capability, clock, bus = [part.strip() for part in lines[0].split(",")]
    if target_of(capability) is None:
        return f"found {name} of compute capability {capability}; {need}"
    return {"name": name, "memory": memory, "driver": driver, "capability": capability, "max_sm_clock": clock, "bus": bus, "gpus": len(lines)}


def version(library, function, shape):
    """Calls a version function of a library: one without arguments, or one that fills an int. Returns the reason if that fails."""
    try:
        loaded = ctypes.CDLL(library)
        if shape == "returns":
            call = getattr(loaded, function)
            call.restype = ctypes.c_size_t
            return str(call())
        value = ctypes.c_int()
        getattr(loaded, function)(ctypes.byref(value))
        return str(value.value)
    except (OSError, AttributeError) as reason:
        return f"not found ({str(reason)[:120]})"


def libraries():
    found = {
        "driver (CUDA)": version("libcuda.so.1", "cuDriverGetVersion", "fills"),
        "cuBLASLt": version("libcublasLt.so.13", "cublasLtGetVersion", "returns"),
        "NCCL": version("libnccl.so.2", "ncclGetVersion", "fills"),
        "cuDNN": version("libcudnn.so.9", "cudnnGetVersion", "returns"),
        "compute-sanitizer": shutil.which("compute-sanitizer") or "not found",
        "nvcc": shutil.which("nvcc") or "not found",
        "PyTorch": "installed" if importlib.util.find_spec("torch") else "not found",
    }
    return {"rows": [("libraries", "; ".join(f"{name}: {value}" for name, value in found.items()))], "libraries": found}
