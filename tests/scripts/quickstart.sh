#!/usr/bin/env bash
# quickstart.sh: runs the quickstart of README.md in a copy of the files tracked by git: every command of
# its first block must be known here, and the quickstart must build, train (a few steps) and print text. With a compiler cache
# that has this checkout's objects the build is short.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if ! git -C "$root" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  echo "skipped: $root is no git checkout"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
clone=$folder/viaduct
mkdir "$clone"
# Copies the files of the working tree, committed or not, without deleted ones.
(cd "$root" && git ls-files -z | while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
  tar -c --null -T -) | tar -x -C "$clone"
cd "$clone"
# The same settings as in this build folder, for the cache.
batches=$(grep -h '^VIADUCT_BATCHES:' "$root/build/release/CMakeCache.txt" || true)
export VIADUCT_BATCHES=${batches##*=}

mapfile -t commands < <(awk '/^```bash/ { inside = 1; next } /^```$/ { if (inside) exit } inside { sub(/ *#.*/, ""); print }' README.md)
[[ ${#commands[@]} -ge 2 ]] || { echo "README.md: no first block of commands"; exit 1; }
quickstart=
for command in "${commands[@]}"; do
  case $command in
    ./viaduct.sh\ quickstart) quickstart=$command ;;
    ./viaduct.sh\ test) ;;  # .ci/run does this
    *) echo "README.md: nothing runs '$command'; add it to quickstart.sh"; exit 1 ;;
  esac
done
[[ -n $quickstart ]] || { echo "README.md: its first block has no quickstart"; exit 1; }
grep -q '"./viaduct.sh", "test"' tools/ci/phases.py || { echo ".ci/run does not run ./viaduct.sh test"; exit 1; }

VIADUCT_RUNS=$folder/runs $quickstart train.train_iters=6 scheduler.lr_warmup_iters=2 validation.eval_interval=6 \
  validation.eval_iters=1 checkpoint.save_interval=6 logger.log_interval=3 dist.threads_per_rank=1 </dev/null 2>&1 | tee "$folder/log"

# The output that README.md shows, in this order.
expected=('== the text: 36,000 lines' '== training a tokenizer' '1024 tokens in ' '== tokenizing' ' documents?, [0-9]+ tokens \(uint16\)'
  '== training$' 'step 0 \| validation loss 6\.9' 'step 6/6 \| loss 6\.' 'step 6 \| validation loss 6\.' 'saved checkpoint of step 6'
  '== sampling' '^ROMEO:')
line=0
for pattern in "${expected[@]}"; do
  # No pipe into grep -q: grep ends at its first match, which kills a writer that prints more and fails the pipe.
  found=$(grep -n -m 1 -E -e "$pattern" < <(tail -n +$((line + 1)) "$folder/log") | cut -d: -f1) ||
    { echo "quickstart: no line after line $line like: $pattern"; exit 1; }
  line=$((line + found))
done
[[ $(tail -n +"$line" "$folder/log" | wc -c) -gt 100 ]] || { echo "quickstart: too little text was sampled"; exit 1; }
[[ -f $folder/runs/quickstart/checkpoints/metrics.jsonl ]] || { echo "quickstart: no metrics"; exit 1; }
