#include "bench.h"

#include <CLI/CLI.hpp>

namespace viaduct::cli {

Subcommand add_bench(CLI::App& root) {
  CLI::App* app = root.add_subcommand("bench", "Measure operations next to the measured peak");
  app->require_subcommand(1);
  app->footer(
      "Example:\n  viaduct bench gemm --m 4096 --n 768 --k 768 --form forward --dtype bf16");
  const std::vector<Subcommand> below{add_bench_attention(*app), add_bench_collective(*app),
                                      add_bench_gemm(*app), add_bench_step(*app)};
  return {app, [below] {
            for (const Subcommand& subcommand : below) {
              if (subcommand.app->parsed()) return subcommand.run();
            }
            return 2;
          }};
}

}  // namespace viaduct::cli
