"""What .ci/run checks, in order of worth: what does not fit into the limit is left out from the end."""

import os
import shutil
import subprocess

import output
import same_objects
import tests
import turns

# Programs under AddressSanitizer in every run: those that read foreign bytes. The others take turns where time is short.
READERS_OF_FOREIGN_BYTES = ["test_unit_base", "test_unit_config", "test_unit_template", "test_unit_data", "test_unit_conversation", "test_unit_image",
                            "test_unit_checkpoint", "test_unit_model", "test_unit_generate", "test_unit_report", "test_unit_tensor",
                            "test_fault_checkpoint"]
SUITES_UNDER_ASAN = "^(unit|parity|fault|fuzz)$"
# gpu.ops_on_doubles takes half a minute, and test_unit_ops_on_cuda runs the same code. tests/CMakeLists.txt leaves out more.
NOT_UNDER_ASAN = "^gpu[.]ops_on_doubles"
GPU_TARGETS = ["80", "89", "90a", "100f", "120"]  # cmake/CudaLibrary.cmake
TSAN = ("build tsan", "tsan")
ASAN_OF_OTHERS = ("build asan, other programs", "asan, other programs")
# Programs on hostile bytes, which find more there.
RUN_UNDER_ASAN = "^fuzz[.]"
# Sources that are compiled otherwise under AddressSanitizer though they are not instrumented (tests/CMakeLists.txt).
COMPILED_AGAIN = 2
TORTURE_SEED = 445839
RANDOM_RUNS_SEED = 1


class Failed(Exception):
    """A phase failed; nothing that needs it can run."""


