"""Attacks on runs. Each is a function of a Case and returns after checking all its guarantees."""

import os
import shutil
import signal
import struct
import subprocess
import time

import checks
from checks import check
from runs import STEPS, Run, random_layout

KILLS = 6  # attacks on one run before it may finish
SESSIONS = 40


def write_data(prefix, tokens, factor):
    """Writes a Megatron data set of documents of 100 tokens (uint16)."""
    values = [(i * factor + i // 61) % 61 for i in range(tokens)]
    lengths = [100] * (tokens // 100)
    offsets = [200 * i for i in range(len(lengths))]
    with open(prefix + ".bin", "wb") as file:
        file.write(struct.pack(f"<{len(lengths) * 100}H", *values[: len(lengths) * 100]))
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        file.write(struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(lengths)}q", *offsets))
        file.write(struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1)))


class Case:
    """One attack on one run: its own random numbers, folder and layout, and the uninterrupted run to compare with."""

    def __init__(self, torture, random, folder):
        self.torture, self.random, self.folder = torture, random, folder
        self.binary = torture.binary
        self.save = os.path.join(folder, "run")
        self.layout = random_layout(random, torture.with_mpi)
        self.said = []  # output of all sessions, for the report
        self.sessions = self.events = 0
        self.data = os.path.join(folder, "data")
        write_data(self.data, 20000, 7)
        self.settings = [f"checkpoint.save_interval={random.choice([1, 2, 5, 9])}",
                         f"checkpoint.async_save={random.choice(['true', 'false'])}",
                         f"checkpoint.most_recent_k={random.choice([-1, 1, 2])}"]

    def start(self, more=(), layout=None, limit_bytes=0, save=None):
        if save is None:  # now, because it cannot be computed during an attacked run
            self.torture.undisturbed(self)
        self.sessions += 1
        run = Run(self.binary, layout or self.layout,
                  [*self.settings, f"dataset.blend=[{self.data}]", f"checkpoint.save={save or self.save}", *more], limit_bytes)
        return run

    def finish(self, run):
        status = run.finish()
        self.said.append(f"$ {' '.join(run.command)}\n{run.text()}\n-> {status}")
        check(status is not None, "a run hangs")
        return status

    def complete(self, more=()):
        """Runs to the end without disturbance."""
        status = self.finish(self.start(more))
        check(status == 0, f"an undisturbed session ends with {status}")
        checks.check_finished(self.save, STEPS)

    def check_equal(self):
        """Checks that the result equals an undisturbed run in this layout bit for bit."""
        step = f"step_{STEPS:08d}"
        check(checks.shards(self.save, step) == self.torture.reference(self), "the result differs from that of an undisturbed run")

    def check_loads(self):
        checks.check_loads(self.binary, self.save, os.path.join(self.folder, "converted"))


def wait_for(run, condition, seconds=20):
    deadline = time.monotonic() + seconds
    while run.process.poll() is None and time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.0002)


def wait_for_moment(case, run):
    """Waits for a random moment: any time, in a save, in an evaluation, while loading."""
    moment = case.random.choice(["any", "any", "save", "evaluation", "load"])
    if moment == "any":
        time.sleep(case.random.uniform(0, 0.8) * case.torture.seconds(case))
    elif moment == "load":
        time.sleep(case.random.uniform(0, 0.4) * case.torture.seconds(case))
    elif moment == "save":
        time.sleep(case.random.uniform(0.1, 0.6) * case.torture.seconds(case))
        wait_for(run, lambda: os.path.isdir(case.save) and any(".tmp-" in name for name in os.listdir(case.save)),
                 0.2 * case.torture.seconds(case))
        time.sleep(case.random.choice([0, 0.001, 0.003]))
    else:
        wait_for(run, lambda: "validation loss" in run.text())
    return moment


def after_disturbance(case, before):
    """Checks that no saved checkpoint is lost."""
    now = checks.latest(case.save)
    check(before is None or (now is not None and now >= before), f"latest was {before}, is {now}")
    case.check_loads()
    return now


