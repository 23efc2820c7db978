#include "bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "bench_device.h"
#include "calibrate.h"
#include "number_checks.h"

namespace viaduct::cli {
namespace {

struct Options {
  bool calibrate = false;
  std::string out;
  CalibrationEffort effort;
};

int run_calibration(Options& options) {
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

Subcommand add_bench(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("bench", "Measure operations and compare them with the measured peak");
  app->require_subcommand(0, 1);
  auto options = std::make_shared<Options>();
  options->effort.threads = 0;
  CLI::Option* calibrate = app->add_flag(
      "--calibrate", options->calibrate,
      "Measure the table that the planner uses for this machine, or for its GPU; takes about a "
      "minute");
  app->add_option("--out", options->out, "File for the table (default: standard output)")
      ->check(new_path())
      ->needs(calibrate);
  app->add_option("--seconds", options->effort.seconds,
                  "Approximate length of the calibration; a shorter one leaves out long products")
      ->capture_default_str()
      ->check(CLI::Range(0.5, 3600.0))
      ->needs(calibrate);
  app->add_option("--threads", options->effort.threads,
                  "Threads of a rank in the calibration of a cpu (0: all cores)")
      ->check(CLI::Range(0, 4096))
      ->needs(calibrate);
  app->add_option(
         "--ranks", options->effort.ranks,
         "Ranks on the cpu that are measured at the same time, since they share caches and "
         "memory (0: as many as it has cores for)")
      ->check(CLI::Range(0, 4096))
      ->needs(calibrate);
  add_device_option(*app, options->effort.device)->needs(calibrate);
  app->footer(
      "Examples:\n  viaduct bench gemm --m 4096 --n 768 --k 768 --form forward --dtype bf16\n"
      "  viaduct bench ops --device cuda\n"
      "  viaduct bench --calibrate --out machine.yaml");
  const std::vector<Subcommand> below{add_bench_attention(*app), add_bench_collective(*app),
                                      add_bench_gemm(*app), add_bench_ops(*app),
                                      add_bench_step(*app)};
  return {app, [below, options] {
            for (const Subcommand& subcommand : below) {
              if (!subcommand.app->parsed()) continue;
              VIADUCT_CHECK(ConfigError, !options->calibrate,
                            "bench: --calibrate cannot be combined with {}",
                            subcommand.app->get_name());
              return subcommand.run();
            }
            VIADUCT_CHECK(
                ConfigError, options->calibrate,
                "bench: expected a subcommand (attention, collective, gemm, ops, step) or "
                "--calibrate");
            return run_calibration(*options);
          }};
}

}  // namespace viaduct::cli
