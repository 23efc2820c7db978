#include "run/nsys_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace viaduct {
namespace {

/// Of Nsight Systems' sessions, and of the libraries that it and its like have CUDA and NVTX load.
constexpr const char* kOfProfilers[] = {"NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH",
                                        "NVTX_INJECTION64_PATH"};

/// As a POSIX shell reads it back.
std::string quoted(const std::string& argument) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::vector<std::string> nsys_traces() {
  return {"cublas",
          "cublas-verbose",
          "cuda",
          "cuda-hw",
          "cudla",
          "cudla-verbose",
          "cudnn",
          "cusolver",
          "cusolver-verbose",
          "cusparse",
          "cusparse-verbose",
          "gds",
          "mpi",
          "nvtx",
          "nvvideo",
          "openacc",
          "opengl",
          "openmp",
          "oshmem",
          "osrt",
          "python-gil",
          "syscall",
          "ucx",
          "vulkan"};
}

bool profiler_watches(const EnvironmentLookup& environment) {
  return std::ranges::any_of(kOfProfilers,
                             [&](const char* name) { return environment(name) != nullptr; });
}

std::string nsys_command(const ProfilingConfig& config, const std::vector<std::string>& program) {
  const std::vector<std::string>& traces = config.nsys_trace;
  // The run goes on after the last recorded step.
  std::string line = fmt::format(
      "nsys profile --trace={} --capture-range=cudaProfilerApi --capture-range-end=stop",
      traces.empty() ? std::string("none") : fmt::format("{}", fmt::join(traces, ",")));
  for (const std::string& argument : program) line += " " + quoted(argument);
  return line;
}

std::vector<std::string> program_of_process() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> arguments;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return arguments.empty() ? std::vector<std::string>{"viaduct", "train", "…"} : arguments;
}

}  // namespace viaduct
