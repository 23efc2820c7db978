#include "train_simulated.h"

#include <fmt/core.h>
#include <unistd.h>

#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/units.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/save_folder.h"
#include "engine/engine.h"
#include "optim/schedules.h"
#include "plan/predict.h"
#include "plan/product_peak.h"
#include "report/metrics_log.h"
#include "run/run_length.h"

namespace viaduct::cli {
namespace {

double waits(const StagePrediction& stage) {
  double seconds = stage.time.bubble;
  for (const auto& [group, exposed] : stage.time.exposed) seconds += exposed;
  return seconds;
}
double peak_bytes(const StagePrediction& stage) {
  return static_cast<double>(stage.run.peak.bytes);
}

/// All ranks of a stage have the figure of the one that was recorded.
FigureOfRanks figure_of_ranks(const Prediction& prediction,
                              double (*figure)(const StagePrediction&)) {
  FigureOfRanks ranks;
  for (const StagePrediction& stage : prediction.stages) {
    const double value = figure(stage);
    const bool first = ranks.counted == 0;
    if (first || value > ranks.most) ranks.most = value, ranks.most_rank = stage.run.rank.value;
    if (first || value < ranks.least) ranks.least = value, ranks.least_rank = stage.run.rank.value;
    ranks.sum += value;
    ++ranks.counted;
  }
  return ranks;
}

FigureOfRanks same_on_all(double value, int64_t stages) {
  return {value * static_cast<double>(stages), value, value, stages, 0, 0};
}

class SimulatedRun {
 public:
  explicit SimulatedRun(const RunSetup& setup)
      : setup_(setup),
        config_(setup.config),
        cluster_(load_cluster(*setup.config.dist.cluster)),
        batches_(batch_schedule(setup.config)),
        schedules_(schedules(setup.config.optimizer, setup.config.scheduler,
                             setup.config.train.train_iters, batches_)) {
    peak_ = product_peak(cluster_.gpu, precision_recipe(setup.config.mixed_precision));
    for (const auto& note : setup.notes) log_info("{}", note);
  }

  void run() {
    std::unique_ptr<RunLock> lock;
    if (const auto& save = config_.checkpoint.save) {
      lock = std::make_unique<RunLock>(*save);
      VIADUCT_CHECK(ConfigError, !has_latest(*save),
                    "checkpoint.save: {} holds checkpoints, and dist.device=sim saves none; choose "
                    "another folder for its metrics",
                    *save);
      write_file_atomically(std::filesystem::path(*save) / "config.yaml", to_yaml(config_));
    }
    MetricsLogOptions options;
    options.folder = config_.checkpoint.save.value_or("");
    options.tensorboard_folder = config_.logger.tensorboard_dir.value().value_or("");
    options.display = stderr;
    options.display_is_terminal = ::isatty(STDERR_FILENO) == 1;
    options.total_steps = config_.train.train_iters;
    options.log_interval = config_.logger.log_interval;
    MetricsLog log(options);
    int64_t rows = 0;
    for (int64_t step = 1; step <= config_.train.train_iters; ++step) {
      const int64_t here = batches_.rows_at(rows);
      log.step(metrics(step, rows, here));
      rows += here;
    }
    log.sync();
  }

  const Prediction& last() const { return predictions_.rbegin()->second; }
  const Cluster& cluster() const { return cluster_; }

 private:
  StepMetrics metrics(int64_t step, int64_t rows_before, int64_t rows) {
    const Prediction& p = prediction(rows);
    const int64_t length = config_.model.seq_length.value();
    const StagePrediction& first = p.stages.front();
    StepMetrics metrics;
    metrics.simulated = true;
    metrics.step = step;
    metrics.samples = rows_before + rows;
    metrics.tokens = metrics.samples * length;
    metrics.learning_rate = schedules_.learning_rate.rate(rows_before);
    metrics.with_rates = config_.logger.log_throughput;
    metrics.set_rates(p.step_seconds, rows, rows * length,
                      training_flops(flop_sizes(setup_.model, config_.peft.resolved), rows, length),
                      config_.dist.ranks, peak_, config_.logger.flops == CountedFlops::full);
    metrics.communication_seconds = waits(first);
    metrics.communication_busy_seconds = first.busy_communication;
    const FigureOfRanks peak = figure_of_ranks(p, peak_bytes);
    metrics.peak_memory_bytes = static_cast<int64_t>(peak.most);
    const auto stages = static_cast<int64_t>(p.stages.size());
    metrics.ranks = FiguresOfRanks{step, same_on_all(p.step_seconds, stages),
                                   same_on_all(0, stages), figure_of_ranks(p, waits), peak};
    return metrics;
  }

  /// Of a step of this many rows, which are fewer while the batch grows.
  const Prediction& prediction(int64_t rows) {
    if (const auto known = predictions_.find(rows); known != predictions_.end())
      return known->second;
    RunSetup setup{.config = config_, .model = setup_.model, .conversations = setup_.conversations};
    if (rows != batches_.full()) {
      setup.config.train.global_batch_size = rows;
      setup.config.train.rampup_batch_size.reset();
    }
    return predictions_.emplace(rows, predict(setup, cluster_, prediction_settings(cluster_)))
        .first->second;
  }

  const RunSetup& setup_;
  const RunConfig& config_;
  Cluster cluster_;
  BatchSchedule batches_;
  Schedules schedules_;
  MatmulPeak peak_;
  std::map<int64_t, Prediction> predictions_;  // by rows
};

}  // namespace

int simulate_training(const RunSetup& setup) {
  SimulatedRun run(setup);
  run.run();
  const Prediction& last = run.last();
  fmt::print(
      "{} on {} × {} ({}) in virtual time: {} a step, {:.0f} tokens/s a GPU; nothing was "
      "computed or saved\n",
      counted(setup.config.train.train_iters, "step"), setup.config.dist.ranks,
      run.cluster().gpu.name, run.cluster().name, format_seconds(last.step_seconds),
      last.tokens_per_second_per_gpu);
  if (!last.fits)
    fmt::print("it would not fit: the fullest stage needs more than the {} of a GPU\n",
               format_bytes(static_cast<int64_t>(last.capacity_bytes)));
  if (setup.config.checkpoint.save)
    fmt::print("metrics and config.yaml are in {}\n", *setup.config.checkpoint.save);
  return 0;
}

}  // namespace viaduct::cli
