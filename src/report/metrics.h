#pragma once
// The metrics of a logged step, and their form as a line of `metrics.jsonl`.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/host_group.h"
#include "data/tasks/task_scores.h"
#include "hardware/matmul_peak.h"
#include "model/flops.h"
#include "nn/quantization_log.h"
#include "report/router_figures.h"
#include "report/step_timers.h"

namespace viaduct {

/// Times and memory of all ranks in one step, the one before the logged step (it is complete on all
/// ranks). Their number does not grow with the ranks.
struct FiguresOfRanks {
  int64_t step = 0;
  FigureOfRanks step_seconds, data_seconds, communication_seconds, peak_memory_bytes;
};

/// One logged training step. Field names are those of the file. Times are of this step on the rank
/// that reports.
struct StepMetrics {
  /// Optimizer steps done, skipped ones included: the first is 1.
  int64_t step = 0;
  /// Consumed since the start of the run (earlier sessions of a resumed run included).
  int64_t samples = 0;
  int64_t tokens = 0;
  /// Mean over all scored tokens of the global batch. No value on a simulated device; a NaN is
  /// written as null as well.
  std::optional<double> loss;
  /// Mean of the steps since the last logged one, which the display shows; `loss` where there is
  /// none.
  std::optional<double> interval_loss;
  /// Of multi-token prediction, by depth, over the tokens that each scores; empty without it. And
  /// their means of the steps since the last logged one, NaN where no value is finite.
  std::vector<double> mtp_losses, interval_mtp_losses;
  /// Global, before clipping; no value where it was not computed.
  std::optional<double> grad_norm;
  double learning_rate = 0;
  /// Rows of this step, of all ranks.
  int64_t step_samples = 0;
  /// Of the run. Rates per rank, their peak and the peak of memory are those of one rank.
  int64_t rank_count = 1;

  double step_seconds = 0;
  /// False: the line has no rates (logger.log_throughput).
  bool with_rates = true;
  double samples_per_second = 0;
  double tokens_per_second = 0;
  /// Model FLOPs by `flop_convention` (model/flops.h).
  double tflops_per_rank = 0;
  /// Of `mfu_peak`, in 0…1; no value if the peak is unknown.
  std::optional<double> mfu;
  std::string mfu_peak;
  std::string flop_convention;

  /// Communication that compute waited for, and all of it.
  double communication_seconds = 0;
  double communication_busy_seconds = 0;
  /// Waiting for the next batch.
  double data_seconds = 0;

  /// Bytes in use in the arena at the peak: the maximum over ranks, as known to the reporting rank.
  int64_t peak_memory_bytes = 0;
  /// Differences between ranks; nothing with one rank, or before the first report.
  std::optional<FiguresOfRanks> ranks;

  /// Updates skipped (overflow, NaN as configured, nothing scored, or steps passed over) since the
  /// last logged step.
  int64_t skipped = 0;
  /// Those of them that were skipped because no token of the global batch is scored.
  int64_t nothing_scored = 0;
  /// With FP16 only.
  std::optional<double> loss_scale;
  bool simulated = false;

  /// If enabled (section `logger`): of all weights after the step;
  std::optional<double> params_norm;
  /// in the gradient of the step;
  std::optional<int64_t> num_zeros_in_grad;
  /// by name, over the ranks;
  RankTimers timers;
  /// of the reporting rank, for TensorBoard, by name.
  std::vector<std::pair<std::string, double>> memory;

  /// The same with the uncausal count (`logger.flops=full`); no value if not enabled.
  std::optional<double> tflops_per_rank_full;
  std::optional<double> mfu_full;
  /// Figures of the routers of a model with experts; empty without experts.
  RouterFigures routers;
  /// If enabled: their layers, one by one, for TensorBoard alone.
  std::vector<LayerRouting> router_layers;

  /// The effect of quantization on the operands of linear layers, by tensor, over the ranks
  /// (report/quantization_metrics.h), in the steps that `tensor_inspect` selects.
  QuantizationLog::Tensors quantization;

  /// Sets step_seconds, step_samples and all rates. `flops`: of the whole global batch; `seconds` >
  /// 0.
  void set_rates(double seconds, int64_t rows, int64_t step_tokens, const FlopCount& flops,
                 int64_t ranks, const MatmulPeak& peak, bool with_full_count = false);
};

/// An evaluation after `step` steps: of validation data, or at the end of the run of test data,
/// whose fields in the file are called `test_…`.
struct ValidationMetrics {
  bool test = false;
  /// Number and name of the data set where there are several.
  std::optional<int64_t> set;
  std::string set_name;
  int64_t step = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  double validation_loss = 0;
  /// Scored tokens of the evaluation.
  int64_t validation_tokens = 0;
  double validation_seconds = 0;
};

/// An evaluation on tasks after `step` steps (validation.tasks).
struct TaskMetrics {
  int64_t step = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  std::vector<TaskFigures> tasks;
  double seconds = 0;
};

/// What the model says to prompts after `step` steps (validation.sample_prompts).
struct SampleAnswer {
  std::string prompt, answer;
};
struct AnswerMetrics {
  int64_t step = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  std::vector<SampleAnswer> answers;
  double seconds = 0;
};

/// One JSON object without a line break. Numbers keep every bit; NaN and infinities, which JSON
/// lacks, become null.
std::string json_line(const StepMetrics& metrics);
std::string json_line(const ValidationMetrics& metrics);
std::string json_line(const TaskMetrics& metrics);
std::string json_line(const AnswerMetrics& metrics);
/// The last line of a run that ended early: {"step":120,"stopped":"signal"}.
std::string json_stopped_line(int64_t step, const std::string& reason);

}  // namespace viaduct
