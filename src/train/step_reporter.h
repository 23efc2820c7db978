#pragma once
// The figures of the steps of a run: what ranks tell each other, and the metrics of a step, cheap
// ones for every step, costly ones for logged steps.

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "nn/quantization_log.h"
#include "report/metrics_log.h"
#include "report/step_profiler.h"
#include "run/resolved_run.h"
#include "run/setup.h"
#include "train/machine_peak.h"
#include "train/step_figures.h"
#include "train/train_state.h"

namespace viaduct {

/// What a step processed on this rank.
struct StepWork {
  double begin = 0;  // wall clock
  int64_t rows = 0;  // of all ranks
  int64_t tokens = 0;
  std::vector<int64_t> document_lengths;
  int64_t images = 0;
  const StepRecord* record = nullptr;  // its counters begin with the step
};

class StepReporter {
 public:
  /// The run whose steps are reported; all of it outlives the reporter.
  struct Run {
    const RunSetup& setup;
    const ResolvedRun& resolved;
    Device& device;
    Engine& engine;
    Communicator& world;
    MetricsLog& log;
  };
  /// Measures the machine's peak. `total_steps`: when the run is done.
  StepReporter(const Run& run, int64_t total_steps, PeakEffort effort);

  bool is_logged(int64_t step) const;
  /// Where quantized operands of this step are measured (section `tensor_inspect`); null: they are
  /// not.
  QuantizationLog* inspected(int64_t step) { return inspects(step) ? &quantization_ : nullptr; }

  /// Between steps: what this rank asks with the next step. A rank alone is heard at once.
  void request(const StepRequests& mine);
  /// What any rank has asked with the last step.
  const StepRequests& requests() const { return merged_.requests; }
  /// What this rank sends with the step that does `work`. `writes`: it is writing a save.
  std::vector<HostFigure> figures(const StepWork& work, bool writes) const;
  /// The answer to `figures`.
  void take(const std::vector<FigureOfRanks>& figures);
  /// Tokens of the step, of all ranks.
  int64_t tokens() const { return static_cast<int64_t>(merged_.tokens); }

  /// Completes the metrics of the step that did `work` and led to `state`. Called on all ranks.
  void complete(StepMetrics& metrics, const StepWork& work, const TrainState& state);
  /// The same for a step that was passed over, with the call that other steps make while they run.
  void complete_skipped(StepMetrics& metrics, const TrainState& state, bool writes);
  /// Notes the files that `finish` wrote. The run continues without them if it cannot.
  void note_profiles(FunctionRef<std::vector<std::filesystem::path>()> finish);

 private:
  bool inspects(int64_t step) const;
  bool leads() const { return run_.world.rank() == 0; }
  /// What all metrics say of the run so far.
  void add_totals(StepMetrics& metrics, const TrainState& state) const;
  /// Adds the metrics that take time to compute; for logged steps only.
  void add_on_demand(StepMetrics& metrics, const StepWork& work, int64_t step);
  /// Replaces the picture of the experts' load beside metrics.jsonl.
  void draw_load(const std::vector<LayerRouting>& routing, int64_t step);

  Run run_;
  const RunConfig& config_;
  int64_t total_steps_;
  MachinePeak peak_;
  QuantizationLog quantization_;  // of the current step
  RankFigures local_;             // requests and times; the rest belongs to a step
  RunFigures merged_;
  std::optional<FiguresOfRanks> ranks_;  // of the step before; none for a rank alone
  int64_t peak_memory_bytes_ = 0;        // maximum over ranks, as of the last host call
};

}  // namespace viaduct
