#!/usr/bin/env bash
# expect_failure.sh STATUS TEXT COMMAND…: checks that COMMAND ends within 30 seconds with STATUS (0: any but success), and prints TEXT on
# stderr exactly once and no other error of the program.
set -uo pipefail
status=$1 text=$2
shift 2
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
timeout 30 "$@" 2>"$errors"
found=$?
grep -q 'skipped: there is no mpirun' "$errors" && exit 0
cat "$errors"
[[ $found -ne 124 ]] || { echo "it did not end"; exit 1; }
if [[ $status -eq 0 ]]; then
  [[ $found -ne 0 ]] || { echo "expected a failing status"; exit 1; }
else
  [[ $found -eq $status ]] || { echo "expected status $status, got $found"; exit 1; }
fi
times=$(grep -cE -- "$text" "$errors")
[[ $times -eq 1 ]] || { echo "expected '$text' once, found it $times times"; exit 1; }
others=$(grep -E '(faults|viaduct): error' "$errors" | grep -cvE -- "$text|another problem")
[[ $others -eq 0 ]] || { echo "expected no other error"; exit 1; }
