"""Runs of `viaduct train` under attack: starts them in a layout and kills their processes."""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time

STEPS = 120
SESSION_SECONDS = 120  # a run of these sizes takes about one second; longer is a hang

MODEL = [
    "model.family=llama", "model.num_layers=4", "model.hidden_size=32", "model.ffn_hidden_size=64",
    "model.num_attention_heads=4", "model.vocab_size=64", "model.seq_length=32", "mixed_precision=fp32",
    f"train.train_iters={STEPS}", "train.global_batch_size=8", "train.micro_batch_size=2", "optimizer.lr=1e-3",
    "scheduler.lr_warmup_iters=0", "validation.eval_iters=1", "validation.eval_interval=7", "logger.log_interval=1",
    "dist.threads_per_rank=1", "dataset.split=9,1,0",
]

# (name, ranks, overrides). Each runs with threads, and with two ranks also under MPI.
LAYOUTS = [
    ("one rank", 1, []),
    ("dp 2", 2, ["ddp.use_distributed_optimizer=true"]),
    ("tp 2", 2, ["model.tensor_model_parallel_size=2"]),
    ("pp 2", 2, ["model.pipeline_model_parallel_size=2"]),
    ("tp 2, pp 2", 4, ["model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"]),
]


class Layout:
    def __init__(self, name, ranks, overrides, mpi):
        self.name, self.ranks, self.overrides, self.mpi = name, ranks, overrides, mpi

    def __str__(self):
        return f"{self.name} ({'MPI' if self.mpi else 'threads'})"


def random_layout(random, with_mpi):
    name, ranks, overrides = random.choice(LAYOUTS)
    mpi = with_mpi and ranks == 2 and random.random() < 0.4
    return Layout(name, ranks, overrides, mpi)


class Run:
    """A run: one process, or mpirun with its ranks. Output goes to a file, so that no pipe fills up."""

    def __init__(self, binary, layout, overrides, limit_bytes=0):
        command = [binary, "train", *MODEL, *layout.overrides, *overrides]
        environment = dict(os.environ)
        if layout.mpi:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "odls_base_sigkill_timeout", "0",
                       "-n", str(layout.ranks), *command]
            environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        elif layout.ranks > 1:
            command.append(f"dist.ranks={layout.ranks}")
        self.command = command
        self.output = tempfile.TemporaryFile()

        def limit():
            if limit_bytes:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
                                        env=environment, start_new_session=True, preexec_fn=limit,
                                        restore_signals=not limit_bytes)

    def text(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def processes(self):
        """The processes of the session: the launcher first, then its ranks."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid and fields[0] != "Z":
                found.append(int(name))
        return sorted(found, key=lambda pid: pid != self.process.pid)

    def send(self, number, pid=None):
        try:
            os.kill(pid or self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self):
        """Sends SIGSTOP and waits until no thread of the process runs (or it has ended): the signal does not act at once."""
        self.send(signal.SIGSTOP)
        while self.process.poll() is None and not self.is_stopped():
            time.sleep(0.0002)

    def is_stopped(self):
        tasks = f"/proc/{self.process.pid}/task"
        try:
            for name in os.listdir(tasks):
                with open(f"{tasks}/{name}/stat") as stat:
                    if stat.read().rsplit(")", 1)[1].split()[0] not in "TZX":
                        return False
        except OSError:  # a thread that ended meanwhile
            return False
        return True

    def finish(self, seconds=SESSION_SECONDS):
        """Waits for the end. Returns the exit status, −signal, or None for a run that hangs (which is killed)."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        # The launcher has ended; its ranks must end too.
        deadline = time.monotonic() + 30
        while status is not None and self.processes():
            if time.monotonic() > deadline:
                status = None
            time.sleep(0.02)
        for pid in self.processes():
            self.send(signal.SIGKILL, pid)
        self.process.wait()
        return status


def have_mpi():
    return shutil.which("mpirun") is not None
