#!/usr/bin/env bash
# `./viaduct.sh debian VERSION`: unpacks that Debian into build/debian/VERSION, copies the checkout into it, builds there as README.md says,
# and trains, saves and resumes a tiny model, with threads and under MPI.
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
say() { printf '== %s\n' "$*"; }
die() {
  printf 'viaduct.sh: error: debian: %s\n' "$*" >&2
  exit 1
}

usage() {
  cat <<'EOT2'
usage: ./viaduct.sh debian 12|13 [--configure | --fresh]

  builds the checkout in a new Debian of that version, and runs what was built. Needs root, debootstrap and the package mirror of this
  machine. The system stays in build/debian/VERSION (about 3 GB); with it a second call only builds what changed

  --configure   only install packages and configure: a missing package shows within minutes
  --fresh       unpack the system again
EOT2
}

suites=([12]=bookworm [13]=trixie)
version=${1:-} configure=no fresh=no
[[ $version != -h && $version != --help ]] || { usage && exit 0; }
if [[ ! $version =~ ^[0-9]+$ || -z ${suites[$version]:-} ]]; then
  printf 'viaduct.sh: error: debian takes a version of Debian, %s, got "%s"\n' "$(IFS=, && echo "${!suites[*]}")" "$version" >&2
  exit 2
fi
for argument in "${@:2}"; do
  case $argument in
    --configure) configure=yes ;;
    --fresh) fresh=yes ;;
    *)
      printf 'viaduct.sh: error: debian: unknown argument %s; ./viaduct.sh debian --help lists what there is\n' "$argument" >&2
      exit 2
      ;;
  esac
done
[[ $(id -u) -eq 0 ]] || die "changing the root folder needs root; run: sudo ./viaduct.sh debian $version"
command -v debootstrap >/dev/null || die "debootstrap is missing; run: apt-get install debootstrap"

system=$root/build/debian/$version
# The first mirror of Debian's own packages that apt uses on this machine.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' | head -n 1)
[[ -n $mirror ]] || die "apt knows no mirror of Debian on this machine (apt-get indextargets); debootstrap needs one"

# inside COMMAND…: runs a command in the unpacked system. What is mounted there is gone when the command has ended.
inside() {
  unshare --mount --pid --fork --kill-child bash -c '
    mount --make-rprivate /
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    exec chroot "$0" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"' "$system" "$@" </dev/null
}

unpack_system() {
  [[ $fresh == no ]] || rm -rf "$system"
  [[ ! -e $system/.complete ]] || return 0
  rm -rf "$system"
  mkdir -p "$system"
  say "unpacking Debian $version (${suites[$version]}) into ${system#"$root"/}"
  debootstrap --variant=minbase "${suites[$version]}" "$system" "$mirror" >"$system.log" 2>&1 ||
    { tail -n 20 "$system.log" >&2 && die "debootstrap failed (its log is $system.log)"; }
  touch "$system/.complete"
}

# How this machine reaches mirrors (proxies, checks of dates) is right there too.
copy_network() {
  cp --dereference /etc/resolv.conf "$system/etc/resolv.conf"
  apt-config dump | grep -E '^Acquire::(https?|Check-Date|Check-Valid-Until|Retries)(::| )' >"$system/etc/apt/apt.conf.d/90machine" || true
}

# Copies the files that git knows, as they are in the working tree. Those that are as before keep their times, so that only what changed is
# compiled. The others are new: what they were built from may have been older than a build that began before they changed.
copy_checkout() {
  local old=$system/viaduct new=$system/viaduct.new file
  rm -rf "$new"
  mkdir -p "$old" "$new"
  (cd "$root" && git ls-files -z | while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
    tar -c --null -T -) | tar -x -C "$new"
  (cd "$new" && find . -type f -print0) | while IFS= read -r -d '' file; do
    if cmp -s "$old/$file" "$new/$file"; then touch -r "$old/$file" "$new/$file"; else touch "$new/$file"; fi
  done
  [[ ! -e $old/build ]] || mv "$old/build" "$new/build"
  rm -rf "$old"
  mv "$new" "$old"
}

# What it builds with, for the record.
versions() {
  inside bash -c 'for tool in g++ cmake ninja mpirun ld.lld; do printf "%s %s; " "$tool" "$("$tool" --version 2>&1 | grep -oE "[0-9]+(\\.[0-9]+)+" | head -n 1)"; done'
}

tiny_runs() {
  local viaduct=/viaduct/build/release/viaduct save=/tmp/run
  local settings=(model.family=llama model.num_layers=2 model.hidden_size=32 model.ffn_hidden_size=64 model.num_attention_heads=4
    model.vocab_size=64 model.seq_length=32 dataset.mock=true train.global_batch_size=4 train.micro_batch_size=1 train.train_iters=4
    optimizer.lr=1e-3 scheduler.lr_warmup_iters=0 validation.eval_iters=0 logger.log_interval=1 logger.log_throughput=false
    dist.threads_per_rank=1 "checkpoint.save=$save")
  rm -rf "$system$save"
  say "training on two ranks (threads)"
  inside "$viaduct" train "${settings[@]}" dist.ranks=2 train.exit_interval=2
  say "resuming on two ranks (MPI)"
  inside env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
    mpirun --oversubscribe --bind-to none -n 2 "$viaduct" train "${settings[@]}"
}

unpack_system
copy_network
copy_checkout
say "installing packages and configuring on Debian $version"
inside bash -c 'cd /viaduct && ./viaduct.sh build --configure'
say "Debian $(cat "$system/etc/debian_version"): $(versions)"
[[ $configure == no ]] || exit 0
say "building on Debian $version"
inside bash -c 'cd /viaduct && ./viaduct.sh build'
inside /viaduct/build/release/viaduct --version
tiny_runs
say "Debian $version: built, trained and resumed"
