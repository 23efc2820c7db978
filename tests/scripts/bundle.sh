#!/usr/bin/env bash
# bundle.sh BUILD_FOLDER CUDA_BUILD_FOLDER: installs the program, and the library of GPU kernels if that folder has one, into an
# empty folder, stripped; moves it; and runs it there. On a machine with a GPU the last part is skipped.
set -euo pipefail
build=$1 cuda=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --component program --strip --prefix "$folder/made" >/dev/null
if [[ -f $cuda/libviaduct_cuda.so ]]; then
  cmake --install "$cuda" --component cuda --strip --prefix "$folder/made" >/dev/null
fi
mv "$folder/made" "$folder/moved"
bundle=$folder/moved
bytes=$(du -sb "$bundle" | cut -f1)
# Today the program has 12.4 MB and the library 7.4 MB (kernels of three targets).
((bytes < 20000000)) || { echo "the bundle has $bytes bytes; the limit is 20000000"; exit 1; }
"$bundle/bin/viaduct" version
run() { "$bundle/bin/viaduct" train dist.device=cuda model.num_layers=1 model.hidden_size=32 model.num_attention_heads=2 \
  model.seq_length=16 model.vocab_size=64 dataset.mock=true train.train_iters=1 "$@" >"$folder/out" 2>&1; }

# Libraries of the toolkit are searched in CUDA_HOME.
mkdir -p "$folder/toolkit/lib64"
echo 'int product(void) { return 1; }' | cc -shared -fPIC -x c - -o "$folder/toolkit/lib64/libcublasLt.so.99" \
  -Wl,-soname,libcublasLt.so.99
echo 'int product(void); int call(void) { return product(); }' | cc -shared -fPIC -x c - -o "$folder/kernels.so" \
  -x none "$folder/toolkit/lib64/libcublasLt.so.99"
export VIADUCT_CUDA_LIBRARY=$folder/kernels.so
! run || { echo "a library of no kernels was taken"; exit 1; }
grep -q 'needs libcublasLt.so.99: .*/usr/local/cuda/lib64' "$folder/out" || { cat "$folder/out"; exit 1; }
! CUDA_HOME=$folder/toolkit run || { echo "a library of no kernels was taken"; exit 1; }
grep -q 'kernels.so is not a library of GPU kernels' "$folder/out" || { cat "$folder/out"; exit 1; }
unset VIADUCT_CUDA_LIBRARY

if [[ ! -f $bundle/lib/libviaduct_cuda.so ]]; then
  echo "$bytes bytes; the library of GPU kernels is not built: skipped"
  exit 0
fi
command -v nvidia-smi >/dev/null && { echo "$bytes bytes; this machine may have a GPU: the rest is skipped"; exit 0; }
! run || { echo "it trained without a driver"; exit 1; }
grep -q 'dist.device=cuda: found no driver' "$folder/out" || { cat "$folder/out"; exit 1; }
echo "$bytes bytes; without a driver: $(grep -m 1 'found no driver' "$folder/out")"
