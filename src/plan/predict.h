#pragma once
// The predicted step of one configuration on a described cluster: the dry run of one rank of each
// pipeline stage with the cluster's GPU as target, timed in virtual time. Other ranks of a stage
// are assumed to arrive with that one.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/dry_run.h"
#include "hardware/cluster.h"
#include "plan/collective_time.h"
#include "plan/op_time.h"
#include "plan/stage_timeline.h"
#include "run/setup.h"

namespace viaduct {

/// The assumptions of the prediction; printed with it.
struct PredictionSettings {
  OpTimeSettings ops;
  CollectiveTimeSettings collectives;
  double launch_seconds = 4e-6;     // of the host, for each launch
  double host_wait_seconds = 1e-5;  // from a value's arrival until the host continues
  double slowdown = 1.1;            // of ops beside communication, which holds some of the SMs
  double reserve_bytes = 1.5e9;     // of a GPU: driver's context and communicators
  double cpu_reserve_bytes = 2e8;   // of a rank on a CPU: the process and the system
  bool spec_sheet = false;          // leaves out Gpu::step_share
  bool timeline = false;            // fills StagePrediction::timeline
};

/// The settings for the cluster: those above for GPUs; for ranks on a CPU round figures, since its
/// kernels start sooner, have no host beside them and reach their rates with less work.
PredictionSettings prediction_settings(const Cluster& cluster, bool spec_sheet = false);

/// Where the time of a stage's compute stream goes, in seconds of a step; they add up to the step.
struct StageTime {
  double compute = 0;                              // ops of forward and backward
  std::array<double, kOpKinds> compute_by_kind{};  // of that, by OpKind
  double optimizer = 0;                            // ops of the optimizer
  std::map<std::string, double> exposed;           // by group: compute waits while its data moves
  double bubble = 0;  // compute waits for other stages or ranks to arrive
  double host = 0;    // compute waits for launches
};

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
  double mfu = 0;  // of the dense BF16 peak
  double capacity_bytes = 0;
  bool fits = false;
  std::vector<StagePrediction> stages;
};

/// Bytes of a rank's memory that a run can use.
double capacity_bytes(const Cluster& cluster, const PredictionSettings& settings);

/// ConfigError if the cluster's GPU has no kernels of ours.
Prediction predict(const RunSetup& setup, const Cluster& cluster,
                   const PredictionSettings& settings = {});

/// A prediction, or the bytes of a stage that does not fit.
struct TriedPrediction {
  std::optional<Prediction> prediction;
  double too_large_bytes = 0;
};

/// As `predict`, but with several stages the last one is checked after the first, and the others,
/// and the time, are left out if one of the two does not fit.
TriedPrediction predict_what_fits(const RunSetup& setup, const Cluster& cluster,
                                  const PredictionSettings& settings = {});

}  // namespace viaduct
