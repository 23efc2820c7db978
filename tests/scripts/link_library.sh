#!/usr/bin/env bash
# link_library.sh BUILD_FOLDER: installs the build into an empty folder, builds examples/link_library against it and runs that.
set -euo pipefail
build=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/prefix" >"$folder/install.log" || { cat "$folder/install.log"; exit 1; }
"$folder/prefix/bin/viaduct" version

# From a copy, so that nothing is found beside the installed files.
cp -r "$root/examples/link_library" "$folder/example"
cmake -S "$folder/example" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$folder/prefix"
cmake --build "$folder/build"
printed=$("$folder/build/link_library")
# 6 · 8192 tokens · 7,504,658,432 matmul parameters + 6 · 32 layers · 4096 · 8192² of attention
expected="421.6 TFLOP"
[[ $printed == "$expected" ]] || { echo "expected '$expected', got '$printed'"; exit 1; }
