#!/usr/bin/env bash
# hosts.sh VIADUCT GOLDEN: a run over two hosts, as `mpirun --hostfile` starts it, simulated on one machine: each host
# is a network namespace with its own address, loopback and host name, and a virtual cable (veth) connects them. Needs root.
#
# Shows that two hosts give the numbers of one rank, and that a killed process, a lost host and a pulled cable end the
# run everywhere, in bounded time and with a message that names what was waited for. Removes everything that it makes.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
viaduct=$1 golden=$2
interface=eth0 address_a=192.0.2.1 address_b=192.0.2.2 # from documentation networks (RFC 5737); nothing leaves the namespaces
host_a=viaduct-a-$$ host_b=viaduct-b-$$

die() { printf 'hosts: error: %s\n' "$*" >&2; exit 1; }
say() { printf '== %s\n' "$*"; }

[[ $(id -u) -eq 0 ]] || die "network namespaces need root; this is user $(id -un)"
for program in ip unshare mpirun; do
  command -v "$program" >/dev/null || die "there is no $program (packages iproute2, util-linux, openmpi-bin)"
done

folder=$(mktemp -d)
clean_up() {
  local host
  for host in "$host_a" "$host_b"; do
    ip netns pids "$host" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$host" 2>/dev/null
  done
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

make_hosts() {
  ip netns add "$host_a" && ip netns add "$host_b" || die "cannot make network namespaces (a container without CAP_SYS_ADMIN?)"
  ip -n "$host_a" link add "$interface" type veth peer name "$interface" netns "$host_b" || die "cannot join two namespaces by veth"
  local host
  for host in "$host_a" "$host_b"; do
    ip -n "$host" link set lo up
    # Connections over a dead cable are given up after seconds. By default the launcher's take 15 minutes.
    ip netns exec "$host" sh -c 'echo 4 >/proc/sys/net/ipv4/tcp_retries2'
  done
  ip -n "$host_a" address add "$address_a/24" dev "$interface"
  ip -n "$host_b" address add "$address_b/24" dev "$interface"
}
link() {
  local host
  for host in "$host_a" "$host_b"; do ip -n "$host" link set "$interface" "$1"; done
}

# The replacement for ssh that mpirun calls: HOST COMMAND…
write_agent() {
  cat >"$folder/agent" <<EOT
#!/bin/sh
[ "\$1" = $address_b ] || { echo "no host \$1" >&2; exit 255; }
shift
exec $here/on_host.sh $host_b sh -c "\$*"
EOT
  # Runs the program. Each rank's output is also kept on its host, because it is needed while the network is down.
  cat >"$folder/rank" <<EOT
#!/bin/bash
exec $viaduct "\$@" 2> >(tee -a $folder/rank.\$OMPI_COMM_WORLD_RANK >&2)
EOT
  chmod +x "$folder/agent" "$folder/rank"
  printf '%s slots=1\n%s slots=1\n' "$address_a" "$address_b" >"$folder/hostfile"
}

# run ARGUMENTS…: runs the program on both hosts, one rank each, over TCP. A daemon of the launcher that is silent for ten seconds counts as lost.
run() {
  "$here/on_host.sh" "$host_a" mpirun --allow-run-as-root --hostfile "$folder/hostfile" -n 2 --map-by ppr:1:node --bind-to none \
    --mca plm rsh --mca plm_rsh_agent "$folder/agent" \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include "$interface" --mca oob_tcp_if_include "$interface" \
    --mca oob_tcp_keepalive_time 4 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 \
    --mca odls_base_sigkill_timeout 0 "$folder/rank" "$@"
}

bytes_received() { ip netns exec "$host_b" cat "/sys/class/net/$interface/statistics/rx_bytes"; }

# pids NAME HOST: prints the processes of this program on a host.
pids() {
  local pid
  for pid in $(ip netns pids "$2"); do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "$1" ]] && echo "$pid"
  done
}

# until_true SECONDS WHAT COMMAND…
until_true() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < end)) || { show_said; die "$what"; }
    sleep 0.1
  done
}
show_said() { tail -n 40 "$folder"/said* "$folder"/rank.* 2>/dev/null | sed 's/^/   | /'; }
no_ranks() { [[ -z $(pids viaduct "$host_a")$(pids viaduct "$host_b") ]]; }
no_processes() { [[ -z $(ip netns pids "$host_a")$(ip netns pids "$host_b") ]]; }
expect_said() { # TEXT FILE
  grep -qE -- "$1" "$2" || { show_said; die "expected '$1' to be said"; }
}

