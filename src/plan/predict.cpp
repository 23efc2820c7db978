#include "plan/predict.h"

#include <algorithm>

#include "base/error.h"
#include "base/run_tasks.h"
#include "plan/product_peak.h"
#include "plan/steady_rounds.h"
#include "run/run_length.h"
#include "timeline/resolver.h"

namespace viaduct {
namespace {

/// Adds the seconds of the step's ops and collectives, by where they come from.
void add_bases(const StepTimes& of, const CalibratedTime& calibrated, Prediction& prediction) {
  const auto add = [&](const BasedTime& time) {
    prediction.seconds_by_basis[static_cast<size_t>(time.basis)] += time.seconds;
  };
  for (const OpEntryRecord& op : of.record.ops())
    if (of.inside(op.at)) add(calibrated.op(op));
  for (const CollectiveRecord& c : of.record.collectives())
    if (of.inside(c.launched_at)) add(calibrated.collective(c));
}

/// The end of everything before a position of the record.
double end_before(const StepRecord& record, const RankTimes& times, int64_t at) {
  double end = 0;
  for (size_t i = 0; i < times.ops.size(); ++i)
    if (record.ops()[i].at < at) end = std::max(end, times.ops[i].end);
  for (size_t i = 0; i < times.collectives.size(); ++i)
    if (record.collectives()[i].launched_at < at) end = std::max(end, times.collectives[i].end);
  return end;
}

/// Of the host before a product of experts, besides its launch.
double expert_host_seconds(const RunConfig& config, const PredictionSettings& settings) {
  return settings.expert_product_seconds * static_cast<double>(config.model.moe.experts()) /
         config.parallel.expert_model_parallel_size;
}

/// Adds what the copies to and from the host's memory take longer than the step, beside which they
/// run.
void add_offload(const Cluster& cluster, const PredictionSettings& settings,
                 Prediction& prediction) {
  const double rate = cluster.gpu.host_bytes_per_second * settings.collectives.link_share;
  std::vector<double> longer;
  for (const StagePrediction& stage : prediction.stages) {
    const OffloadCounts& offload = stage.run.offload;
    const auto bytes = static_cast<double>(std::max(offload.put_bytes, offload.fetched_bytes));
    longer.push_back(std::max(0.0, bytes / rate - prediction.step_seconds));
  }
  const double most = *std::max_element(longer.begin(), longer.end());
  if (most == 0) return;
  for (size_t stage = 0; stage < longer.size(); ++stage) {
    StageTime& time = prediction.stages[stage].time;
    if (longer[stage] > 0) time.exposed["host memory"] += longer[stage];
    time.bubble += most - longer[stage];
  }
  prediction.step_seconds += most;
}

}  // namespace

PredictionSettings prediction_settings(const Cluster& cluster, bool spec_sheet) {
  PredictionSettings settings;
  settings.spec_sheet = spec_sheet;
  if (!cluster.gpu.is_cpu) return settings;
  settings.ops.extra_passes = 1;
  settings.ops.start_seconds = settings.ops.half_seconds = 1e-6;
  settings.ops.half_bytes = 1e4;
  settings.collectives.base_seconds = settings.collectives.link_step_seconds = 2e-5;
  settings.launch_seconds = settings.host_wait_seconds = 1e-6;
  return settings;
}

PredictionSettings calibrated_settings(const Cluster& cluster,
                                       std::shared_ptr<const Calibration> calibration) {
  PredictionSettings settings = prediction_settings(cluster);
  settings.ops.product_share = settings.ops.bandwidth_share = 1;
  settings.ops.start_seconds = calibration->launch.op_microseconds * 1e-6;
  settings.ops.extra_passes = 1;  // the kernels that were measured are ours
  if (cluster.gpu.is_cpu) settings.launch_seconds = 0;
  settings.calibration = std::move(calibration);
  return settings;
}

StageRuns::Keep kept_for(const PredictionSettings& settings) {
  return settings.calibration ? StageRuns::Keep::records_with_shapes : StageRuns::Keep::records;
}

double capacity_bytes(const Cluster& cluster, const PredictionSettings& settings) {
  const Gpu& gpu = cluster.gpu;
  return gpu.memory_bytes - (gpu.is_cpu ? settings.cpu_reserve_bytes : settings.reserve_bytes);
}

double host_bytes(const Cluster& cluster, const RunConfig& config, double bytes) {
  if (config.offload.offload_path || cluster.gpu.is_cpu)
    return 0;  // a file; counted with the ranks
  return bytes * std::min(cluster.gpus_per_host, config.dist.ranks);
}

Prediction predict(const StageRuns& of, const Cluster& cluster, const PredictionSettings& settings,
                   ThreadPool* pool, const Deadline& deadline) {
  std::vector<RankRecord> timed;
  Prediction prediction;
  for (size_t stage = 0; stage < of.stages(); ++stage) {
    prediction.stages.push_back({of.dry_run_of(stage), {}, 0, {}});
    const auto& windows = prediction.stages.back().run.windows;
    timed.push_back({of.rank(stage).value, &of.record(stage),
                     windows[static_cast<size_t>(MemorySequence::initialize)].end,
                     windows[static_cast<size_t>(MemorySequence::step)].end});
  }
  OpTimeSettings ops = settings.ops;
  ops.head_size = of.model().head_dim;
  const OpTime op_time(cluster.gpu, ops);
  const double share = settings.spec_sheet ? 1 : cluster.gpu.step_share;
  const CollectiveTime collective_time(cluster, settings.collectives);
  std::optional<CalibratedTime> calibrated;
  if (settings.calibration)
    calibrated.emplace(*settings.calibration, of.config(), cluster, ops, settings.collectives);
  MachineTimes machine{
      .op =
          [&](const OpEntryRecord& op) {
            return calibrated ? calibrated->op(op).seconds : op_time.seconds(op) / share;
          },
      .collective =
          [&](const CollectiveRecord& c) {
            return calibrated ? calibrated->collective(c).seconds : collective_time.seconds(c);
          },
      .launch = settings.launch_seconds,
      .host_wait = settings.host_wait_seconds,
      .slowdown = settings.slowdown,
      .multiprocessors = cluster.gpu.multiprocessors};
  if (const double host = expert_host_seconds(of.config(), settings); host > 0) {
    machine.host = [host](const OpEntryRecord& op) {
      return op.op == "grouped_gemm" && op.host_launches() > 0 ? host : 0;
    };
  }
  // A calibration has measured what ranks on cores copy, which have no links.
  if (!calibrated || calibrated->has_links())
    machine.link_use = [&](const CollectiveRecord& c) { return collective_time.link_use(c); };
  const std::vector<RankTimes> times = resolve_times(timed, machine, pool, deadline);
  // The first step is like the second except for weights that an earlier update left to be
  // gathered.
  double begin = 0, end = 0;
  for (size_t stage = 0; stage < of.stages(); ++stage) {
    const auto& step =
        prediction.stages[stage].run.windows[static_cast<size_t>(MemorySequence::step)];
    begin = std::max(begin, end_before(of.record(stage), times[stage], step.begin));
    end = std::max(end, times[stage].end);
  }
  const auto steps = [&](size_t stage) {
    return StepTimes{
        of.record(stage), times[stage],
        prediction.stages[stage].run.windows[static_cast<size_t>(MemorySequence::step)], begin};
  };
  run_tasks(pool, static_cast<int64_t>(of.stages()), [&](int64_t index, int) {
    const auto stage = static_cast<size_t>(index);
    StagePrediction& shown = prediction.stages[stage];
    const StepTimes step = steps(stage);
    shown.time = stage_time(step, end);
    if (settings.timeline)
      shown.timeline = stage_timeline(of.record(stage), times[stage], step.step, begin, end);
    for (size_t i = 0; i < times[stage].collectives.size(); ++i) {
      if (step.inside(of.record(stage).collectives()[i].launched_at))
        shown.busy_communication += times[stage].collectives[i].end - times[stage].begun[i];
    }
  });
  if (calibrated)
    for (size_t stage = 0; stage < of.stages(); ++stage)
      add_bases(steps(stage), *calibrated, prediction);
  prediction.step_seconds = end - begin;
  add_offload(cluster, settings, prediction);
  add_rates(of, cluster, settings, prediction);
  return prediction;
}

void add_rates(const StageRuns& of, const Cluster& cluster, const PredictionSettings& settings,
               Prediction& prediction) {
  const auto gpus = static_cast<double>(of.parallelism().mesh.ranks());
  const double tokens = static_cast<double>(batch_schedule(of.config()).full() *
                                            of.config().model.seq_length.value());
  prediction.tokens_per_second_per_gpu = tokens / prediction.step_seconds / gpus;
  const double flops = prediction.stages.front().run.model_flops / prediction.step_seconds / gpus;
  prediction.model_tflops_per_gpu = flops / 1e12;
  prediction.peak = product_peak(cluster.gpu, precision_recipe(of.config().mixed_precision));
  prediction.mfu = prediction.model_tflops_per_gpu / prediction.peak.tflops;
  prediction.capacity_bytes = capacity_bytes(cluster, settings);
  double peak = 0, offloaded = 0;
  for (const StagePrediction& stage : prediction.stages) {
    peak = std::max(peak, static_cast<double>(stage.run.peak.bytes));
    offloaded = std::max(offloaded, static_cast<double>(stage.run.offload.most_bytes));
  }
  prediction.host_bytes = host_bytes(cluster, of.config(), offloaded);
  prediction.host_capacity_bytes = cluster.host_memory_bytes;
  prediction.fits = peak <= prediction.capacity_bytes && !prediction.host_is_full();
}

Prediction predict(const RunSetup& setup, const Cluster& cluster,
                   const PredictionSettings& settings, int threads, const Deadline& deadline) {
  ThreadPool pool(threads);
  if (auto prediction = predict_steady_rounds(setup, cluster, settings, pool, deadline))
    return *std::move(prediction);
  StageRuns runs(setup, cluster, kept_for(settings));
  const auto ends = run_stages(
      pool, {&runs}, [](const StageRuns&) { return true; }, deadline);
  if (ends.front().refused) throw ConfigError(*ends.front().refused);
  VIADUCT_CHECK(DeadlineError, !ends.front().out_of_time,
                "prediction of a step: given up, its time is over");
  return predict(runs, cluster, settings, &pool, deadline);
}

}  // namespace viaduct
