#!/usr/bin/env bash
# below_best_isa.sh ISA VIADUCT PROGRAM…: runs a test program on an instruction set below this machine's best, which is the program's
# default. Exit status 77 (skipped) if ISA is the machine's best.
set -euo pipefail
isa=$1 viaduct=$2
order=(portable avx2 avx512 avx512_bf16 amx)
place() { for i in "${!order[@]}"; do [[ ${order[i]} != "$1" ]] || echo "$i"; done; }
best=$("$viaduct" --version | sed -nE 's/^cpu: .*usable here: (.*, )?([a-z0-9_]+) \(.*/\2/p')
[[ -n $best ]] || { echo "below_best_isa.sh: viaduct --version names no instruction set" >&2; exit 1; }
[[ $(place "$isa") -lt $(place "$best") ]] || exit 77
VIADUCT_TEST_ISA=$isa exec "${@:3}"
