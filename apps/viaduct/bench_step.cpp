// viaduct bench step: whole training steps on mock data, next to the measured matmul peak.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "bench.h"
#include "config/value_json.h"
#include "engine/plan_memory.h"
#include "hardware/cpu/peak.h"
#include "hardware/cpu_features.h"
#include "model/flops.h"
#include "number_checks.h"
#include "override_scope.h"
#include "profile_report.h"
#include "report/memory_usage.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "run/run_length.h"
#include "run/same_settings.h"
#include "train/training_data.h"

namespace viaduct::cli {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  int steps = 20, warmup = 3;
  std::string memory = "planned";
  bool profile = false, json = false;
};

/// Mock data, a constant learning rate, and nothing that is written.
OverrideScope scope() {
  return {"viaduct bench step",
          {"model", "comm_overlap", "ddp", "dist", "memory", "mixed_precision", "optimizer", "peft",
           "rng", "train.global_batch_size", "train.micro_batch_size"}};
}

struct Measured {
  std::vector<double> seconds;  // of each step, sorted
  PhaseSeconds phases;          // per step
  Profile profile;              // empty unless asked for
  MeasuredPeaks machine;        // of one rank, with the profile
  FigureOfRanks peak_memory_bytes;
  OffloadCounts offload;              // of the measured steps
  int64_t arena_bytes = 0;            // 0 without a plan
  int64_t resident_growth_bytes = 0;  // of the process, from before its engines to its peak
  double model_flops = 0;
  int64_t tokens = 0;
  int64_t ranks = 1;
  MatmulPeak peak;  // of one rank

  double median() const { return seconds[seconds.size() / 2]; }
};

/// What one rank of `world` measures; all ranks take the same steps.
Measured measure(const RunSetup& setup, const Options& options,
                 const std::shared_ptr<Communicator>& world) {
  const RunConfig& config = setup.config;
  check_same_settings(world->host(), config);
  VIADUCT_CHECK(
      ConfigError, !config.context_parallel.hybrid_context_parallel,
      "model.hybrid_context_parallel: true, but bench step runs whole rows, not documents");
  const RankDevice rank = make_rank_device(config.dist);
  world->record_on(rank.device.get());
  const ResolvedRun run = resolve_run(config, setup.model);
  const GlobalRank place{world->rank()};
  const TrainingData data(setup, rank.device->pool(), run.parallelism.size(Axis::dp),
                          run.parallelism.mesh.coordinate(place, Axis::dp).value);
  // Ranks may be threads of this process: none of them begins before this one has looked.
  world->barrier();
  const int64_t resident_before = process_memory().resident_bytes;
  world->barrier();
  if (options.memory == "planned") rank.device->use_plan(plan_memory(setup, place).plan);
  Engine engine(*rank.device, rank.ops, setup.model, run, make_groups(run, world));
  engine.initialize();
  Measured m;
  // A GPU's peak is not known here: `viaduct bench gemm --device cuda` measures its products.
  const auto peak_of_rank = [&] {
    return rank.device->kind() == DeviceKind::cpu
               ? measure_matmul_peak(rank.device->pool(), run.layers.precision.activation,
                                     cpu_isa_of(config.dist))
               : MatmulPeak{};
  };
  m.peak = peak_of_rank();
  const int64_t rows = batch_schedule(config).full();
  StepRecord record;
  const SlotMemory* second = engine.second_memory();
  OffloadCounts before;
  for (int step = 0; step < options.warmup + options.steps; ++step) {
    const bool counted = step >= options.warmup;
    if (step == options.warmup) {
      engine.reset_phases();
      if (second != nullptr) before = second->counts();
    }
    if (counted && options.profile) rank.device->set_record(&record);
    world->barrier();
    const double begin = steady_seconds();
    std::optional<RecordScope> scope;
    scope.emplace(rank.device->record(), ScopeKind::step, "step");
    StepInputs inputs;
    inputs.update = step + 1;
    inputs.learning_rate = config.optimizer.lr;
    inputs.decoupled_learning_rate = config.optimizer.decoupled_lr.value_or(0);
    inputs.weight_decay_factor = config.optimizer.weight_decay;
    engine.begin_step(inputs);
    double scored = 0;
    engine.run_micro_batches(data.micro_batches(rows), [&](int64_t i) {
      HostBatch batch = data.train(step * rows, i);
      scored += batch.scored_weight();
      return batch;
    });
    engine.finish_step(scored);
    rank.device->wait_host(rank.device->record_event(kComputeStream));
    scope.reset();
    if (counted) m.seconds.push_back(steady_seconds() - begin);
  }
  rank.device->set_record(nullptr);
  if (second != nullptr) m.offload = second->counts() - before;
  world->barrier();
  m.peak.keep_best(peak_of_rank());
  m.resident_growth_bytes = process_memory().peak_resident_bytes - resident_before;
  m.arena_bytes = rank.device->memory().planned_bytes;
  std::sort(m.seconds.begin(), m.seconds.end());
  m.phases = engine.phases();
  for (double* phase : {&m.phases.forward, &m.phases.backward, &m.phases.optimizer})
    *phase /= options.steps;
  if (options.profile) {
    world->barrier();
    m.machine = measure_peaks(rank.device->pool(), cpu_isa_of(config.dist));
    m.profile = profile(record, m.machine.peaks);
  }
  const HostFigure peak{static_cast<double>(rank.device->memory().peak_bytes)};
  m.peak_memory_bytes = world->host().post({&peak, 1}).wait().front();
  m.ranks = world->size();
  const int64_t length = config.model.seq_length.value();
  m.tokens = rows * length;
  m.model_flops =
      training_flops(flop_sizes(setup.model, setup.config.peft.resolved), rows, length).model();
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
      {"mfu", m.peak.known() ? nlohmann::ordered_json(model_flops_utilization(rate, m.peak))
                             : nlohmann::ordered_json()},
      {"flop_convention", kFlopConvention},
      {"peak_tflops", m.peak.tflops},
      {"peak", m.peak.describe()},
      {"peak_memory_bytes", static_cast<int64_t>(m.peak_memory_bytes.most)},
      {"peak_memory_bytes_of_ranks",
       {{"min", m.peak_memory_bytes.least},
        {"min_rank", m.peak_memory_bytes.least_rank},
        {"mean", m.peak_memory_bytes.mean()},
        {"max", m.peak_memory_bytes.most},
        {"max_rank", m.peak_memory_bytes.most_rank}}},
      {"arena_bytes", m.arena_bytes},
      {"resident_growth_bytes", m.resident_growth_bytes},
      {"phases",
       {{"forward", m.phases.forward},
        {"backward", m.phases.backward},
        {"optimizer", m.phases.optimizer}}}};
  if (m.offload.puts > 0) {
    const auto steps = static_cast<double>(m.seconds.size());
    document["second_memory"] = {
        {"bytes_out", static_cast<double>(m.offload.put_bytes) / steps},
        {"bytes_back", static_cast<double>(m.offload.fetched_bytes) / steps},
        {"most_bytes", m.offload.most_bytes},
        {"wait_seconds", m.offload.wait_seconds / steps}};
  }
  if (m.profile.steps == 0) return document;
  document["profile"] = profile_json(m.profile, m.machine);
  for (const ProfileRow& row : over_phases(m.profile)) {
    if (row.kind != ProfileKind::op) continue;
    const auto steps = static_cast<double>(m.profile.steps);
    document["ops"][row.name + " (" + row.kernel + ")"] = {
        {"seconds", row.seconds / steps},
        {"flops", row.cost.total_flops() / steps},
        {"bytes", static_cast<double>(row.cost.bytes_read + row.cost.bytes_written) / steps},
        {"calls", row.calls}};
  }
  return document;
}

