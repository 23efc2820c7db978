#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "before_ranks.h"
#include "bench.h"
#include "bench_device.h"
#include "collective_timing.h"
#include "comm/launcher.h"
#include "comm/world.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  CollectiveProblem problem;
  std::string dtype = "fp32", backend = "thread";
  int ranks = 0;  // 0: not given
  bool json = false;
};

void print(const Arguments& a, int ranks, const CollectiveTiming& timing) {
  if (a.json) {
    nlohmann::ordered_json document{{"op", a.problem.op},
                                    {"bytes", a.problem.bytes},
                                    {"ranks", ranks},
                                    {"backend", a.backend},
                                    {"dtype", a.dtype},
                                    {"microseconds", timing.microseconds},
                                    {"bus_gbytes_per_second", timing.bus_gbytes_per_second},
                                    {"copy_gbytes_per_second", timing.copy_gbytes_per_second}};
    if (timing.mpi_own_microseconds > 0) {
      document["mpi_own_microseconds"] = timing.mpi_own_microseconds;
      document["times_as_fast_as_mpi"] = timing.mpi_own_microseconds / timing.microseconds;
    }
    fmt::print("{}\n", document.dump());
    return;
  }
  fmt::print("{:<15} {:>12} {:>6} {:>8} {:>12} {:>10} {:>12}\n", "", "bytes", "ranks", "backend",
             "µs", "bus GB/s", "copy GB/s");
  fmt::print("{:<15} {:>12} {:>6} {:>8} {:>12.2f} {:>10.2f} {:>12.2f}\n", a.problem.op,
             a.problem.bytes, ranks, a.backend, timing.microseconds, timing.bus_gbytes_per_second,
             timing.copy_gbytes_per_second);
  if (timing.mpi_own_microseconds > 0)
    fmt::print("MPI's own: {:.2f} µs; this is {:.2f} times as fast\n", timing.mpi_own_microseconds,
               timing.mpi_own_microseconds / timing.microseconds);
}

int run(Arguments a) {
  a.problem.dtype = a.dtype == "bf16" ? DType::bf16 : a.dtype == "fp16" ? DType::f16 : DType::f32;
  check_fits(2.5 * static_cast<double>(a.problem.bytes) * std::max(2, a.ranks),
             fmt::format("--bytes {} on {} ranks", a.problem.bytes, std::max(2, a.ranks)));
  const auto measure = [&](std::shared_ptr<Communicator> world) {
    const CollectiveTiming timing = time_collective(*world, a.problem);
    if (world->rank() == 0) print(a, world->size(), timing);
  };
  const Launch launch = detect_launch([](const char* name) { return std::getenv(name); });
  if (a.backend == "mpi") {
    const int ranks = a.ranks == 0 ? launch.ranks : a.ranks;
    before_ranks([&] {
      VIADUCT_CHECK(ConfigError, launch.launcher == Launcher::mpi && launch.ranks == ranks,
                    "--backend mpi: ranks are started by `mpirun -n {} viaduct bench collective "
                    "--backend mpi …`",
                    std::max(2, ranks));
    });
    a.problem.against_mpi = true;
    run_mpi_rank({}, measure);
  } else {
    before_ranks([&] {
      VIADUCT_CHECK(ConfigError, launch.launcher != Launcher::mpi || launch.ranks == 1,
                    "{} ranks were started: measure them with --backend mpi", launch.ranks);
    });
    run_thread_ranks(a.ranks == 0 ? 2 : a.ranks, {}, measure);
  }
  return 0;
}

}  // namespace

Subcommand add_bench_collective(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "collective", "One collective or ring of messages between ranks of this machine");
  auto a = std::make_shared<Arguments>();
  app->add_option("--op", a->problem.op, "Operation")
      ->capture_default_str()
      ->check(CLI::IsMember(collective_operations()));
  a->problem.bytes = 1 << 20;
  app->add_option("--bytes", a->problem.bytes, "Total bytes, divided over the ranks")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app->add_option("--ranks", a->ranks, "Ranks; by default 2, or the number that mpirun started")
      ->check(CLI::Range(2, 4096));
  app->add_option("--backend", a->backend, "How ranks are started and communicate")
      ->capture_default_str()
      ->check(CLI::IsMember({"mpi", "thread"}));
  app->add_option("--dtype", a->dtype, "Format of the elements")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  add_rounds_option(*app, a->problem.rounds);
  app->add_flag("--json", a->json, "One JSON document");
  app->footer(
      "Example:\n  viaduct bench collective --op all_reduce --bytes 1048576 --ranks 2 --backend "
      "thread\n  mpirun -n 2 --bind-to none viaduct bench collective --backend mpi");
  return {app, [a] { return run(*a); }};
}

}  // namespace viaduct::cli
