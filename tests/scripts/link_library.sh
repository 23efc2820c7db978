#!/usr/bin/env bash
# link_library.sh BUILD_FOLDER: installs the build into an empty folder, builds examples/link_library against it and runs that.
set -euo pipefail
build=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/prefix" >"$folder/install.log" || { cat "$folder/install.log"; exit 1; }
"$folder/prefix/bin/viaduct" version

# A copy, so that the build finds only the installed files.
cp -r "$root/examples/link_library" "$folder/example"
cmake -S "$folder/example" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$folder/prefix"
cmake --build "$folder/build"

# An almost untrained model gives each of 1,024 tokens about the same probability: the loss is near ln(1024) = 6.93.
"$folder/prefix/bin/viaduct" train model.num_layers=1 model.hidden_size=32 model.num_attention_heads=2 model.seq_length=16 \
  tokenizer.tokenizer_model="$root/tests/data/tokenizer/bpe_shakespeare" dataset.mock=true validation.eval_iters=0 \
  train.train_iters=1 train.global_batch_size=2 scheduler.lr_warmup_iters=0 checkpoint.save="$folder/model"
printed=$("$folder/build/link_library" "$folder/model" 'To be, or not to be')
[[ $printed =~ ^loss\ (6\.[89]|7\.0)[0-9]*$ ]] || { echo "expected a loss near 6.93, got '$printed'"; exit 1; }
! "$folder/build/link_library" "$folder/nothing" 'To be' 2>"$folder/message" || { echo "a missing folder was accepted"; exit 1; }
grep -q '^link_library: error: .*nothing' "$folder/message"
