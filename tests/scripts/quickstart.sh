#!/usr/bin/env bash
# quickstart.sh: runs the quickstart of README.md in a copy of the files tracked by git: every command of
# its first block must be known here, and the quickstart must build, train (a few steps) and print text. Its model is then fine-tuned
# by ./viaduct.sh finetune. With a compiler cache that has this checkout's objects the build is short.
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
quickstart= finetune=
for command in "${commands[@]}"; do
  case $command in
    ./viaduct.sh\ quickstart) quickstart=$command ;;
    ./viaduct.sh\ finetune) finetune=$command ;;
    ./viaduct.sh\ test) ;;  # .ci/run does this
    *) echo "README.md: nothing runs '$command'; add it to quickstart.sh"; exit 1 ;;
  esac
done
[[ -n $quickstart && -n $finetune ]] || { echo "README.md: its first block has no quickstart, or no finetune"; exit 1; }
grep -q '"./viaduct.sh", "test"' tools/ci/phases.py || { echo ".ci/run does not run ./viaduct.sh test"; exit 1; }

VIADUCT_RUNS=$folder/runs $quickstart train.train_iters=6 scheduler.lr_warmup_iters=2 validation.eval_interval=6 \
  validation.eval_iters=1 checkpoint.save_interval=6 logger.log_interval=3 dist.threads_per_rank=1 </dev/null 2>&1 | tee "$folder/log"

# expect LOG PATTERN…: the log has lines like these, in this order. The number of the last one's line is left in `line`.
expect() {
  local log=$1 pattern found
  line=0
  for pattern in "${@:2}"; do
    # No pipe into grep -q: grep ends at its first match, which kills a writer that prints more and fails the pipe.
    found=$(grep -n -m 1 -E -e "$pattern" < <(tail -n +$((line + 1)) "$log") | cut -d: -f1) ||
      { echo "$log: no line after line $line like: $pattern"; exit 1; }
    line=$((line + found))
  done
}
# The output that README.md shows.
expect "$folder/log" '== the text: 36,000 lines' '== training a tokenizer' '1024 tokens in ' '== tokenizing' ' documents?, [0-9]+ tokens \(uint16\)' \
  '== training$' 'step 0 \| validation loss 6\.9' 'step 6/6 \| loss 6\.' 'step 6 \| validation loss 6\.' 'saved checkpoint of step 6' \
  '== sampling' '^ROMEO:'
[[ $(tail -n +"$line" "$folder/log" | wc -c) -gt 100 ]] || { echo "quickstart: too little text was sampled"; exit 1; }
[[ -f $folder/runs/quickstart/checkpoints/metrics.jsonl ]] || { echo "quickstart: no metrics"; exit 1; }

# The model of the quickstart with a chat template stands for the one that would be downloaded.
build/release/viaduct convert --from "$folder/runs/quickstart/checkpoints" --to "$folder/model"
cat >"$folder/model/chat_template.jinja" <<'JINJA'
{%- for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}
JINJA
# Two checkpoints stay: the script asks them whether they hold an adapter.
VIADUCT_RUNS=$folder/runs $finetune --model "$folder/model" train.train_iters=2 scheduler.lr_warmup_iters=1 validation.eval_interval=2 \
  validation.eval_iters=1 logger.log_interval=1 dist.threads_per_rank=1 checkpoint.save_interval=1 checkpoint.most_recent_k=2 </dev/null 2>&1 |
  tee "$folder/finetune_log"
expect "$folder/finetune_log" '== the model as it is' '^perplexity' '== three questions' '== conversations to rows' '200 conversations, 200 rows' '== training$' \
  'packed|rows of 256' 'step 0 \| validation loss' 'step 2 \| validation loss' '== the same text again' '^perplexity' '== the same questions' '== the trained model'
[[ -f $folder/runs/finetune/model/config.json && -f $folder/runs/finetune/model.gguf ]] || { echo "finetune: no export"; exit 1; }
[[ -f $folder/runs/finetune/adapter/adapter_model.safetensors ]] || { echo "finetune: no adapter"; exit 1; }
# All weights.
VIADUCT_RUNS=$folder/runs $finetune --full --model "$folder/model" train.train_iters=1 scheduler.lr_warmup_iters=0 validation.eval_iters=0 \
  dist.threads_per_rank=1 </dev/null 2>&1 | tee "$folder/full_log"
expect "$folder/full_log" '== training$' '== the same text again' '^perplexity' '== the trained model'
[[ -f $folder/runs/finetune/model.gguf && ! -e $folder/runs/finetune/adapter ]] || { echo "finetune --full: not all weights"; exit 1; }
