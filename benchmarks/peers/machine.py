"""Describes the machine, the library versions and the allocator for published figures."""

import datetime
import os
import re
from pathlib import Path


def cpu_name():
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found.group(1) if found else "unknown CPU"


def describe():
    flags = Path("/proc/cpuinfo").read_text()
    kinds = [name for flag, name in (("avx512f", "AVX-512"), ("avx512_bf16", "AVX512-BF16"), ("amx_bf16", "AMX")) if flag in flags]
    load = os.getloadavg()[0]
    return (f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, {cpu_name()} ({', '.join(kinds) or 'AVX2'}), "
            f"{os.cpu_count()} cores, load before the run {load:.1f}")


def jemalloc():
    """Path of jemalloc, or None if it is not installed (Debian: libjemalloc2); folders of LD_LIBRARY_PATH come first."""
    own = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for folder in (*own, "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        path = Path(folder, "libjemalloc.so.2")
        if path.exists():
            return str(path)
    return None


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def onednn_version(torch):
    return next((line.split()[3] for line in torch.__config__.show().splitlines() if "MKL-DNN" in line), "unknown")
