#!/usr/bin/env bash
# without_mpi.sh: builds the program as on a machine without MPI, and runs it. With a compiler cache only the files of
# src/comm are compiled anew: the build folder lies beside that of the release build, so that paths are alike.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/without_mpi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

batches=$(grep -h '^VIADUCT_BATCHES:' "$root/build/release/CMakeCache.txt" || true)
# CMake must not find MPI.
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DVIADUCT_MPI=OFF -DVIADUCT_TESTS=OFF -DVIADUCT_BATCHES="${batches##*=}" \
  -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON >"$folder/configure.log" || { cat "$folder/configure.log"; exit 1; }
cmake --build "$build" --target viaduct >"$folder/build.log" || { tail -40 "$folder/build.log"; exit 1; }
viaduct=$build/viaduct

"$viaduct" version | tee "$folder/version"
grep -qx 'mpi: not built' "$folder/version"
if ldd "$viaduct" | grep -i mpi; then
  echo "the program still links MPI"
  exit 1
fi

# Ranks that are threads work. A launcher's variables are refused, and the message says what to do instead.
run=("$viaduct" train model.family=llama model.num_layers=1 model.hidden_size=16 model.ffn_hidden_size=32 model.num_attention_heads=2
  model.vocab_size=64 model.seq_length=8 dataset.mock=true train.train_iters=2 train.global_batch_size=2 train.micro_batch_size=1
  validation.eval_iters=0 scheduler.lr_warmup_iters=0 mixed_precision=fp32)
(cd "$folder" && "${run[@]}" dist.ranks=2)
status=0
(cd "$folder" && OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
  "${run[@]}" 2>"$folder/message") || status=$?
cat "$folder/message"
[[ $status == 2 ]] || { echo "expected status 2, got $status"; exit 1; }
grep -q 'OMPI_COMM_WORLD_SIZE=2 is set: 2 processes were started, and this program was built without MPI' "$folder/message"
