#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "subcommands.h"

namespace viaduct::cli {

Subcommand add_version(CLI::App& root) {
  CLI::App* app = root.add_subcommand("version", "Version, build type and backends");
  return {app, [] {
            fmt::print("viaduct {} ({})\n", VIADUCT_VERSION, VIADUCT_BUILD_TYPE);
            return 0;
          }};
}

}  // namespace viaduct::cli
