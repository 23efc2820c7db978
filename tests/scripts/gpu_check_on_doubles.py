#!/usr/bin/env python3
"""gpu_check_on_doubles.py BUILD_FOLDER MODULE: packs tools/gpu_check.sh with the program and the tests of BUILD_FOLDER and MODULE, the
double of the GPU as a library, unpacks it elsewhere, and runs the whole check there with small shapes."""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMI = "#!/bin/sh\necho 'NVIDIA H200, 143771 MiB, 580.65.06, 9.0, 1980 MHz, 00000000:1B:00.0'\n"
# What the machine lacks, or the target.
MAY_BE_SKIPPED = ("memcheck", "racecheck", "ceilings of PyTorch", "PyTorch, gpt2", "PyTorch, llama", "steps beside the cpu, MXFP8",
                  "steps beside the cpu, NVFP4")


def main():
    build, module = Path(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        archive, smi = folder / "check.tar.gz", folder / "nvidia-smi"
        subprocess.run([ROOT / "tools/gpu_check.sh", "--pack", archive, "--viaduct", build / "viaduct", "--library", module,
                        "--tests", build / "tests/gpu/test_on_gpu"], check=True)
        with tarfile.open(archive) as packed:
            packed.extractall(folder)
        smi.write_text(SMI)
        smi.chmod(0o755)
        done = subprocess.run([folder / "gpu_check/tools/gpu_check.sh", "--small", "--minutes", "25"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "OMP_NUM_THREADS": "1"})
        print(done.stdout)
        phases = json.loads((folder / "gpu_check/build/gpu_check.json").read_text())["phases"]
        bad = [name for name, phase in phases.items() if phase["status"] != "done" and not (phase["status"] == "skipped" and name in MAY_BE_SKIPPED)]
        if bad or done.returncode != 0:
            sys.exit(f"exit status {done.returncode}; not done: {', '.join(bad)}")


if __name__ == "__main__":
    main()
