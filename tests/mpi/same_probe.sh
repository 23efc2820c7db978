#!/usr/bin/env bash
# same_probe.sh VIADUCT GOLDEN MPIRUN…: eight ranks give the same bytes as processes under MPI and as threads.
set -euo pipefail
viaduct=$1 golden=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
layout=(model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2 model.context_parallel_size=2)
probe=(probe --model "$golden/llama/model" --batch "$golden/llama/golden.safetensors")
"$viaduct" "${probe[@]}" --out "$folder/threads.safetensors" dist.ranks=8 "${layout[@]}"
"$@" -n 8 "$viaduct" "${probe[@]}" --out "$folder/mpi.safetensors" "${layout[@]}" | tee "$folder/said"
grep -q 'skipped: there is no mpirun' "$folder/said" && exit 0
cmp "$folder/threads.safetensors" "$folder/mpi.safetensors"
