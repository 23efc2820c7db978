"""Finds the GPU and the libraries of this machine."""

import ctypes
import functools
import os
import shutil
import subprocess
import sys

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


def libraries_of(viaduct, environment):
    """What `viaduct version` says of each library: the file that it takes, of the toolkit, of Python's wheels or of the loader's path."""
    asked = subprocess.run([viaduct, "version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, timeout=15)
    return dict(line.split(": ", 1) for line in asked.stdout.splitlines() if ": " in line)


def libraries(viaduct, environment):
    said = libraries_of(viaduct, environment)
    found = {
        "driver (CUDA)": version("libcuda.so.1", "cuDriverGetVersion", "fills"),
        **{name: said.get(name, "viaduct version does not say") for name in ("cuda", "nccl", "libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2")},
        "compute-sanitizer": shutil.which("compute-sanitizer") or "not found",
        "nvcc": shutil.which("nvcc") or "not found",
        "PyTorch": f"of {torch_python()}" if torch_python() else "not found",
    }
    return {"rows": [("libraries", "; ".join(f"{name}: {value}" for name, value in found.items()))], "libraries": found}


@functools.cache
def torch_python():
    """A Python that has PyTorch: this one, VIRTUAL_ENV's, or one in PATH; None if there is none."""
    folders = [os.path.join(os.environ["VIRTUAL_ENV"], "bin")] if "VIRTUAL_ENV" in os.environ else []
    candidates = [sys.executable, *(os.path.join(folder, "python3") for folder in [*folders, *os.environ.get("PATH", "").split(os.pathsep)])]
    look = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    for python in dict.fromkeys(os.path.realpath(each) if each == sys.executable else each for each in candidates if os.access(each, os.X_OK)):
        if subprocess.run([python, "-c", look], capture_output=True).returncode == 0:
            return python
    return None
