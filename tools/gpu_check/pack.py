"""Packs what a check needs for a machine that has a GPU, a driver and CUDA's libraries, but no checkout of this project."""

import subprocess
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60 << 20  # bytes
# Of the machine: the loader, the C library, and what belongs to its driver and toolkit.
LEFT_THERE = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libcuda", "libcublas", "libcudnn", "libnccl")


def linked(program):
    """The shared libraries that the program links, but for those of every machine."""
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    parts = [line.split() for line in said.splitlines()]
    missing = [words[0] for words in parts if "not found" in " ".join(words) and not words[0].startswith(LEFT_THERE)]
    if missing:
        raise OSError(f"{program} links {', '.join(missing)}, which this machine lacks")
    return {words[0]: Path(words[2]) for words in parts if len(words) > 2 and words[1] == "=>" and not words[0].startswith(LEFT_THERE) and words[2] != "not"}


def pack(options):
    """Writes options.pack: an archive whose folder has this checkout's paths, so that its tools/gpu_check.sh finds all by default."""
    programs = {"build/release/viaduct": options.viaduct, "build/release/tests/gpu/test_on_gpu": options.tests,
                "build/cuda/libviaduct_cuda.so": options.library}
    for path in programs.values():
        if not Path(path).exists():
            print(f"gpu_check: {path} does not exist: build it first")
            return 1
    with tempfile.TemporaryDirectory() as folder, tarfile.open(options.pack, "w:gz", compresslevel=6) as archive:
        libraries = {}
        for name, path in programs.items():
            stripped = Path(folder) / Path(name).name
            subprocess.run(["strip", "--strip-unneeded", "-o", stripped, path], check=True)
            archive.add(stripped, f"gpu_check/{name}")
            libraries |= linked(path)
        for name, path in sorted(libraries.items()):
            archive.add(path.resolve(), f"gpu_check/lib/{name}")
        for path in [ROOT / "tools/gpu_check.sh", *sorted((ROOT / "tools/gpu_check").glob("*.py"))]:
            archive.add(path, f"gpu_check/{path.relative_to(ROOT)}")
    size = Path(options.pack).stat().st_size
    if size > LIMIT:
        print(f"gpu_check: {options.pack} has {size} bytes, the limit is {LIMIT}")
        return 1
    print(f"gpu_check: {options.pack}: {size} bytes. On the machine with the GPU: tar xf {Path(options.pack).name} && gpu_check/tools/gpu_check.sh")
    return 0
