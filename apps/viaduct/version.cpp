#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "comm/world.h"
#include "hardware/cpu_features.h"
#include "ops/cpu/amx_problem.h"
#include "ops/cpu/cpu_ops.h"
#include "subcommands.h"

namespace viaduct::cli {

namespace {

/// What is built in, and which parts this machine can use.
std::string version_text() {
  std::string isas;
  for (const CpuIsa isa : kCpuIsas) {
    if (cpu_supports(isa)) isas += (isas.empty() ? "" : ", ") + std::string(cpu_isa_name(isa));
  }
  const std::string unused = amx_problem().empty() ? "" : "cpu: WARNING: " + amx_problem() + "\n";
  const std::string mpi = mpi_library();
  return fmt::format(
      "viaduct {} ({})\n"
      "cpu: built in; usable here: {} ({})\n{}"
      "mpi: {}\n"
      "cuda: not built\nnccl: not built",
      VIADUCT_VERSION, VIADUCT_BUILD_TYPE, isas, describe(detect_cpu_features()), unused,
      mpi.empty() ? "not built" : "built in; usable here: " + mpi);
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
