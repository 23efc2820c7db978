#!/usr/bin/env bash
# gpu_check.sh [options]: checks and measures the cuda device on a machine with an NVIDIA GPU, within ten minutes (--help lists
# the options). If the machine lacks something that a phase needs, the result says so. Exit status: 0 if no phase failed, 1 if
# one did, or if there is no GPU.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
if ! command -v python3 >/dev/null; then
  echo "gpu_check: needs python3" >&2
  exit 1
fi
exec python3 -B "$root/tools/gpu_check/gpu_check.py" "$@"
