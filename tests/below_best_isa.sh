#!/usr/bin/env bash
# below_best_isa.sh ISA VIADUCT PROGRAM [FILTER]: runs a test program, or the tests that FILTER names (PATTERN:PATTERN…), on an
# instruction set that this machine has and that is not its fastest, the program's default. Exit status 77 (skipped) if ISA is the
# fastest, or the machine does not have it. A pattern without a test is an error.
set -euo pipefail
isa=$1 viaduct=$2 program=$3 filter=${4:-*}
usable=$("$viaduct" --version | sed -nE 's/^cpu: .*usable here: ([a-z0-9_, ]+) \(.*/\1/p')
[[ -n $usable ]] || { echo "below_best_isa.sh: viaduct --version names no instruction set" >&2; exit 1; }
slower=${usable%, *}
[[ ", $slower," == *", $isa,"* && $slower != "$usable" ]] || exit 77
IFS=: read -ra patterns <<<"$filter"
for pattern in "${patterns[@]}"; do
  [[ $("$program" --gtest_list_tests --gtest_filter="$pattern") == *$'\n  '* ]] ||
    { echo "below_best_isa.sh: ${program##*/} has no test $pattern" >&2; exit 1; }
done
VIADUCT_TEST_ISA=$isa exec "$program" --gtest_brief=1 --gtest_filter="$filter"
