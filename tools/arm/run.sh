#!/usr/bin/env bash
# `./viaduct.sh arm`: compiles for aarch64 with Debian's cross compiler and runs small unit suites under qemu-user. Compiler and
# emulator are Debian packages of this machine; aarch64 libraries are unpacked into build/arm/root and never installed.
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
build=$root/build/arm
say() { printf '== %s\n' "$*"; }

usage() {
  cat <<'EOT'
usage: ./viaduct.sh arm [--quick | --binary]

  compiles the libraries up to the ops for aarch64, and runs their unit tests under qemu-user (about a quarter of an hour of
  two cores the first time)

  --quick     run the tests of base, tensor, device and hardware, and those of the portable kernels' bits, alone
  --binary    compile the binary too, and ask it for its version (the whole program: an hour of two cores)
EOT
}

mode=${1:-all}
case $mode in
  all | --quick | --binary) ;;
  -h | --help) usage && exit 0 ;;
  *)
    printf 'viaduct.sh: error: arm: unknown argument %s; ./viaduct.sh arm --help lists what there is\n' "$mode" >&2
    exit 2
    ;;
esac

# Debian 12's aarch64 libraries that the build links or the programs load, and header-only packages.
packages=(libfmt-dev libfmt9 libyaml-cpp-dev libyaml-cpp0.7 libpcre2-dev libpcre2-8-0
  libpng-dev libpng16-16 libjpeg-dev libjpeg62-turbo-dev libjpeg62-turbo
  libxxhash-dev libxxhash0 zlib1g-dev zlib1g libzstd-dev libzstd1
  libgtest-dev libgmock-dev googletest nlohmann-json3-dev libcli11-dev)

unpack_libraries() {
  [[ -f $build/root/.complete ]] && return
  say "unpacking libraries of aarch64 into build/arm/root"
  local apt=$build/apt package
  rm -rf "$build/root" "$build/packages"
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$build/packages" "$build/root"
  : >"$apt/status"
  # A separate package list: this machine's list and installed packages stay unchanged.
  cat >"$apt/apt.conf" <<EOT
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
EOT
  APT_CONFIG=$apt/apt.conf apt-get update -q
  (cd "$build/packages" && APT_CONFIG=$apt/apt.conf apt-get download -q "${packages[@]}")
  for package in "$build"/packages/*.deb; do dpkg -x "$package" "$build/root"; done
  touch "$build/root/.complete"
}

unpack_libraries
[[ -f $build/release/build.ninja ]] ||
  cmake -S "$root" -B "$build/release" -G Ninja -DCMAKE_BUILD_TYPE=Release -DVIADUCT_MPI=OFF -DVIADUCT_ARM_ROOT="$build/root" \
    -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake"

libraries=$build/root/usr/lib/aarch64-linux-gnu:$build/root/lib/aarch64-linux-gnu
emulate() { qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" "$@"; }
# run_tests PROGRAM [FILTER]
run_tests() {
  say "$1 on aarch64"
  emulate "$build/release/tests/arm/$1" --gtest_brief=1 --gtest_filter="${2:-*}"
}

small=(arm_unit_base arm_unit_tensor arm_unit_device arm_unit_hardware arm_unit_ops_cpu)
programs=("${small[@]}")
[[ $mode == --quick ]] || programs+=(arm_unit_ops)
targets=("${programs[@]}")
[[ $mode != --binary ]] || targets+=(viaduct)
cmake --build "$build/release" -j "$(nproc)" --target "${targets[@]}"
for program in "${programs[@]}"; do run_tests "$program"; done
[[ $mode != --binary ]] || emulate "$build/release/viaduct" --version
say "aarch64: all tests passed"
