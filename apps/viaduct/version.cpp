#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/toolkit_library.h"
#include "comm/world.h"
#include "data/tokenizer/unicode_sets.h"
#include "hardware/cpu_features.h"
#include "ops/cpu/amx_problem.h"
#include "ops/cpu/cpu_ops.h"
#include "run/cuda_backend.h"
#include "subcommands.h"

namespace viaduct::cli {

namespace {

/// The files of libraries that are found on this machine, a line each.
std::string found_libraries() {
  std::string text;
  for (const ToolkitLibrary& library : {kCublasLtLibrary, kCudnnLibrary, kNcclLibrary})
    text += fmt::format("\n{}: {}", library.file, describe_toolkit_library(library));
  return text;
}

/// Lines of the library of GPU kernels, and of the libraries that it uses.
std::string gpu_text() {
  const CudaStatus cuda = cuda_status();
  if (!cuda.installed) return "cuda: not built\nnccl: not built";
  if (!cuda.usable())
    return "cuda: built in; not usable here: " + cuda.problem +
           "\nnccl: not usable here without cuda" + found_libraries();
  std::string text = "cuda: built in; usable here: " + cuda.gpu;
  try {
    text += "\nnccl: built in; usable here: " + cuda_backend().nccl_version();
  } catch (const Error& error) {
    text += "\nnccl: built in; not usable here: " + std::string(error.what());
  }
  return text + found_libraries();
}

/// What is built in, and which parts this machine can use.
std::string version_text() {
  std::string isas;
  for (const CpuIsa isa : cpu_isas_by_speed())
    isas += (isas.empty() ? "" : ", ") + std::string(cpu_isa_name(isa));
  const std::string unused = amx_problem().empty() ? "" : "cpu: WARNING: " + amx_problem() + "\n";
  const std::string mpi = mpi_library();
  return fmt::format(
      "viaduct {} ({})\n"
      "cpu: built in; usable here: {} ({})\n{}"
      "mpi: {}\n{}\n"
      "unicode: {}, as tokenizers {} has it",
      VIADUCT_VERSION, VIADUCT_BUILD_TYPE, isas, describe(detect_cpu_features()), unused,
      mpi.empty() ? "not built" : "built in; usable here: " + mpi, gpu_text(), unicode_version(),
      unicode_source_version());
}

}  // namespace

Subcommand add_version(CLI::App& root) {
  root.set_version_flag("--version", version_text);
  CLI::App* app = root.add_subcommand("version", "Version, build type and backends");
  return {app, [] {
            fmt::print("{}\n", version_text());
            return 0;
          }};
}

}  // namespace viaduct::cli
