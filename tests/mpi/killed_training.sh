#!/usr/bin/env bash
# killed_training.sh VIADUCT MPIRUN…: kills one rank's process with -9. The run must end with a failing status and say so, and the last
# checkpoint must be complete: all of it converts, and one rank resumes from it.
set -uo pipefail
viaduct=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run=(train dataset.mock=true model.family=llama model.vocab_size=128 model.num_layers=2 model.hidden_size=32
  model.num_attention_heads=2 model.ffn_hidden_size=64 model.seq_length=32 train.global_batch_size=4 train.micro_batch_size=1
  validation.eval_iters=0 "checkpoint.save=$folder/run" checkpoint.save_interval=1)
"$@" -n 2 "$viaduct" "${run[@]}" train.train_iters=1000000 >"$folder/said" 2>&1 &
launcher=$!
until [[ -e $folder/run/latest ]]; do
  kill -0 "$launcher" 2>/dev/null || { cat "$folder/said"; grep -q 'skipped: there is no mpirun' "$folder/said"; exit; }
done
kill -9 "$(pgrep -P "$launcher" | tail -1)"
wait "$launcher"
status=$?
tail -5 "$folder/said"
[[ $status -ne 0 ]] || { echo "expected a failing status"; exit 1; }
grep -q 'exited on signal 9' "$folder/said" || { echo "expected the signal to be named"; exit 1; }
"$viaduct" convert --from "$folder/run" --to "$folder/hf" || exit 1
step=$(sed -n 's/^step_0*//p' "$folder/run/latest")
"$viaduct" "${run[@]}" "train.train_iters=$((step + 1))" 2>&1 | grep -E "resuming from .* at step $step"
