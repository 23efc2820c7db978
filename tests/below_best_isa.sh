#!/usr/bin/env bash
# below_best_isa.sh ISA VIADUCT PROGRAM…: runs a test program on an instruction set that this machine has and that is not its fastest,
# the program's default. Exit status 77 (skipped) if ISA is the fastest, or the machine does not have it.
set -euo pipefail
isa=$1 viaduct=$2
usable=$("$viaduct" --version | sed -nE 's/^cpu: .*usable here: ([a-z0-9_, ]+) \(.*/\1/p')
[[ -n $usable ]] || { echo "below_best_isa.sh: viaduct --version names no instruction set" >&2; exit 1; }
slower=${usable%, *}
[[ ", $slower," == *", $isa,"* && $slower != "$usable" ]] || exit 77
VIADUCT_TEST_ISA=$isa exec "${@:3}"
