#!/usr/bin/env bash
# Says at once what the build needs and this system lacks, where packages cannot be installed by name. A library counts as there if
# the compiler finds its header. Exit status 1 if anything is missing.
set -euo pipefail

missing=()

# name of the command : package of Debian that has it
for need in g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config git:git python3:python3; do
  command -v "${need%%:*}" >/dev/null || missing+=("${need%%:*} (Debian: ${need#*:})")
done

# header : package of Debian that has it
headers=(fmt/core.h:libfmt-dev yaml-cpp/yaml.h:libyaml-cpp-dev nlohmann/json.hpp:nlohmann-json3-dev CLI/CLI.hpp:libcli11-dev
  pcre2.h:libpcre2-dev xxhash.h:libxxhash-dev png.h:libpng-dev
  zlib.h:zlib1g-dev zstd.h:libzstd-dev gtest/gtest.h:libgtest-dev gmock/gmock.h:libgmock-dev)

has_header() {
  printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1
}

if command -v g++ >/dev/null; then
  [[ $(g++ -dumpversion | cut -d. -f1) -ge 12 ]] || missing+=("g++ 12 or newer (found $(g++ -dumpversion))")
  for need in "${headers[@]}"; do
    has_header "${need%%:*}" || missing+=("${need%%:*} (Debian: ${need#*:})")
  done
  command -v mpicc >/dev/null || has_header mpi.h || missing+=("mpi.h (Debian: libopenmpi-dev openmpi-bin)")
fi
if command -v pkg-config >/dev/null; then
  # The description of a library may require another one, without which it is not found.
  for module in libjpeg libpcre2-8 libpng libxxhash zlib libzstd; do
    pkg-config --exists "$module" 2>/dev/null ||
      missing+=("$module for pkg-config ($(pkg-config --print-errors --exists "$module" 2>&1 | tail -n 1))")
  done
fi

[[ ${#missing[@]} -gt 0 ]] || exit 0
{
  printf 'viaduct.sh: error: this system has no apt-get, so nothing is installed here. It lacks:\n'
  printf '  %s\n' "${missing[@]}"
  printf 'docs/dependencies.md says what each is for\n'
} >&2
exit 1
