#include "report/metrics.h"

#include "base/error.h"
#include "base/json.h"
#include "report/quantization_metrics.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json of_ranks(const FigureOfRanks& f) {
  return {{"min", f.least},
          {"min_rank", f.least_rank},
          {"mean", f.mean()},
          {"max", f.most},
          {"max_rank", f.most_rank}};
}

/// JSON has no NaN and no infinity: they become null.
Json of_quantized(const MeasuredOperand& measured) {
  const QuantizationError& e = measured.all;
  Json object{{"amax", e.amax},
              {"underflow_share", underflow_share(e)},
              {"overflow_count", static_cast<int64_t>(e.overflows)},
              {"not_finite_count", static_cast<int64_t>(e.not_finite)},
              {"relative_error", e.relative_error()},
              {"least_scale", e.least_scale},
              {"most_scale", e.most_scale}};
  if (measured.worst_expert >= 0) {
    object["worst_expert"] = measured.worst_expert;
    object["worst_relative_error"] = measured.worst.relative_error();
    object["worst_not_finite_count"] = static_cast<int64_t>(measured.worst.not_finite);
  }
  return object;
}

Json of_layers(const RouterFigure& f) {
  Json object{{"min", f.least}, {"min_layer", f.least_layer}};
  if (f.least_expert >= 0) object["min_expert"] = f.least_expert;
  object.update({{"mean", f.mean}, {"max", f.most}, {"max_layer", f.most_layer}});
  if (f.most_expert >= 0) object["max_expert"] = f.most_expert;
  return object;
}

std::string line(const Json& object) {
  // A name that is not UTF-8 must not stop a run.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void StepMetrics::set_rates(double seconds, int64_t rows, int64_t step_tokens,
                            const FlopCount& flops, int64_t ranks, const MatmulPeak& peak,
                            bool with_full_count) {
  const auto utilization = [&](double tflops) {
    return peak.known() ? std::optional(model_flops_utilization(tflops, peak)) : std::nullopt;
  };
  rank_count = ranks;
  step_seconds = seconds;
  step_samples = rows;
  samples_per_second = static_cast<double>(rows) / seconds;
  tokens_per_second = static_cast<double>(step_tokens) / seconds;
  flop_convention = kFlopConvention;
  mfu_peak = peak.known() ? peak.describe() : "";
  tflops_per_rank = viaduct::tflops_per_rank(flops.model(), seconds, ranks);
  mfu = utilization(tflops_per_rank);
  tflops_per_rank_full.reset();
  mfu_full.reset();
  if (with_full_count) {
    tflops_per_rank_full = viaduct::tflops_per_rank(flops.full(), seconds, ranks);
    mfu_full = utilization(*tflops_per_rank_full);
  }
}

std::string json_line(const StepMetrics& m) {
  Json object{
      {"step", m.step},
      {"samples", m.samples},
      {"tokens", m.tokens},
      {"loss", or_null(m.loss)},
      {"grad_norm", or_null(m.grad_norm)},
      {"learning_rate", m.learning_rate},
      {"global_batch_size", m.step_samples},
      {"step_seconds", m.step_seconds},
  };
  if (!m.mtp_losses.empty()) object["mtp_losses"] = m.mtp_losses;
  if (m.with_rates) {
    object["samples_per_second"] = m.samples_per_second;
    object["tokens_per_second"] = m.tokens_per_second;
    object["tflops_per_rank"] = m.tflops_per_rank;
    object["mfu"] = or_null(m.mfu);
    object["mfu_peak"] = m.mfu ? Json(m.mfu_peak) : Json(nullptr);
    object["flop_convention"] = m.flop_convention;
  }
  object.update({
      {"communication_seconds", m.communication_seconds},
      {"communication_busy_seconds", m.communication_busy_seconds},
      {"data_seconds", m.data_seconds},
      {"peak_memory_bytes", m.peak_memory_bytes},
      {"skipped", m.skipped},
  });
  if (m.tflops_per_rank_full) {
    object["tflops_per_rank_full"] = *m.tflops_per_rank_full;
    object["mfu_full"] = or_null(m.mfu_full);
  }
  if (m.nothing_scored > 0) object["nothing_scored"] = m.nothing_scored;
  if (m.loss_scale) object["loss_scale"] = *m.loss_scale;
  if (m.params_norm) object["params_norm"] = *m.params_norm;
  if (m.num_zeros_in_grad) object["num_zeros_in_grad"] = *m.num_zeros_in_grad;
  if (m.ranks) {
    object["ranks"] = {{"step", m.ranks->step},
                       {"step_seconds", of_ranks(m.ranks->step_seconds)},
                       {"data_seconds", of_ranks(m.ranks->data_seconds)},
                       {"communication_seconds", of_ranks(m.ranks->communication_seconds)},
                       {"peak_memory_bytes", of_ranks(m.ranks->peak_memory_bytes)}};
  }
  for (const auto& [name, figure] : m.routers) object["routers"][name] = of_layers(figure);
  for (const auto& [name, timer] : m.timers) object["timers"][name] = of_ranks(timer);
  for (const auto& [name, e] : m.quantization) object["quantization"][name] = of_quantized(e);
  if (m.simulated) object["simulated"] = true;
  return line(object);
}

std::string json_line(const ValidationMetrics& m) {
  const std::string kind = m.test ? "test" : "validation";
  Json object{{"step", m.step}, {"samples", m.samples}, {"tokens", m.tokens}};
  if (m.set) {
    object[kind + "_set"] = *m.set;
    object[kind + "_data"] = m.set_name;
  }
  object[kind + "_loss"] = m.validation_loss;
  object[kind + "_tokens"] = m.validation_tokens;
  object[kind + "_seconds"] = m.validation_seconds;
  return line(object);
}

std::string json_line(const TaskMetrics& m) {
  Json object{{"step", m.step}, {"samples", m.samples}, {"tokens", m.tokens}};
  Json& tasks = object["validation_tasks"] = Json::object();
  for (const TaskFigures& figures : m.tasks) tasks[figures.task] = to_json(figures);
  object["validation_seconds"] = m.seconds;
  return line(object);
}

std::string json_line(const AnswerMetrics& m) {
  Json object{{"step", m.step}, {"samples", m.samples}, {"tokens", m.tokens}};
  Json& answers = object["validation_answers"] = Json::array();
  for (const SampleAnswer& answer : m.answers)
    answers.push_back({{"prompt", answer.prompt}, {"answer", answer.answer}});
  object["validation_seconds"] = m.seconds;
  return line(object);
}

std::string json_stopped_line(int64_t step, const std::string& reason) {
  return line({{"step", step}, {"stopped", reason}});
}

}  // namespace viaduct
