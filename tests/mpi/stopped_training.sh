#!/usr/bin/env bash
# stopped_training.sh VIADUCT MPIRUN…: sends SIGTERM to one rank's process. All ranks end after a step that they agree on, which is saved though no
# save is due, and two ranks resume from it to the end.
set -uo pipefail
viaduct=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run=("$@" -n 2 "$viaduct" train dataset.mock=true model.family=llama model.vocab_size=128 model.num_layers=2 model.hidden_size=32
  model.num_attention_heads=2 model.ffn_hidden_size=64 model.seq_length=32 train.global_batch_size=4 train.micro_batch_size=1
  validation.eval_iters=0 "checkpoint.save=$folder/run" checkpoint.save_interval=0 logger.log_interval=1 dist.threads_per_rank=1)
fail() {
  cat "$folder/said"
  echo "$1"
  exit 1
}
"${run[@]}" train.train_iters=1000000 >"$folder/said" 2>&1 &
launcher=$!
until grep -qs '"step":2,' "$folder/run/metrics.jsonl"; do
  kill -0 "$launcher" 2>/dev/null || { cat "$folder/said"; grep -q 'skipped: there is no mpirun' "$folder/said"; exit; }
done
kill -TERM "$(pgrep -P "$launcher" | tail -1)"
wait "$launcher"
status=$?
[[ $status -eq 0 ]] || fail "expected status 0, got $status"
tail -1 "$folder/run/metrics.jsonl" | grep -q '"stopped":"signal"' || fail "expected the end to be logged"
[[ -e $folder/run/latest ]] || fail "expected a checkpoint"
step=$(sed -n 's/^step_0*//p' "$folder/run/latest")
grep '"loss"' "$folder/run/metrics.jsonl" | tail -1 | grep -q "\"step\":$step," || fail "expected the checkpoint of the last step, found step $step"
"${run[@]}" "train.train_iters=$((step + 1))" >"$folder/said" 2>&1 || fail "expected the run to resume"
grep -qE "resuming from .* at step $step" "$folder/said" || fail "expected it to resume at step $step"
