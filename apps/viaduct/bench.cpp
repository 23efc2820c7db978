#include "bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/physical_memory.h"
#include "calibrate.h"
#include "device/device.h"

namespace viaduct::cli {
namespace {

struct Options {
  bool calibrate = false;
  std::string out;
  CalibrationEffort effort;
};

int run_calibration(Options& options) {
  if (options.effort.threads == 0) options.effort.threads = default_pool_threads(1);
  const Calibration table = calibrate(options.effort);
  if (options.out.empty()) {
    fmt::print("{}", to_yaml(table));
    return 0;
  }
  save_calibration(table, options.out);
  for (const CalibratedPeak& peak : table.peaks)
    fmt::print("{}: peak {:.3g} TFLOP/s ({})\n", peak.dtype, peak.tflops, peak.name);
  fmt::print("{}: {} matrix products, {} attentions, {} streams, {} all-reduces\n", options.out,
             table.gemm.size(), table.attention.size(), table.streams.size(),
             table.all_reduce.size());
  return 0;
}

}  // namespace

void check_fits(double bytes, const std::string& what) {
  VIADUCT_CHECK(ConfigError, bytes <= physical_memory_bytes(),
                "{}: the operands take {:.4g} GiB, this machine has {:.4g} GiB of memory", what,
                bytes / (1 << 30), physical_memory_bytes() / (1 << 30));
}

Subcommand add_bench(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("bench", "Measure operations and compare them with the measured peak");
  app->require_subcommand(0, 1);
  auto options = std::make_shared<Options>();
  options->effort.threads = 0;
  CLI::Option* calibrate = app->add_flag(
      "--calibrate", options->calibrate,
      "Measure the table that the planner uses for this machine; takes about a minute");
  app->add_option("--out", options->out, "File for the table (default: standard output)")
      ->needs(calibrate);
  app->add_option("--seconds", options->effort.seconds,
                  "Approximate length of the calibration; a shorter one leaves out long products")
      ->capture_default_str()
      ->check(CLI::Range(0.5, 3600.0))
      ->needs(calibrate);
  app->add_option("--threads", options->effort.threads, "Threads of the calibration (0: all cores)")
      ->check(CLI::Range(0, 4096))
      ->needs(calibrate);
  app->footer(
      "Examples:\n  viaduct bench gemm --m 4096 --n 768 --k 768 --form forward --dtype bf16\n"
      "  viaduct bench --calibrate --out machine.yaml");
  const std::vector<Subcommand> below{add_bench_attention(*app), add_bench_collective(*app),
                                      add_bench_gemm(*app), add_bench_step(*app)};
  return {app, [below, options] {
            for (const Subcommand& subcommand : below) {
              if (!subcommand.app->parsed()) continue;
              VIADUCT_CHECK(ConfigError, !options->calibrate,
                            "bench: --calibrate cannot be combined with {}",
                            subcommand.app->get_name());
              return subcommand.run();
            }
            VIADUCT_CHECK(ConfigError, options->calibrate,
                          "bench: expected a subcommand (attention, collective, gemm, step) or "
                          "--calibrate");
            return run_calibration(*options);
          }};
}

}  // namespace viaduct::cli