void print(const Measured& m) {
  const double rate = tflops_per_rank(m.model_flops, m.median(), m.ranks);
  fmt::print("{:.0f} tokens/s; a step takes {} (median; {} to {})\n",
             static_cast<double>(m.tokens) / m.median(), format_seconds(m.median()),
             format_seconds(m.seconds.front()), format_seconds(m.seconds.back()));
  fmt::print("{:.4f} TFLOP/s per rank ({}), {}\n", rate, kFlopConvention,
             m.peak.known()
                 ? fmt::format("MFU {:.1f} % of {}", 100 * model_flops_utilization(rate, m.peak),
                               m.peak.describe())
                 : m.peak.describe());
  fmt::print("forward {}, backward {}, optimizer {}; memory {}\n", format_seconds(m.phases.forward),
             format_seconds(m.phases.backward), format_seconds(m.phases.optimizer),
             format_bytes(static_cast<int64_t>(m.peak_memory_bytes.most)));
  if (m.offload.puts > 0) {
    const auto steps = static_cast<int64_t>(m.seconds.size());
    fmt::print("second memory: {} out and {} back a step, waited {}\n",
               format_bytes(m.offload.put_bytes / steps),
               format_bytes(m.offload.fetched_bytes / steps),
               format_seconds(m.offload.wait_seconds / static_cast<double>(steps)));
  }
  if (m.profile.steps > 0) print_profile(m.profile, m.machine);
}

}  // namespace

Subcommand add_bench_step(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* app = bench.add_subcommand("step", "Whole training steps on mock data");
  app->add_option("--config", options->config,
                  "YAML file (configs/bench has those of the benchmarks page)")
      ->required();
  app->add_option("OVERRIDES", options->overrides, "section.field=value: " + scope().help());
  app->add_option("--steps", options->steps, "Measured steps")
      ->check(positive())
      ->capture_default_str();
  app->add_option("--warmup", options->warmup, "Steps before the measured ones")
      ->check(not_negative())
      ->capture_default_str();
  app->add_option(
         "--memory", options->memory,
         "planned: tensors get their places from a dry run; lists: from free lists by size")
      ->check(CLI::IsMember({"planned", "lists"}))
      ->capture_default_str();
  app->add_flag("--profile", options->profile,
                "Time and rate of every op beside the roofline, by phase");
  app->add_flag("--json", options->json, "One JSON document");
  app->footer(
      "Example:\n  viaduct bench step --config configs/bench/llama_10m.yaml --steps 5 --profile");
  return {
      app, [options] {
        scope().check(options->overrides);
        std::vector<std::string> overrides = options->overrides;
        overrides.push_back("dataset.mock=true");
        overrides.push_back("validation.eval_iters=0");
        overrides.push_back(fmt::format("train.train_iters={}", options->steps + options->warmup));
        // Steps of the full batch, whatever the run's ramp and length are.
        for (const char* setting : {"train.train_samples=null", "train.rampup_batch_size=null",
                                    "scheduler.lr_warmup_iters=0", "scheduler.lr_warmup_samples=0"})
          overrides.emplace_back(setting);
        const Launch launch = launch_of_process();
        RunConfig defaults;
        defaults.dist = launch_defaults(launch, {options->config, overrides});
        const RunSetup setup = prepare_run(load_run_config(options->config, overrides, defaults));
        VIADUCT_CHECK(ConfigError,
                      !options->profile || setup.config.dist.device_kind() == DeviceKind::cpu,
                      "bench step: --profile with dist.device={}: the times of a record are the "
                      "host's; `viaduct bench ops --device cuda` times ops on a GPU",
                      choice_name(setup.config.dist.device.value()));
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
