#!/usr/bin/env bash
# same_texts.sh VIADUCT GOLDEN MPIRUN…: checks that `viaduct generate` and `eval` give the same results with MPI processes and with threads.
set -euo pipefail
viaduct=$1 golden=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$golden"/llama/model/* "$folder"
printf 'the cat and the hat\nx\nthe rat and the bat\n' > "$folder/prompts.txt"
"$viaduct" tokenizer train --vocab-size 262 --input "$folder/prompts.txt" --output "$folder" > "$folder/said"
generate=(generate --model "$folder" --prompt-file "$folder/prompts.txt" --max-new-tokens 20 --batch-size 1 --seed 5)
layout=(model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2)
score=(eval --model "$folder" --data "$folder/prompts.txt" --sequence-length 16 --json)
"$viaduct" "${generate[@]}" dist.ranks=8 "${layout[@]}" > "$folder/threads"
"$@" -n 8 "$viaduct" "${generate[@]}" "${layout[@]}" > "$folder/mpi"
grep -q 'skipped: there is no mpirun' "$folder/mpi" && { cat "$folder/mpi"; exit 0; }
cmp "$folder/threads" "$folder/mpi"
loss() { grep -o '"loss":[^,]*'; }
[[ $("$viaduct" "${score[@]}" dist.ranks=4 "${layout[@]}" | loss) == $("$@" -n 4 "$viaduct" "${score[@]}" "${layout[@]}" | loss) ]]