# Compares one rank, both hosts as stages and as tensor ranks, and threads in that layout.
check_probe() {
  local probe=(probe --model "$golden/llama/model" --batch "$golden/llama/golden.safetensors")
  local tensor=model.tensor_model_parallel_size=2 stages=model.pipeline_model_parallel_size=2 before after
  "$viaduct" "${probe[@]}" --out "$folder/one" || die "probe on one rank failed"
  "$viaduct" "${probe[@]}" --out "$folder/threads" dist.ranks=2 $tensor || die "probe on two threads failed"
  before=$(bytes_received)
  run "${probe[@]}" --out "$folder/stages" dist.ranks=2 $stages >"$folder/said" || { show_said; die "probe, one stage a host"; }
  after=$(bytes_received)
  run "${probe[@]}" --out "$folder/tensor" dist.ranks=2 $tensor >"$folder/said" || { show_said; die "probe, tensor ranks on two hosts"; }
  cmp "$folder/one" "$folder/stages" || die "a stage on each host differs from one rank"
  cmp "$folder/threads" "$folder/tensor" || die "tensor ranks on two hosts differ from two threads"
  ((after - before > 30000)) || die "only $((after - before)) bytes crossed the cable"
  say "probe: a stage on each host has the bytes of one rank, tensor ranks those of threads; $((after - before)) bytes crossed for the stages"
}

training=(train dataset.mock=true model.family=llama model.vocab_size=128 model.num_layers=2 model.hidden_size=32
  model.num_attention_heads=2 model.ffn_hidden_size=64 model.seq_length=32 train.global_batch_size=4 train.micro_batch_size=1
  validation.eval_iters=0 logger.log_interval=1 scheduler.lr_warmup_iters=0 checkpoint.save_interval=1 dist.threads_per_rank=1)

losses() { grep -o '"loss":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2; }

check_training() {
  "$viaduct" "${training[@]}" train.train_iters=5 "checkpoint.save=$folder/run_one" >"$folder/said" 2>&1 || { show_said; die "training on one rank"; }
  run "${training[@]}" train.train_iters=5 dist.ranks=2 "checkpoint.save=$folder/run_two" >"$folder/said" 2>&1 ||
    { show_said; die "training on two hosts"; }
  paste <(losses "$folder/run_one") <(losses "$folder/run_two") |
    awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d; ++n }
      END { printf "== training: %d losses of two data-parallel hosts are those of one rank within %.1e\n", n, worst; exit !(n == 5 && worst < 2e-5) }' ||
    die "losses on two hosts differ from one rank's"
}

# start NAME: starts an endless training run in the background and waits for a checkpoint. dist.distributed_timeout_minutes is 3 seconds.
start() {
  rm -f "$folder"/rank.* "$folder/said"
  run "${training[@]}" train.train_iters=10000000 dist.ranks=2 dist.distributed_timeout_minutes=0.05 \
    "checkpoint.save=$folder/$1" >"$folder/said" 2>&1 &
  launcher=$!
  until_true 30 "no checkpoint of $1 after 30 s" test -e "$folder/$1/latest"
  begin=$SECONDS
}

# ended NAME: checks that the ranks end, the launcher fails, no process remains on either host, and the last checkpoint is intact.
ended() {
  local ranks
  until_true 20 "$1: ranks are left after 20 s" no_ranks
  ranks=$((SECONDS - begin))
  until_true 40 "$1: processes are left after 40 s: $(ip netns pids "$host_a" | xargs) and $(ip netns pids "$host_b" | xargs)" no_processes
  wait "$launcher" && { show_said; die "$1: expected a failing status"; }
  "$viaduct" convert --from "$folder/$1" --to "$folder/$1.hf" >/dev/null || die "$1: the last checkpoint does not convert"
  say "$1: all ranks have ended after $ranks s, both hosts are free after $((SECONDS - begin)) s; the last checkpoint is whole"
}

check_killed_process() {
  start killed_process
  kill -9 $(pids viaduct "$host_b")
  ended killed_process
  expect_said "exited on signal 9" "$folder/said"
}

check_lost_host() {
  start lost_host
  ip netns pids "$host_b" | xargs kill -9
  ended lost_host
  # The launcher reports the loss: its ssh ends or its daemon goes silent.
  expect_said 'ORTE (has lost communication|was unable to reliably start)|error: rank 0: ' "$folder/said"
}

check_pulled_cable() {
  start pulled_cable
  link down
  ended pulled_cable
  expect_said 'error: rank 0: .* over .*\([0-9]+ ranks, [0-9]+ bytes\).*after 3 s rank 1 did not come' "$folder/rank.0"
  expect_said 'error: rank 1: .* over .*\([0-9]+ ranks, [0-9]+ bytes\).*after 3 s rank 0 did not come' "$folder/rank.1"
  grep -h 'did not come' "$folder"/rank.* | sed 's/^/   | /'
}

write_agent
make_hosts
link up
check_probe
check_training
check_killed_process
check_lost_host
check_pulled_cable
say "two hosts work"
