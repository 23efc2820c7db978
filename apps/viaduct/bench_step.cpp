// viaduct bench step: whole training steps on mock data, next to the measured matmul peak.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "bench.h"
#include "hardware/cpu_features.h"
#include "model/flops.h"
#include "ops/cpu/peak.h"
#include "train/engine_settings.h"
#include "train/host_values.h"
#include "train/launch.h"
#include "train/rank_device.h"
#include "train/training_data.h"
#include "value_json.h"

namespace viaduct::cli {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  int steps = 20, warmup = 3;
  bool profile = false, json = false;
};

struct OpTotal {
  double seconds = 0, flops = 0, bytes = 0;
  int64_t calls = 0;
};

struct Measured {
  std::vector<double> seconds;  // of each step, sorted
  PhaseSeconds phases;          // per step
  std::map<std::string, OpTotal> ops;
  int64_t peak_memory_bytes = 0;
  double model_flops = 0;
  int64_t tokens = 0;
  int64_t ranks = 1;
  MatmulPeak peak;  // of one rank

  double median() const { return seconds[seconds.size() / 2]; }
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What one rank of `world` measures; all ranks take the same steps.
Measured measure(const RunSetup& setup, const Options& options,
                 const std::shared_ptr<Communicator>& world) {
  const RunConfig& config = setup.config;
  const RankDevice rank = make_rank_device(config.dist);
  world->record_on(rank.device.get());
  const Layout layout = make_layout(config, setup.model);
  const GlobalRank place{world->rank()};
  const TrainingData data(setup, rank.device->pool(), layout.size(Axis::dp),
                          layout.mesh.coordinate(place, Axis::dp).value);
  Engine engine(*rank.device, rank.ops, setup.model, engine_settings(setup, layout, place),
                make_parallel_groups(layout.mesh, world));
  engine.initialize();
  Measured m;
  m.peak = measure_matmul_peak(rank.device->pool(), engine.settings().precision.activation,
                               cpu_isa_of(config.dist));
  StepRecord record;
  for (int step = 0; step < options.warmup + options.steps; ++step) {
    const bool counted = step >= options.warmup;
    if (step == options.warmup) engine.reset_phases();
    if (counted && options.profile) rank.device->set_record(&record);
    world->barrier();
    const double begin = now();
    StepInputs inputs;
    inputs.update = step + 1;
    inputs.learning_rate = config.optimizer.lr;
    engine.begin_step(inputs);
    double scored = 0;
    engine.run_micro_batches(data.micro_batches(), [&](int64_t i) {
      HostBatch batch = data.train(step * config.train.global_batch_size, i);
      scored += batch.scored_weight();
      return batch;
    });
    engine.finish_step(scored);
    if (counted) m.seconds.push_back(now() - begin);
  }
  rank.device->set_record(nullptr);
  std::sort(m.seconds.begin(), m.seconds.end());
  m.phases = engine.phases();
  for (double* phase : {&m.phases.forward, &m.phases.backward, &m.phases.optimizer})
    *phase /= options.steps;
  for (const OpEntryRecord& op : record.ops()) {
    OpTotal& total = m.ops[op.op + " (" + op.kernel + ")"];
    total.seconds += (op.end_seconds - op.begin_seconds) / options.steps;
    total.flops += op.cost.total_flops() / options.steps;
    total.bytes += static_cast<double>(op.cost.bytes_read + op.cost.bytes_written) / options.steps;
    ++total.calls;
  }
  m.peak_memory_bytes = static_cast<int64_t>(all_reduce_value(
      *world, static_cast<double>(rank.device->memory().peak_bytes), ReduceOp::max));
  m.ranks = world->size();
  const int64_t length = config.model.seq_length.value();
  m.tokens = config.train.global_batch_size * length;
  m.model_flops =
      training_flops(flop_sizes(setup.model), config.train.global_batch_size, length).model();
  return m;
}

nlohmann::ordered_json report(const RunSetup& setup, const Measured& m) {
  const double rate = tflops_per_rank(m.model_flops, m.median(), m.ranks);
  nlohmann::ordered_json document{
      {"config", to_json(parse_yaml(to_yaml(setup.config), "resolved configuration"))},
      {"machine", describe(detect_cpu_features())},
      {"tokens_per_second", static_cast<double>(m.tokens) / m.median()},
      {"step_seconds",
       {{"median", m.median()}, {"min", m.seconds.front()}, {"max", m.seconds.back()}}},
      {"ranks", m.ranks},
      {"tflops_per_rank", rate},
      {"mfu", model_flops_utilization(rate, m.peak)},
      {"flop_convention", kFlopConvention},
      {"peak_tflops", m.peak.tflops},
      {"peak", m.peak.describe()},
      {"peak_memory_bytes", m.peak_memory_bytes},
      {"phases",
       {{"forward", m.phases.forward},
        {"backward", m.phases.backward},
        {"optimizer", m.phases.optimizer}}}};
  for (const auto& [name, op] : m.ops) {
    document["ops"][name] = {
        {"seconds", op.seconds}, {"flops", op.flops}, {"bytes", op.bytes}, {"calls", op.calls}};
  }
  return document;
}

void print(const Measured& m) {
  const double rate = tflops_per_rank(m.model_flops, m.median(), m.ranks);
  fmt::print("{:.0f} tokens/s; a step takes {} (median; {} to {})\n",
             static_cast<double>(m.tokens) / m.median(), format_seconds(m.median()),
             format_seconds(m.seconds.front()), format_seconds(m.seconds.back()));
  fmt::print("{:.4f} TFLOP/s per rank ({}), MFU {:.1f} % of {}\n", rate, kFlopConvention,
             100 * model_flops_utilization(rate, m.peak), m.peak.describe());
  fmt::print("forward {}, backward {}, optimizer {}; memory {}\n", format_seconds(m.phases.forward),
             format_seconds(m.phases.backward), format_seconds(m.phases.optimizer),
             format_bytes(m.peak_memory_bytes));
  if (m.ops.empty()) return;
  std::vector<std::pair<std::string, OpTotal>> rows(m.ops.begin(), m.ops.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  fmt::print("\n{:<44} {:>10} {:>7} {:>10} {:>8} {:>10}\n", "op (kernel)", "seconds", "share",
             "GFLOP/s", "GB/s", "of peak");
  for (const auto& [name, op] : rows) {
    if (op.seconds <= 0) continue;
    fmt::print("{:<44} {:>10.5f} {:>6.1f}% {:>10.1f} {:>8.1f} {:>9.1f}%\n", name, op.seconds,
               100 * op.seconds / m.median(), op.flops / op.seconds * 1e-9,
               op.bytes / op.seconds * 1e-9, 100e-12 * op.flops / op.seconds / m.peak.tflops);
  }
}

}  // namespace

Subcommand add_bench_step(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* app = bench.add_subcommand("step", "Whole training steps on mock data");
  app->add_option("--config", options->config, "YAML file (configs/bench holds the standing ones)")
      ->required();
  app->add_option("OVERRIDES", options->overrides, "section.field=value, as many as you like");
  app->add_option("--steps", options->steps, "Measured steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--warmup", options->warmup, "Steps before them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_flag("--profile", options->profile, "Time and rate of every op");
  app->add_flag("--json", options->json, "One JSON document");
  app->footer(
      "Example:\n  viaduct bench step --config configs/bench/llama_10m.yaml --steps 5 --profile");
  return {
      app, [options] {
        std::vector<std::string> overrides = options->overrides;
        overrides.push_back("dataset.mock=true");
        overrides.push_back("validation.eval_iters=0");
        overrides.push_back(fmt::format("train.train_iters={}", options->steps + options->warmup));
        overrides.push_back("scheduler.lr_warmup_iters=0");
        const Launch launch = launch_on_cpu();
        RunConfig defaults;
        defaults.dist = launch_defaults(launch);
        const RunSetup setup = prepare_run(load_run_config(options->config, overrides, defaults));
        Measured measured;  // rank 0's
        run_ranks(setup.config.dist, launch, [&](std::shared_ptr<Communicator> world) {
          Measured mine = measure(setup, *options, world);
          if (world->rank() == 0) measured = std::move(mine);
        });
        if (measured.seconds.empty()) return 0;  // a process of another rank
        if (options->json) {
          fmt::print("{}\n", report(setup, measured).dump(2));
        } else {
          print(measured);
        }
        return 0;
      }};
}

}  // namespace viaduct::cli
