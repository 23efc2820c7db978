// The metrics of a step in the training loop: cheap ones for every step, costly ones for logged
// steps.

#include "base/clock.h"
#include "device/memory_tag.h"
#include "engine/log_statistics.h"
#include "hardware/cpu/peak.h"
#include "report/step_timers.h"
#include "run/rank_device.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

/// Memory of the reporting rank, under TensorBoard's names.
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

std::vector<HostFigure> Trainer::figures(const StepWork& work) const {
  // Ranks that share a data-parallel place have read the same rows.
  const bool counted = leads_data_place(engine_->groups());
  const FlopCount flops = training_flops(flop_sizes(setup_.model), work.document_lengths);
  return {{said_.stop ? 1.0 : 0.0},
          {said_.folder_gone ? 1.0 : 0.0},
          {saver_->writes() ? 1.0 : 0.0},
          {said_.run_seconds},
          {static_cast<double>(work.tokens), counted},
          {flops.token_part, counted},
          {flops.attention_part, counted},
          {flops.attention_part_full, counted},
          {said_.step_seconds},
          {said_.data_seconds},
          {said_.communication_seconds},
          {static_cast<double>(device_.memory().peak_bytes)}};
}

void Trainer::hear(const std::vector<FigureOfRanks>& told) {
  size_t next = 0;
  const auto figure = [&]() -> const FigureOfRanks& { return told.at(next++); };
  heard_.stop = figure().most > 0;
  heard_.folder_gone = figure().most > 0;
  heard_.any_writes = figure().most > 0;
  heard_.run_seconds = figure().most;
  heard_.tokens = figure().sum;
  heard_.flops.token_part = figure().sum;
  heard_.flops.attention_part = figure().sum;
  heard_.flops.attention_part_full = figure().sum;
  FiguresOfRanks ranks{.step = said_.step};
  ranks.step_seconds = figure();
  ranks.data_seconds = figure();
  ranks.communication_seconds = figure();
  ranks.peak_memory_bytes = figure();
  peak_memory_bytes_ =
      std::max({peak_memory_bytes_, static_cast<int64_t>(ranks.peak_memory_bytes.most),
                device_.memory().peak_bytes});
  heard_.ranks.reset();
  if (world_->size() > 1 && said_.step > 0) heard_.ranks = ranks;
}

void Trainer::ask() {
  said_.stop = hooks_.stop_requested && hooks_.stop_requested();
  said_.folder_gone = folder_was_deleted();
  said_.run_seconds = steady_seconds() - run_begin_;
  if (world_->size() > 1) return;
  heard_.stop = said_.stop;
  heard_.folder_gone = said_.folder_gone;
  heard_.run_seconds = said_.run_seconds;
  heard_.any_writes = saver_->writes();
}

void Trainer::note_profiles(const std::vector<std::filesystem::path>& files) {
  for (const auto& file : files) log_->note("profile written to " + file.string());
}

void Trainer::log_step(StepMetrics metrics, const StepWork& work) {
  if (work.record != nullptr) {
    metrics.communication_seconds = work.record->counters().wait_seconds();
    metrics.communication_busy_seconds = work.record->counters().busy_seconds();
  }
  const double seconds = steady_seconds() - work.begin;
  if (is_logged(state_.step)) add_on_demand(metrics, work);
  state_.consumed_tokens += static_cast<int64_t>(heard_.tokens);
  // A run that lost its folder to another one must not write into its files either.
  if (lock_ && state_.step % config_.logger.log_interval == 0) lock_->check();
  metrics.step = state_.step;
  metrics.samples = state_.consumed_samples;
  metrics.tokens = state_.consumed_tokens;
  metrics.with_rates = config_.logger.log_throughput;
  metrics.ranks = heard_.ranks;
  metrics.peak_memory_bytes = peak_memory_bytes_;
  if (leads() && metrics.with_rates)
    look_at_peak(tflops_per_rank(heard_.flops.model(), seconds, world_->size()));
  metrics.set_rates(seconds, work.rows, static_cast<int64_t>(heard_.tokens), heard_.flops,
                    world_->size(), peak_, config_.logger.flops == "full");
  said_.step = state_.step;
  said_.step_seconds = seconds;
  said_.data_seconds = metrics.data_seconds;
  said_.communication_seconds = metrics.communication_seconds;
  log_->step(metrics);
}

void Trainer::look_at_peak(double tflops_per_rank) {
  // Ten milliseconds a measurement: at most a five-hundredth of a run.
  constexpr double kInterval = 5;
  if (steady_seconds() - peak_seen_at_ < kInterval && tflops_per_rank <= peak_.tflops) return;
  peak_.keep_best(measure_matmul_peak(device_.pool(), run_.layers.precision.activation,
                                      cpu_isa_of(config_.dist), PeakEffort::glance));
  peak_seen_at_ = steady_seconds();
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
      add_counted_timers(work.record->counters(), mine);
    metrics.timers = timers_of_ranks(world_->host(), mine);
  }
  if (logger.log_params_norm) metrics.params_norm = weight_norm(*engine_);
  if (logger.log_num_zeros_in_grad) metrics.num_zeros_in_grad = zero_gradients(*engine_);
  if (logger.log_memory_to_tensorboard) metrics.memory = memory_figures(device_.memory());
}

}  // namespace viaduct
