#include "train/step_reporter.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/output_file.h"
#include "device/memory_tag.h"
#include "engine/log_statistics.h"
#include "report/quantization_metrics.h"
#include "report/step_timers.h"
#include "train/router_report.h"

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

StepReporter::StepReporter(const Run& run, int64_t total_steps, PeakEffort effort)
    : run_(run),
      config_(run.setup.config),
      total_steps_(total_steps),
      peak_(run.device, config_, run.resolved.layers.precision.activation, effort) {}

bool StepReporter::is_logged(int64_t step) const {
  return step % config_.logger.log_interval == 0 || step == total_steps_;
}

bool StepReporter::inspects(int64_t step) const {
  const TensorInspectConfig& inspect = config_.tensor_inspect;
  return inspect.enabled && step % inspect.interval == 0 && is_logged(step);
}

void StepReporter::request(const StepRequests& mine) {
  local_.requests = mine;
  if (run_.world.size() == 1) merged_.requests = mine;
}

std::vector<HostFigure> StepReporter::figures(const StepWork& work, bool writes) const {
  RankFigures mine = local_;
  mine.requests.writes = writes;
  mine.tokens = work.tokens;
  mine.flops =
      training_flops(flop_sizes(run_.setup.model, config_.peft.resolved), work.document_lengths);
  const double of_images =
      static_cast<double>(work.images) * image_flops(run_.setup.model, config_.peft.resolved);
  mine.flops.token_part += of_images;
  // Ranks that share a data-parallel place have read the same rows.
  mine.counted = leads_data_place(run_.engine.groups());
  mine.peak_memory_bytes = run_.device.memory().peak_bytes;
  return host_figures(mine);
}

void StepReporter::take(const std::vector<FigureOfRanks>& figures) {
  merged_ = figures_of_run(figures);
  FiguresOfRanks& ranks = merged_.ranks;
  ranks.step = local_.last.step;
  peak_memory_bytes_ =
      std::max({peak_memory_bytes_, static_cast<int64_t>(ranks.peak_memory_bytes.most),
                run_.device.memory().peak_bytes});
  ranks_.reset();
  if (run_.world.size() > 1 && local_.last.step > 0) ranks_ = ranks;
}

void StepReporter::add_totals(StepMetrics& metrics, const TrainState& state) const {
  metrics.step = state.step;
  metrics.samples = state.consumed_samples;
  metrics.tokens = state.consumed_tokens;
  metrics.with_rates = config_.logger.log_throughput;
  metrics.ranks = ranks_;
  metrics.peak_memory_bytes = peak_memory_bytes_;
}

void StepReporter::complete(StepMetrics& metrics, const StepWork& work, const TrainState& state) {
  if (work.record != nullptr) {
    metrics.communication_seconds = work.record->counters().wait_seconds();
    metrics.communication_busy_seconds = work.record->counters().busy_seconds();
  }
  const double seconds = steady_seconds() - work.begin;
  if (is_logged(state.step)) add_on_demand(metrics, work, state.step);
  add_totals(metrics, state);
  const int ranks = run_.world.size();
  if (leads() && peak_.measures())
    peak_.update(tflops_per_rank(merged_.flops.model(), seconds, ranks));
  metrics.set_rates(seconds, work.rows, tokens(), merged_.flops, ranks, peak_.value(),
                    config_.logger.flops == CountedFlops::full);
  local_.last = {state.step, seconds, metrics.data_seconds, metrics.communication_seconds};
}

void StepReporter::complete_skipped(StepMetrics& metrics, const TrainState& state, bool writes) {
  take(run_.world.host().post(figures({}, writes)).wait());
  add_totals(metrics, state);
  metrics.flop_convention = kFlopConvention;
  local_ = {};  // it has no times
}

void StepReporter::note_profiles(FunctionRef<std::vector<std::filesystem::path>()> finish) {
  try {
    for (const auto& file : finish()) run_.log.note("profile written to " + file.string());
  } catch (const std::exception& error) {
    log_warning("rank {}: no profile of this run: {}", run_.world.rank(), error.what());
  }
}

void StepReporter::draw_load(const std::vector<LayerRouting>& routing, int64_t step) {
  if (routing.empty() || !leads() || !config_.checkpoint.save) return;
  try {
    OutputFile picture(std::filesystem::path(*config_.checkpoint.save) / "router_load.svg");
    picture.write(load_picture(routing, step));
    picture.commit();
  } catch (const std::exception& error) {
    run_.log.note(std::string("warning: no picture of the experts' load: ") + error.what());
  }
}

void StepReporter::add_on_demand(StepMetrics& metrics, const StepWork& work, int64_t step) {
  const LoggerConfig& logger = config_.logger;
  Engine& engine = run_.engine;
  if (logger.timing_log_level > 0) {
    const PhaseSeconds& phases = engine.phases();
    StepTimers mine{{"forward", phases.forward},
                    {"backward", phases.backward},
                    {"optimizer", phases.optimizer},
                    {"data", metrics.data_seconds}};
    if (logger.timing_log_level > 1 && work.record != nullptr)
      add_counted_timers(work.record->counters(), mine);
    metrics.timers = timers_of_ranks(run_.world.host(), mine);
  }
  if (inspects(step)) {
    metrics.quantization =
        quantization_of_ranks(run_.world.host(), quantization_.read(run_.device));
    if (leads() && step == total_steps_ && !metrics.quantization.empty())
      run_.log.note("the tensors that quantization changes most:\n" +
                    quantization_table(metrics.quantization, 10));
  }
  if (logger.log_params_norm) metrics.params_norm = weight_norm(engine);
  if (logger.log_num_zeros_in_grad) metrics.num_zeros_in_grad = zero_gradients(engine);
  std::vector<LayerRouting> routing = collect_routing(engine);
  metrics.routers = router_figures(routing);
  draw_load(routing, step);
  if (logger.moe_per_layer_logging) metrics.router_layers = std::move(routing);
  if (logger.log_memory_to_tensorboard) metrics.memory = memory_figures(run_.device.memory());
}

}  // namespace viaduct