def kill(case):
    """kill -9 of any process at any moment, repeatedly; sometimes the next session has another layout."""
    same = case.random.random() < 0.7
    before = None
    for _ in range(case.random.randint(1, KILLS)):
        if not same:
            case.layout = random_layout(case.random, case.torture.with_mpi)
        run = case.start()
        wait_for_moment(case, run)
        processes = run.processes()
        if processes:
            run.send(signal.SIGKILL, case.random.choice(processes))
            case.events += 1
        status = case.finish(run)
        check(status != 0 or checks.latest(case.save) == f"step_{STEPS:08d}" or not processes,
              "a killed run reports success")
        before = after_disturbance(case, before)
    case.complete()
    if same:
        case.check_equal()


def stop(case):
    """SIGTERM and SIGINT: saves, ends with 0, resumes."""
    for _ in range(case.random.randint(1, 4)):
        run = case.start()
        wait_for(run, lambda: "step " in run.text())
        time.sleep(case.random.uniform(0, 0.3) * case.torture.seconds(case))
        run.send(case.random.choice([signal.SIGTERM, signal.SIGINT]))
        case.events += 1
        status = case.finish(run)
        if not case.layout.mpi:  # mpirun has its own exit status
            check(status == 0, f"a run that got a stop signal ends with {status}")
        case.check_loads()
    case.complete()
    case.check_equal()


def files_of_checkpoint(case):
    step = checks.latest(case.save)
    folder = os.path.join(case.save, step)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def damage(case, change):
    """Damages a file of the newest checkpoint by `change`: the run must end with an error that names it, or with the right result."""
    case.settings[2] = "checkpoint.most_recent_k=2"
    # Exits early instead of training fewer steps, which would change the order of rows.
    check(case.finish(case.start([f"train.exit_interval={STEPS // 2}"])) == 0, "a first half fails")
    files = [name for name in files_of_checkpoint(case) if os.path.getsize(name) > 0]
    change(case.random.choice(files))
    case.events += 1
    run = case.start()
    status = case.finish(run)
    if status == 0:
        case.check_equal()
        return
    check(status in (1, 2), f"a damaged checkpoint ends the run with {status}")
    check(checks.latest(case.save) == f"step_{STEPS // 2:08d}", "a run that refused its checkpoint changed the folder")
    status = case.finish(case.start(["checkpoint.fallback_to_previous=true"]))
    check(status == 0, f"with fallback_to_previous the run ends with {status}")
    case.check_equal()


def flip(case):
    """Flips one bit of a checkpoint."""

    def change(path):
        at = case.random.randrange(os.path.getsize(path))
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ (1 << case.random.randrange(8))]))

    damage(case, change)


def truncate(case):
    """Truncates or deletes a file of a checkpoint."""

    def change(path):
        if case.random.random() < 0.3:
            os.remove(path)
        else:
            os.truncate(path, case.random.randrange(os.path.getsize(path)))

    damage(case, change)


def full_disk(case):
    """Limits the size of files; then removes the limit."""
    if case.layout.mpi:  # MPI needs files of some size to start
        case.layout = random_layout(case.random, False)
    case.finish(case.start([f"train.exit_interval={case.random.randint(5, STEPS // 2)}"]))
    before = checks.latest(case.save)
    limit = case.random.choice([1, 200, 4096, 20000, 60000, 100000])
    case.events += 1
    status = case.finish(case.start([f"checkpoint.continue_on_save_failure={case.random.choice(['true', 'false'])}"],
                                    limit_bytes=limit))
    # If a shard fits there is a checkpoint, otherwise there is none.
    check(status in (0, 1), f"a full disk ends the run with {status}")
    after_disturbance(case, before)
    case.complete()
    case.check_equal()


def full_file_system(case):
    """Saves into a small tmpfs (needs root), then makes it larger."""
    os.mkdir(case.save)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", case.save], capture_output=True)
    if mounted.returncode != 0:
        return full_disk(case)
    try:
        case.settings[2] = "checkpoint.most_recent_k=-1"
        case.events += 1
        status = case.finish(case.start())
        check(status == 1, f"a full file system ends the run with {status}")
        case.check_loads()
        subprocess.run(["mount", "-o", "remount,size=200m", case.save], check=True)
        case.complete()
        case.check_equal()
    finally:
        subprocess.run(["umount", "-l", case.save], check=False)


