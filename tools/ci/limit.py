"""The time that a run of the checks has, and the pace of the machine."""

import os
import subprocess
import tempfile
import time


class Limit:
    """Seconds until the end of the run."""

    def __init__(self, minutes, begin=None, clock=time.time):
        self.clock = clock
        self.begin = clock() if begin is None else begin
        self.minutes = minutes

    def passed(self):
        return self.clock() - self.begin

    def left(self):
        return self.minutes * 60 - self.passed()

    def stop_time(self):
        """The end in ctest's form, and a few seconds earlier: ctest kills what runs then, and the report comes after it."""
        return time.strftime("%H:%M:%S", time.localtime(self.begin + self.minutes * 60 - 20))


# Compiled once on each core, without a compiler cache. Only system headers, so that changes to the code do not change the pace.
PACE_SOURCE = """#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
bool matches(const std::string& text) { return std::regex_match(text, std::regex("a+(b|c)*[0-9]{2,}")); }
int main(int, char** arguments) {
  std::map<std::string, std::function<bool(std::string)>> tests{{"a", matches}};
  return tests.begin()->second(std::filesystem::path(arguments[0]).string());
}
"""


def compile_seconds(cores):
    """Seconds for PACE_SOURCE on every core at the same time."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "pace.cpp")
        with open(source, "w") as file:
            file.write(PACE_SOURCE)
        begin = time.monotonic()
        jobs = [subprocess.Popen(["g++", "-std=c++20", "-O2", "-c", source, "-o", os.path.join(folder, f"{i}.o")])
                for i in range(cores)]
        if any(job.wait() != 0 for job in jobs):
            raise SystemExit("ci: the compiler cannot compile a source of ten lines")
        return time.monotonic() - begin
