#pragma once
// The predicted step of one configuration on a described cluster: the dry run of one rank of each
// pipeline stage with the cluster's GPU as target, timed in virtual time. Other ranks of a stage
// are assumed to arrive with that one.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hardware/cluster.h"
#include "hardware/matmul_peak.h"
#include "plan/calibrated_time.h"
#include "plan/collective_time.h"
#include "plan/op_time.h"
#include "plan/stage_runs.h"
#include "plan/stage_time.h"
#include "plan/stage_timeline.h"
#include "run/setup.h"

namespace viaduct {

/// The assumptions of the prediction; printed with it.
struct PredictionSettings {
  OpTimeSettings ops;
  CollectiveTimeSettings collectives;
  double launch_seconds = 4e-6;     // of the host, for each launch
  double host_wait_seconds = 1e-5;  // from a value's arrival until the host continues
  /// Of the host for each product of one expert, in trainers that launch one for each expert; ours
  /// launch one for all.
  double expert_product_seconds = 0;
  double slowdown = 1.1;           // of ops beside communication, which holds some of the SMs
  double reserve_bytes = 1.5e9;    // of a GPU: driver's context and communicators
  double cpu_reserve_bytes = 2e8;  // of a rank on a CPU: the process and the system
  bool spec_sheet = false;         // leaves out Gpu::step_share
  bool timeline = false;           // fills StagePrediction::timeline
  /// Of the machine whose cores the ranks are on; none: the figures above and the cluster's.
  std::shared_ptr<const Calibration> calibration;
};

/// The settings for the cluster: those above for GPUs; for ranks on a CPU round figures, since its
/// kernels start sooner, have no host beside them and reach their rates with less work.
PredictionSettings prediction_settings(const Cluster& cluster, bool spec_sheet = false);

/// The same with a calibration, whose costs of a launch are part of its times.
PredictionSettings calibrated_settings(const Cluster& cluster,
                                       std::shared_ptr<const Calibration> calibration);

/// What predictions with the settings need of dry runs.
StageRuns::Keep kept_for(const PredictionSettings& settings);

struct StagePrediction {
  DryRun run;
  StageTime time;
  double busy_communication = 0;  // seconds in which data moves, hidden or not
  StageTimeline timeline;         // empty unless the settings ask for it
};

struct Prediction {
  double step_seconds = 0;
  double tokens_per_second_per_gpu = 0;
  double model_tflops_per_gpu = 0;
  double mfu = 0;   // of `peak`
  MatmulPeak peak;  // dense, of the format of the run's products
  double capacity_bytes = 0;
  double host_bytes = 0;  // in a host's memory: what its ranks offload
  double host_capacity_bytes = 0;
  bool fits = false;  // both do

  bool host_is_full() const { return host_bytes > host_capacity_bytes; }
  /// Seconds of ops and collectives of the step in all stages, by TimeBasis: where the settings
  /// have a calibration.
  std::array<double, kTimeBases> seconds_by_basis{};
  std::vector<StagePrediction> stages;
};

/// What the ranks of a host keep in its memory, where the fullest stage offloads `bytes` a rank.
double host_bytes(const Cluster& cluster, const RunConfig& config, double bytes);

/// Bytes of a rank's memory that a run can use.
double capacity_bytes(const Cluster& cluster, const PredictionSettings& settings);

/// Adds what follows from the dry runs and the times of the stages: rates, and whether it fits.
void add_rates(const StageRuns& of, const Cluster& cluster, const PredictionSettings& settings,
               Prediction& prediction);

/// Makes the dry runs on so many threads; of a step of very many micro-batches those of shorter
/// ones, where that gives the same (plan/steady_rounds.h). ConfigError if the cluster's GPU has no
/// kernels of ours, or the trainer refuses the run; DeadlineError soon after `deadline` has passed.
Prediction predict(const RunSetup& setup, const Cluster& cluster,
                   const PredictionSettings& settings = {}, int threads = 1,
                   const Deadline& deadline = {});

/// The same from dry runs of all stages that were made with their records. The threads of `pool`,
/// if there is one, share the stages; figures do not depend on how many there are.
Prediction predict(const StageRuns& runs, const Cluster& cluster,
                   const PredictionSettings& settings, ThreadPool* pool = nullptr,
                   const Deadline& deadline = {});

}  // namespace viaduct