class Phases:
    """The phases of one run. Each returns the outcome of its tests, or None if it has none."""

    def __init__(self, limit, costs, pace, turn, cores):
        self.limit, self.costs, self.pace, self.turn, self.cores = limit, costs, pace, turn, cores

    def come_later(self):
        """The phases whose turn it is not: ThreadSanitizer, and the programs under AddressSanitizer that read no foreign bytes,
        have every other run."""
        return TSAN if self.turn % 2 else ASAN_OF_OTHERS

    def in_order(self):
        """(name, function, names of phases that must have ended)."""
        every = [
            ("format", self.format, []),
            ("build", self.build, []),
            ("build tests", self.build_tests, ["build"]),
            ("tests", self.tests, ["build tests"]),
            ("build asan", self.build_asan_of_readers, []),
            ("asan, readers of foreign bytes", self.asan_of_readers, ["build asan"]),
            ("build tsan", self.build_tsan, []),
            ("tsan", self.tsan, ["build tsan"]),
            ("kernels of GPUs", self.cuda, []),
            ("build asan, other programs", self.build_asan_of_others, ["build asan"]),
            ("asan, other programs", self.asan_of_others, ["build asan, other programs"]),
            ("benchmarks compile", self.benchmarks, ["build"]),
            ("torture", self.torture, ["build"]),
            ("random runs", self.random_runs, ["build"]),
        ]
        return [phase for phase in every if phase[0] not in self.come_later()]

    def seconds_of(self, name):
        """What a phase takes here if nothing is in the compiler cache."""
        return self.costs["phases"].get(name, 0) * self.pace

    def least_seconds(self, name):
        """Seconds without which a phase is not started. Phases of many tests take what there is."""
        return 60 if name in ("tests", "asan, other programs") else self.seconds_of(name)

    def reserved_after(self, name):
        """Seconds that phases behind this one need, which it must not take."""
        names = [phase for phase, _, _ in self.in_order()]
        return sum(self.seconds_of(later) for later in names[names.index(name) + 1 :])

    def must(self, arguments, seconds=None, **more):
        if output.command(arguments, seconds, **more) != 0:
            raise Failed(" ".join(arguments))

    def build_targets(self, preset, targets, options=()):
        """Configures and builds targets. Any build may try for three minutes: what a compiler cache has is compiled much faster than
        recorded."""
        self.must(["cmake", "--preset", preset, "-D", "VIADUCT_BATCHES=ON", *options], self.limit.left())
        left = self.limit.left()
        self.must(["cmake", "--build", f"build/{preset}", "-j", str(self.cores), *(["--target", *targets] if targets else [])], left,
                  line_seen=output.Progress(left))

    def format(self):
        version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout if shutil.which("clang-format") else ""
        if " 14." not in version:
            output.say("left out: there is no clang-format 14, whose style the sources have")
            return
        sources = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], check=True, capture_output=True, text=True).stdout.split()
        self.must(["clang-format", "--dry-run", "-Werror", *sources])

    def build(self):
        self.must(["./viaduct.sh", "build"], self.limit.left())

    def build_tests(self):
        self.build_targets("release", [])

    def tests(self):
        later = turns.come_later(tests.listed("build/release", ["-E", RUN_UNDER_ASAN]), self.costs["tests"], self.turn)
        output.say(f"{sum(map(len, later.values()))} cases of {len(later)} long suites come in later runs: {', '.join(sorted(later))}")
        left_out = RUN_UNDER_ASAN + ("|" + tests.pattern(sum(later.values(), [])) if later else "")
        return tests.run("build/release", self.limit, self.cores, ["-E", left_out], ["./viaduct.sh", "test"])

    def build_asan_of_readers(self):
        self.must(["cmake", "--preset", "asan", "-D", "VIADUCT_BATCHES=ON"], self.limit.left())
        # Tests are not instrumented, and the build of the release tests has just put their objects into the compiler cache.
        compiled_again = same_objects.different("build/asan", "build/release")
        if len(compiled_again) > COMPILED_AGAIN:
            raise Failed(f"{len(compiled_again)} sources that no sanitizer instruments are compiled by another command than in the "
                         f"release build (at most {COMPILED_AGAIN}): " + ", ".join(compiled_again[:5]))
        self.build_targets("asan", [*READERS_OF_FOREIGN_BYTES, "tests_fuzz"])

    def asan_of_readers(self):
        return tests.run("build/asan", self.limit, self.cores, ["-R", "^fuzz[.]|^part[.](" + "|".join(READERS_OF_FOREIGN_BYTES) + ")[.]"])

    def build_tsan(self):
        self.build_targets("tsan", ["test_threads"])

    def tsan(self):
        # State that ranks, pools and savers share, in a program that has little else (tests/threads).
        return tests.program("build/tsan/tests/threads/test_threads", self.limit)

    def cuda(self):
        """Compiles the kernels, each run for one of the targets, in turn; the tests run them on an emulator."""
        nvcc = shutil.which("nvcc") or ("/usr/local/cuda/bin/nvcc" if os.path.exists("/usr/local/cuda/bin/nvcc") else None)
        if not nvcc:
            output.say("left out: there is no nvcc")
            return
        target = GPU_TARGETS[self.turn % len(GPU_TARGETS)]
        output.say(f"for {target}")
        # Compiles everything, so that the report has all kernels; the compiler cache keeps what has not changed.
        self.must(["cmake", "--preset", "cuda", "-D", "VIADUCT_BATCHES=ON", "-D", f"CMAKE_CUDA_COMPILER={nvcc}", "-D", "VIADUCT_CUDA_REPORT=ON",
                   "-D", f"VIADUCT_CUDA_TARGETS={target}-real"])
        os.makedirs("build/cuda", exist_ok=True)
        with open("build/cuda/report.txt", "w") as report:
            self.must(["cmake", "--build", "--preset", "cuda", "-j", str(self.cores), "--clean-first"], self.limit.left(), copy_to=report,
                      quiet=True)
        self.must(["tools/gpu_code.py", "build/cuda/report.txt"], self.limit.left())
        if not shutil.which("cuobjdump") and not os.path.exists("/usr/local/cuda/bin/cuobjdump"):
            # Without a network the check of the machine code says that it is skipped.
            output.command(["tools/python_env.sh", "build/gpu-code-env", "tools/gpu_code/requirements.txt"], self.limit.left())
        self.must(["tools/gpu_code.py", "--code", "build/cuda/libviaduct_cuda.so"], self.limit.left())

    def build_asan_of_others(self):
        self.build_targets("asan", ["tests_unit", "tests_parity", "tests_fault"])

    def asan_of_others(self):
        """Every third of the other tests, in turn, and of these as many as fit."""
        readers = {f"part.{program}" for program in READERS_OF_FOREIGN_BYTES}
        every = tests.listed("build/asan", ["-L", SUITES_UNDER_ASAN, "-E", NOT_UNDER_ASAN])
        others = [name for name in every if not name.startswith("fuzz.") and name.rpartition(".")[0] not in readers]
        in_turn = turns.in_turn(others, self.turn)
        output.say(f"{len(others) - len(in_turn)} of {len(others)} come in later runs")
        seconds = (self.limit.left() - self.reserved_after("asan, other programs")) * self.cores / self.pace
        chosen, late = tests.that_fit(in_turn, self.costs["tests"], seconds)
        outcome = tests.run("build/asan", self.limit, self.cores, ["-R", tests.pattern(chosen)]) if chosen else tests.Outcome()
        outcome.left_out += late
        return outcome

    def benchmarks(self):
        self.build_targets("release", ["benchmarks_compile"])

    def torture(self):
        # Two minutes with a fixed seed; run other seeds by hand.
        self.must(["./viaduct.sh", "torture", "--minutes", "2", "--seed", str(TORTURE_SEED)], self.limit.left())

    def random_runs(self):
        # A minute from a fixed seed; run other seeds by hand.
        self.must(["./viaduct.sh", "fuzz-runs", "--minutes", "1", "--seed", str(RANDOM_RUNS_SEED)], self.limit.left())
