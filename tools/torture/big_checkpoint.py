#!/usr/bin/env python3
"""Saves and resumes a checkpoint of about ten gigabytes with little memory and disk, and prints times.

An FP32 model of 0.80 billion parameters with AdamW's moments is trained for two steps: in one session, and in two with a
stop between, in a file system (a loop device, needs root) that has room for one checkpoint and a half. So the second
session cannot save: it must fail, the first checkpoint must stay, and, once there is room, the same command must end with the bytes of the
uninterrupted run. Memory is limited to slightly more than training needs (a control group of
Linux, version 1 or 2, needs root). Exit status 1 if anything does not hold.

  tools/torture/big_checkpoint.py --binary build/release/viaduct [--layers N] [--folder DIR]"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HIDDEN, FFN, VOCABULARY = 2048, 5632, 32000
BYTES_PER_PARAMETER = 12  # weight and two moments, FP32
GIB = 1 << 30


def model(layers):
    return ["model.family=llama", f"model.num_layers={layers}", f"model.hidden_size={HIDDEN}",
            f"model.ffn_hidden_size={FFN}", "model.num_attention_heads=16", f"model.vocab_size={VOCABULARY}",
            "model.seq_length=16", "mixed_precision=fp32", "train.train_iters=2", "train.global_batch_size=1",
            "train.micro_batch_size=1", "optimizer.lr=1e-3", "scheduler.lr_warmup_iters=0", "dataset.mock=true",
            "validation.eval_iters=0", "logger.log_interval=1", "checkpoint.save_interval=0",
            "checkpoint.most_recent_k=1"]


def parameters(layers):
    return layers * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN) + 2 * VOCABULARY * HIDDEN


class MemoryLimit:
    """A control group that limits memory, page cache included. Without permission to make one, memory is not limited."""

    def __init__(self, limit_bytes):
        self.folder = None
        root = "/sys/fs/cgroup/memory" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup"
        name = "memory.limit_in_bytes" if root.endswith("memory") else "memory.max"
        folder = os.path.join(root, f"viaduct_big_checkpoint_{os.getpid()}")
        try:
            os.mkdir(folder)
            self.folder = folder
            with open(os.path.join(folder, name), "w") as file:
                file.write(str(limit_bytes))
        except OSError as error:
            self.close()
            print(f"memory is not limited: {error}")

    def enter(self):
        if self.folder:
            with open(os.path.join(self.folder, "cgroup.procs"), "w") as file:
                file.write(str(os.getpid()))

    def close(self):
        if self.folder:
            try:
                os.rmdir(self.folder)
            except OSError:
                pass
            self.folder = None


class SmallDisk:
    """A mounted ext4 file system in a file. A filler file occupies part of it until `grow`."""

    def __init__(self, folder, size_bytes, taken_bytes):
        self.file, self.mount = os.path.join(folder, "disk.img"), os.path.join(folder, "disk")
        os.mkdir(self.mount)
        with open(self.file, "wb") as file:
            file.truncate(size_bytes)
        run(["mkfs.ext4", "-q", "-m", "0", self.file])
        self.device = run(["losetup", "--find", "--show", self.file]).strip()
        run(["mount", self.device, self.mount])
        run(["fallocate", "--length", str(taken_bytes), os.path.join(self.mount, "taken")])

    def grow(self):
        os.remove(os.path.join(self.mount, "taken"))

    def close(self):
        subprocess.run(["umount", self.mount], check=False)
        subprocess.run(["losetup", "--detach", self.device], check=False)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def check(condition, message):
    if not condition:
        raise RuntimeError(message)


class Sessions:
    def __init__(self, options, memory):
        self.options, self.memory, self.rows = options, memory, []

    def train(self, what, save, overrides, expected_status=0):
        """Runs `viaduct train` and returns its output."""
        command = [self.options.binary, "train", *model(self.options.layers), f"checkpoint.save={save}", *overrides]
        begin = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                       preexec_fn=self.memory.enter)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read().decode(errors="replace")
        check(process.returncode == expected_status, f"{what}: status {process.returncode}: {text[-2000:]}")
        row = [what, f"{time.monotonic() - begin:.0f} s", f"{usage.ru_maxrss / (1 << 20):.1f} GiB"]
        for pattern in (r"resuming from .* \((.*)\)", r"saved checkpoint .* \((.*)\)"):
            found = re.search(pattern, text)
            row.append(found.group(1) if found else "")
        self.rows.append(row)
        print(" | ".join(row), flush=True)
        return text


def shards(save, step):
    """Size and checksum of each shard, from the index; the program compares them with the bytes."""
    folder = os.path.join(save, f"step_{step:08d}")
    with open(os.path.join(folder, "index.json")) as file:
        index = json.load(file)
    with open(os.path.join(folder, "pieces.jsonl")) as file:
        return [shard for _ in index["shard_lines"] for shard in json.loads(file.readline())]


def latest(save):
    with open(os.path.join(save, "latest")) as file:
        return file.read().strip()


def same_bytes(one, other):
    return subprocess.run(["cmp", one, other], check=False).returncode == 0


def torture(options, folder):
    size = parameters(options.layers) * BYTES_PER_PARAMETER
    # Weights, gradients and moments, the memory of a step, and one tensor that is being written to disk.
    limit = parameters(options.layers) * 16 + 2 * GIB
    print(f"{parameters(options.layers) / 1e9:.2f} billion parameters, a checkpoint of {size / GIB:.1f} GiB, memory limited "
          f"to {limit / GIB:.1f} GiB, disk of {1.5 * size / GIB:.1f} GiB\n")
    print("session | time | peak memory | loading | saving\n---|---|---|---|---")
    memory = MemoryLimit(limit)
    disk = SmallDisk(folder, int(2.5 * size), size)
    sessions = Sessions(options, memory)
    try:
        whole = os.path.join(folder, "whole")
        sessions.train("two steps, saved", whole, [])
        save = os.path.join(disk.mount, "run")
        sessions.train("one step, saved", save, ["train.exit_interval=1"])
        before = shards(save, 1)
        text = sessions.train("resumed; disk full while saving", save, [], expected_status=1)
        check("No space left on device" in text, f"the disk was not full: {text[-500:]}")
        check(latest(save) == "step_00000001" and shards(save, 1) == before, "the old checkpoint is gone")
        check(not [name for name in os.listdir(save) if ".tmp-" in name], "the failed save left files")
        disk.grow()
        sessions.train("resumed with enough room; saved", save, [])
        check(latest(save) == "step_00000002", "the resumed run did not save")
        check([name for name in os.listdir(save) if name.startswith("step_")] == ["step_00000002"],
              "checkpoint.most_recent_k=1 kept more than one checkpoint than one checkpoint")
        check(shards(save, 2) == shards(whole, 2), "the resumed run differs from the uninterrupted one: checksums differ")
        shard = os.path.join("step_00000002", "rank_00000.bin")
        check(same_bytes(os.path.join(save, shard), os.path.join(whole, shard)), "the resumed run is another one")
        print("\nthe old checkpoint survived the full disk; the resumed run has the same bytes")
    finally:
        disk.close()
        memory.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--layers", type=int, default=13, help="13: about 10 GB; use fewer for a trial")
    parser.add_argument("--folder", help="a folder with room for three checkpoints (default: the system's temporary folder)")
    options = parser.parse_args()
    options.binary = os.path.abspath(options.binary)
    folder = tempfile.mkdtemp(prefix="viaduct_big_", dir=options.folder)
    try:
        torture(options, folder)
    except RuntimeError as error:
        print(f"FOUND: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