def vanish(case):
    """Deletes the folder during the run: the run must end with 1, or recreate everything."""
    last = f"step_{STEPS:08d}"
    moment = f"step_{case.random.randint(1, 3 * STEPS // 4):08d}"
    run = case.start()
    wait_for(run, lambda: (checks.latest(case.save) or "") >= moment)
    time.sleep(case.random.choice([0, 0, case.random.uniform(0, 0.01) * case.torture.seconds(case)]))
    gone = case.save + ".gone"
    over = True
    if os.path.exists(case.save) and run.process.poll() is None:
        os.rename(case.save, gone)  # at once, like an unmounted file system
        # A run that has published its last checkpoint may never access the folder again while its launcher still ends.
        over = checks.latest(gone) == last
        shutil.rmtree(gone)
        case.events += not over
    status = case.finish(run)
    check(status in (0, 1), f"a deleted folder ends the run with {status}")
    if status == 0 and not over:
        check(checks.latest(case.save) == last, "exit status 0, but the last checkpoint is missing")
        checks.check_rows(case.save, STEPS)
    case.check_loads() if os.path.isdir(case.save) else None
    case.complete()
    case.check_equal()


def two_writers(case):
    """Starts two or three runs with one folder at once."""
    started = []
    for _ in range(case.random.randint(2, 3)):
        started.append(case.start())
        time.sleep(case.random.choice([0, 0, 0.05, 0.3]))
    case.events += 1
    ended = [(case.finish(run), run.text()) for run in started]
    check(any(status == 0 for status, _ in ended), "none of the runs that share a folder finished")
    for status, text in ended:
        check(status == 0 or "another run writes here" in text, f"one ended with {status} without naming the other")
    case.check_loads()
    case.complete()
    case.check_equal()


def stale_writer(case):
    """Stops a run and removes its lock (as a network file system may), lets another run take over, and continues the first."""
    case.layout.mpi = False
    old = case.start()
    wait_for(old, lambda: checks.latest(case.save) is not None)
    if old.process.poll() is None:
        old.stop()
        case.events += 1
    lock = os.path.join(case.save, "run.lock")
    if os.path.exists(lock):
        os.remove(lock)
    new = case.start()
    try:
        if case.random.random() < 0.5:
            wait_for(new, lambda: "resuming" in new.text() or "nothing to do" in new.text())
            time.sleep(case.random.uniform(0, 0.5) * case.torture.seconds(case))
            old.send(signal.SIGCONT)
            status = case.finish(new)
        else:
            status = case.finish(new)
    finally:
        old.send(signal.SIGCONT)
    check(status == 0, f"the run that took over ends with {status}")
    status = case.finish(old)
    finished_before = "another run has taken" not in old.text()
    check(status == 1 or finished_before, f"the run that lost its folder ends with {status}")
    case.complete()
    case.check_equal()


def changed_data(case):
    """Replaces the data set between two sessions: the run must refuse it, and resume when the old one is restored."""
    # Exits early instead of training fewer steps, which would change the order of rows.
    check(case.finish(case.start([f"train.exit_interval={STEPS // 2}"])) == 0, "a first half fails")
    if case.random.random() < 0.5:
        write_data(case.data, 20000, case.random.randint(8, 50))
    else:
        write_data(case.data, 100 * case.random.randint(150, 199), 7)
    case.events += 1
    run = case.start()
    status = case.finish(run)
    check(status != 0 and "dataset.content" in run.text(), f"different data is accepted silently (status {status})")
    write_data(case.data, 20000, 7)
    case.complete()
    case.check_equal()


ATTACKS = {
    "kill -9": (kill, 8),
    "signals": (stop, 2),
    "flipped bits": (flip, 3),
    "truncated files": (truncate, 2),
    "full disk": (full_disk, 2),
    "full file system": (full_file_system, 1),
    "vanished folder": (vanish, 2),
    "two writers": (two_writers, 2),
    "stale writer": (stale_writer, 1),
    "changed data": (changed_data, 1),
}
