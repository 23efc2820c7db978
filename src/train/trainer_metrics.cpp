// The metrics of a step in the training loop: cheap ones for every step, costly ones for logged
// steps.

#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/output_file.h"
#include "device/memory_tag.h"
#include "engine/log_statistics.h"
#include "hardware/cpu/peak.h"
#include "report/quantization_metrics.h"
#include "report/step_timers.h"
#include "run/rank_device.h"
#include "train/router_report.h"
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
  const FlopCount flops =
      training_flops(flop_sizes(setup_.model, config_.peft.resolved), work.document_lengths);
  return {{local_.stop ? 1.0 : 0.0},
          {local_.folder_deleted ? 1.0 : 0.0},
          {saver_->writes() ? 1.0 : 0.0},
          {local_.run_seconds},
          {static_cast<double>(work.tokens), counted},
          {flops.token_part, counted},
          {flops.attention_part, counted},
          {flops.attention_part_full, counted},
          {local_.step_seconds},
          {local_.data_seconds},
          {local_.communication_seconds},
          {static_cast<double>(device_.memory().peak_bytes)}};
}

void Trainer::take_merged(const std::vector<FigureOfRanks>& figures) {
  size_t next = 0;
  const auto figure = [&]() -> const FigureOfRanks& { return figures.at(next++); };
  merged_.stop = figure().most > 0;
  merged_.folder_deleted = figure().most > 0;
  merged_.any_writes = figure().most > 0;
  merged_.run_seconds = figure().most;
  merged_.tokens = figure().sum;
  merged_.flops.token_part = figure().sum;
  merged_.flops.attention_part = figure().sum;
  merged_.flops.attention_part_full = figure().sum;
  FiguresOfRanks ranks{.step = local_.step};
  ranks.step_seconds = figure();
  ranks.data_seconds = figure();
  ranks.communication_seconds = figure();
  ranks.peak_memory_bytes = figure();
  peak_memory_bytes_ =
      std::max({peak_memory_bytes_, static_cast<int64_t>(ranks.peak_memory_bytes.most),
                device_.memory().peak_bytes});
  merged_.ranks.reset();
  if (world_->size() > 1 && local_.step > 0) merged_.ranks = ranks;
}

void Trainer::update_requests() {
  on_this_rank([&] { local_.stop = hooks_.stop_requested && hooks_.stop_requested(); });
  local_.folder_deleted = folder_was_deleted();
  local_.run_seconds = steady_seconds() - run_begin_;
  if (world_->size() > 1) return;
  merged_.stop = local_.stop;
  merged_.folder_deleted = local_.folder_deleted;
  merged_.run_seconds = local_.run_seconds;
  merged_.any_writes = saver_->writes();
}

void Trainer::note_profiles(FunctionRef<std::vector<std::filesystem::path>()> finish) {
  try {
    for (const auto& file : finish()) log_->note("profile written to " + file.string());
  } catch (const std::exception& error) {
    log_warning("rank {}: no profile of this run: {}", world_->rank(), error.what());
  }
}

void Trainer::log_step(StepMetrics metrics, const StepWork& work) {
  if (work.record != nullptr) {
    metrics.communication_seconds = work.record->counters().wait_seconds();
    metrics.communication_busy_seconds = work.record->counters().busy_seconds();
  }
  const double seconds = steady_seconds() - work.begin;
  if (is_logged(state_.step)) add_on_demand(metrics, work);
  state_.consumed_tokens += static_cast<int64_t>(merged_.tokens);
  // A run that lost its folder to another one must not write into its files either.
  const bool ours =
      state_.step % config_.logger.log_interval != 0 || on_this_rank([&] { check_lock(); });
  metrics.step = state_.step;
  metrics.samples = state_.consumed_samples;
  metrics.tokens = state_.consumed_tokens;
  metrics.with_rates = config_.logger.log_throughput;
  metrics.ranks = merged_.ranks;
  metrics.peak_memory_bytes = peak_memory_bytes_;
  if (leads() && measures_peak())
    update_peak(tflops_per_rank(merged_.flops.model(), seconds, world_->size()));
  metrics.set_rates(seconds, work.rows, static_cast<int64_t>(merged_.tokens), merged_.flops,
                    world_->size(), peak_, config_.logger.flops == "full");
  local_.step = state_.step;
  local_.step_seconds = seconds;
  local_.data_seconds = metrics.data_seconds;
  local_.communication_seconds = metrics.communication_seconds;
  if (ours) on_this_rank([&] { log_->step(metrics); });
}

bool Trainer::measures_peak() const {
  // The peak is that of the cpu's cores: it says nothing about a run on a GPU.
  return config_.logger.log_throughput && run_.layers.precision.activation != DType::f64 &&
         device_.kind() == DeviceKind::cpu;
}

void Trainer::update_peak(double tflops_per_rank) {
  // Ten milliseconds per measurement: at most 1/500 of a run.
  constexpr double kInterval = 5;
  // The first measurement may have been taken in a bad moment, so the first line waits for another.
  const bool first = !std::exchange(peak_confirmed_, true);
  if (!first && steady_seconds() - peak_measured_at_ < kInterval && tflops_per_rank <= peak_.tflops)
    return;
  peak_.keep_best(measure_matmul_peak(device_.pool(), run_.layers.precision.activation,
                                      cpu_isa_of(config_.dist), PeakEffort::glance));
  peak_measured_at_ = steady_seconds();
}

void Trainer::draw_load(const std::vector<LayerRouting>& routing) {
  if (routing.empty() || !leads() || !config_.checkpoint.save) return;
  try {
    OutputFile picture(std::filesystem::path(*config_.checkpoint.save) / "router_load.svg");
    picture.write(load_picture(routing, state_.step));
    picture.commit();
  } catch (const std::exception& error) {
    log_->note(std::string("warning: no picture of the experts' load: ") + error.what());
  }
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
  if (inspects(state_.step)) {
    metrics.quantization = quantization_of_ranks(world_->host(), quantization_.read(device_));
    if (leads() && state_.step == total_steps_ && !metrics.quantization.empty())
      log_->note("the tensors that quantization changes most:\n" +
                 quantization_table(metrics.quantization, 10));
  }
  if (logger.log_params_norm) metrics.params_norm = weight_norm(*engine_);
  if (logger.log_num_zeros_in_grad) metrics.num_zeros_in_grad = zero_gradients(*engine_);
  std::vector<LayerRouting> routing = collect_routing(*engine_);
  metrics.routers = router_figures(routing);
  draw_load(routing);
  if (logger.moe_per_layer_logging) metrics.router_layers = std::move(routing);
  if (logger.log_memory_to_tensorboard) metrics.memory = memory_figures(device_.memory());
}

}  // namespace viaduct
