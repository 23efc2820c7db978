#!/usr/bin/env bash
# below_best_isa.sh ISA VIADUCT PROGRAM [FILTER]: runs a test program, or the tests that FILTER names (PATTERN:PATTERN…), on an
# instruction set below this machine's best, which is the program's default. Exit status 77 (skipped) if ISA is the machine's best.
# A pattern without a test is an error.
set -euo pipefail
isa=$1 viaduct=$2 program=$3 filter=${4:-*}
order=(portable avx2 avx512 avx512_bf16 amx)
place() { for i in "${!order[@]}"; do [[ ${order[i]} != "$1" ]] || echo "$i"; done; }
best=$("$viaduct" --version | sed -nE 's/^cpu: .*usable here: (.*, )?([a-z0-9_]+) \(.*/\2/p')
[[ -n $best ]] || { echo "below_best_isa.sh: viaduct --version names no instruction set" >&2; exit 1; }
[[ $(place "$isa") -lt $(place "$best") ]] || exit 77
IFS=: read -ra patterns <<<"$filter"
for pattern in "${patterns[@]}"; do
  [[ $("$program" --gtest_list_tests --gtest_filter="$pattern") == *$'\n  '* ]] ||
    { echo "below_best_isa.sh: ${program##*/} has no test $pattern" >&2; exit 1; }
done
VIADUCT_TEST_ISA=$isa exec "$program" --gtest_brief=1 --gtest_filter="$filter"
