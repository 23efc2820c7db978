#!/usr/bin/env bash
# same_probe.sh VIADUCT GOLDEN MPIRUN…: checks that ranks give the same bytes as MPI processes and as threads.
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

# Stages of an encoder in front of stages of two chunks.
settings=(model.encoder_pipeline_model_parallel_size=1 model.pipeline_model_parallel_size=2
  model.virtual_pipeline_model_parallel_size=2 train.micro_batch_size=1)
probe=(probe --model "$golden/t5/model" --batch "$golden/t5/golden.safetensors")
"$viaduct" "${probe[@]}" --out "$folder/threads.safetensors" dist.ranks=3 "${settings[@]}"
"$@" -n 3 "$viaduct" "${probe[@]}" --out "$folder/mpi.safetensors" "${settings[@]}"
cmp "$folder/threads.safetensors" "$folder/mpi.safetensors"

# A tower of one tensor rank in front of a decoder of two.
settings=(model.encoder_pipeline_model_parallel_size=1 model.encoder_tensor_model_parallel_size=1
  model.tensor_model_parallel_size=2 train.micro_batch_size=1)
probe=(probe --model "$golden/llava_clip/model" --batch "$golden/llava_clip/golden.safetensors")
"$viaduct" "${probe[@]}" --out "$folder/threads.safetensors" dist.ranks=3 "${settings[@]}"
"$@" -n 3 "$viaduct" "${probe[@]}" --out "$folder/mpi.safetensors" "${settings[@]}"
cmp "$folder/threads.safetensors" "$folder/mpi.safetensors"

# The exchange of expert rows by row number, packed into messages.
experts=(dist.nvlink_domain_size=2 model.expert_model_parallel_size=4 model.moe_token_dispatcher_type=flex
  model.moe_dispatch_fwd_dtype=mxfp8 train.micro_batch_size=1)
probe=(probe --model "$golden/mixtral/model" --batch "$golden/mixtral/golden.safetensors")
for backend in flat hierarchical; do
  settings=("${experts[@]}" "model.moe_flex_dispatcher_backend=$backend" model.tensor_model_parallel_size=2
    model.context_parallel_size=2 model.expert_tensor_parallel_size=1)
  "$viaduct" "${probe[@]}" --out "$folder/threads.safetensors" dist.ranks=4 "${settings[@]}"
  "$@" -n 4 "$viaduct" "${probe[@]}" --out "$folder/mpi.safetensors" "${settings[@]}"
  cmp "$folder/threads.safetensors" "$folder/mpi.safetensors"
done
