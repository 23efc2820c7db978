#!/usr/bin/env bash
# tests/part.sh notices parts without tests, patterns without tests, tests that did not run, and failures. Its programs here
# are scripts that answer as GoogleTest does.
set -euo pipefail
part_sh=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../part.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# program NAME RAN STATUS: lists three tests, says that RAN tests ran, and ends with STATUS.
program() {
  cat >"$folder/$1" <<EOF
#!/usr/bin/env bash
[[ \$* != *=Missing* ]] || exit 0
[[ \$* != *list_tests* ]] || { printf 'Room.\n  First\n  Second\n  Third\n'; exit 0; }
printf '[==========] $2 tests from 1 test suite ran. (1 ms total)\n'
exit $3
EOF
  chmod +x "$folder/$1"
}
program whole 3 0
program two 2 0
program failing 3 1
printf '#!/bin/sh\n' >"$folder/empty"
chmod +x "$folder/empty"

# expect STATUS TEXT ARGUMENT…: the script ends with this status and its output has the text.
expect() {
  local status=0 output
  output=$("$part_sh" "$folder/$3" "${@:4}" 2>&1) || status=$?
  [[ $status == "$1" && $output == *"$2"* ]] || { echo "part.sh ${*:3}: status $status: $output" >&2; exit 1; }
}
expect 0 '3 tests' whole 0 1
expect 0 '2 tests' two 0 2
expect 1 'two: 2 tests ran, part 0 of 1 has 3' two 0 1
expect 1 'two: 2 tests ran, part 1 of 2 has 1' two 1 2
expect 1 '3 tests' failing 0 1
expect 1 'part 3 of 4 has no test' whole 3 4
expect 1 'part 0 of 1 has no test' empty 0 1
expect 1 'there is no test Missing.*' whole 0 1 'Room.First:Missing.*'
