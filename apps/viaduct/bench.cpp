#include "bench.h"

#include <CLI/CLI.hpp>

namespace viaduct::cli {

Subcommand add_bench(CLI::App& root) {
  CLI::App* app = root.add_subcommand("bench", "Measure operations next to the measured peak");
  app->require_subcommand(1);
  app->footer("Example:\n  viaduct bench attention --sequence 1024 --heads 12 --head-dim 64");
  const std::vector<Subcommand> below{add_bench_attention(*app)};
  return {app, [below] {
            for (const Subcommand& subcommand : below) {
              if (subcommand.app->parsed()) return subcommand.run();
            }
            return 2;
          }};
}

}  // namespace viaduct::cli
