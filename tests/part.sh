#!/usr/bin/env bash
# part.sh PROGRAM PART PARTS [LEFT_OUT]: runs a part of a test program in one process: the tests at places PART, PART + PARTS…
# from 0. LEFT_OUT (PATTERN:PATTERN…) names tests that do not run; a pattern without a test is an error. Fails unless as many
# tests ran as the part has, and if it has none.
set -euo pipefail
program=$1 part=$2 parts=$3 left_out=${4:-}
die() {
  echo "part.sh: ${program##*/}: $*" >&2
  exit 1
}
# The number of tests that a filter selects: the lines that begin with two spaces.
count() {
  local list
  list=$("$program" --gtest_list_tests --gtest_filter="$1")
  grep -c '^  ' <<<"$list" || true
}

IFS=: read -ra patterns <<<"$left_out"
for pattern in "${patterns[@]}"; do
  (($(count "$pattern") > 0)) || die "there is no test $pattern"
done
filter="*${left_out:+-$left_out}"
expected=$((($(count "$filter") - part + parts - 1) / parts))
((expected > 0)) || die "part $part of $parts has no test"
# Each test's name is printed before it runs, so that the output of a crash shows it.
ran=$(GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part "$program" --gtest_filter="$filter" 2>&1 | tee -a /dev/stderr |
  sed -nE 's/^\[=+\] ([0-9]+) tests? from .* ran\..*/\1/p')
[[ $ran == "$expected" ]] || die "${ran:-no} tests ran, part $part of $parts has $expected"
