// What the training loop says of a step: on the line of every step, and of logged ones what takes
// time to find out.

#include "device/memory_tag.h"
#include "ops/cpu/peak.h"
#include "train/host_values.h"
#include "train/log_statistics.h"
#include "train/rank_device.h"
#include "train/step_timers.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

/// What the rank that reports holds, under the names that TensorBoard shows.
std::vector<std::pair<std::string, double>> memory_figures(const MemoryStatistics& memory) {
  std::vector<std::pair<std::string, double>> figures{
      {"in_use_bytes", static_cast<double>(memory.bytes_in_use)},
      {"reserved_bytes", static_cast<double>(memory.reserved_bytes)},
      {"system_allocations", static_cast<double>(memory.system_allocations)}};
  for (size_t tag = 0; tag < memory.bytes_by_tag.size(); ++tag) {
    std::string owner(memory_tag_name(static_cast<MemoryTag>(tag)));
    for (char& c : owner) {
      if (c == ' ') c = '_';
    }
    figures.emplace_back("owner/" + owner + "_bytes",
                         static_cast<double>(memory.bytes_by_tag[tag]));
  }
  return figures;
}

}  // namespace

void Trainer::add_communication(StepMetrics& metrics, const StepWork& work) {
  if (work.record == nullptr) return;
  for (size_t i = work.first_collective; i < work.record->collectives().size(); ++i) {
    const CollectiveRecord& entry = work.record->collectives()[i];
    metrics.communication_seconds += entry.complete_seconds - entry.wait_begin_seconds;
    metrics.communication_busy_seconds += entry.busy_seconds;
  }
}

void Trainer::note_profiles(const std::vector<std::filesystem::path>& files) {
  for (const auto& file : files) log_->note("profile written to " + file.string());
}

void Trainer::log_step(StepMetrics metrics, const StepWork& work) {
  add_communication(metrics, work);
  const double seconds = wall_clock_seconds() - work.begin;
  if (is_logged(state_.step)) add_on_demand(metrics, work);
  const FlopCount local = training_flops(flop_sizes(setup_.model), work.document_lengths);
  const auto all = all_gather_values(
      *world_, {static_cast<double>(device_.memory().peak_bytes), static_cast<double>(work.tokens),
                local.token_part, local.attention_part, local.attention_part_full});
  // Ranks that share a data-parallel place have read the same rows.
  const double copies = world_->size() / run_.parallelism.size(Axis::dp);
  FlopCount flops;
  double tokens = 0;
  for (const auto& values : all) {
    metrics.peak_memory_bytes_per_rank.push_back(static_cast<int64_t>(values[0]));
    tokens += values[1] / copies;
    flops.token_part += values[2] / copies;
    flops.attention_part += values[3] / copies;
    flops.attention_part_full += values[4] / copies;
  }
  state_.consumed_tokens += static_cast<int64_t>(tokens);
  // A run that lost its folder to another one does not write into its files, either.
  if (lock_ && state_.step % config_.logger.log_interval == 0) lock_->check();
  metrics.step = state_.step;
  metrics.samples = state_.consumed_samples;
  metrics.tokens = state_.consumed_tokens;
  metrics.with_rates = config_.logger.log_throughput;
  if (leads() && metrics.with_rates)
    look_at_peak(tflops_per_rank(flops.model(), seconds, world_->size()));
  metrics.set_rates(seconds, work.rows, static_cast<int64_t>(tokens), flops, world_->size(), peak_,
                    config_.logger.flops == "full");
  log_->step(metrics);
}

void Trainer::look_at_peak(double tflops_per_rank) {
  // Ten milliseconds a measurement: at most a five-hundredth of a run.
  constexpr double kInterval = 5;
  if (wall_clock_seconds() - peak_seen_at_ < kInterval && tflops_per_rank <= peak_.tflops) return;
  peak_.keep_best(measure_matmul_peak(device_.pool(), run_.layers.precision.activation,
                                      cpu_isa_of(config_.dist), PeakEffort::glance));
  peak_seen_at_ = wall_clock_seconds();
}

void Trainer::add_on_demand(StepMetrics& metrics, const StepWork& work) {
  const LoggerConfig& logger = config_.logger;
  if (logger.timing_log_level > 0) {
    const PhaseSeconds& phases = engine_->phases();
    StepTimers mine{{"forward", phases.forward},
                    {"backward", phases.backward},
                    {"optimizer", phases.optimizer},
                    {"data", metrics.data_seconds}};
    if (logger.timing_log_level > 1 && work.record != nullptr)
      add_record_timers(*work.record, work.first_op, work.first_collective, mine);
    metrics.timers = timers_of_ranks(*world_, mine);
  }
  if (logger.log_params_norm) metrics.params_norm = weight_norm(*engine_);
  if (logger.log_num_zeros_in_grad) metrics.num_zeros_in_grad = zero_gradients(*engine_);
  if (logger.log_memory_to_tensorboard) metrics.memory = memory_figures(device_.memory());
}

}  // namespace viaduct
