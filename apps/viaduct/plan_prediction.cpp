#include "plan_prediction.h"

#include <fmt/core.h>

#include <array>

#include "base/json.h"
#include "base/units.h"
#include "model/flops.h"
#include "rule_report.h"
#include "run/vision_support.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

Json timeline_json(const StageTimeline& timeline) {
  Json phases = Json::array(), memory = Json::array();
  for (const PhaseSpan& phase : timeline.phases)
    phases.push_back({{"name", phase.name},
                      {"micro_batch", phase.micro_batch < 0 ? Json() : Json(phase.micro_batch)},
                      {"chunk", phase.chunk < 0 ? Json() : Json(phase.chunk)},
                      {"begin", phase.span.begin},
                      {"end", phase.span.end}});
  for (const MemoryPoint& point : timeline.memory) memory.push_back({point.seconds, point.bytes});
  return {{"phases", std::move(phases)}, {"memory", std::move(memory)}};
}

Json stage_json(const StagePrediction& stage) {
  Json kinds;
  for (int kind = 0; kind < kOpKinds; ++kind)
    kinds[std::string(op_kind_name(OpKind(kind)))] =
        stage.time.compute_by_kind[static_cast<size_t>(kind)];
  Json object{{"rank", stage.run.rank.value},
              {"peak_memory_bytes", stage.run.peak.bytes},
              {"memory_by_owner", stage.run.peak.bytes_by_tag},
              {"launches_per_step", stage.run.launches},
              {"seconds",
               {{"compute", stage.time.compute},
                {"compute_by_kind", std::move(kinds)},
                {"optimizer", stage.time.optimizer},
                {"exposed_communication", stage.time.exposed},
                {"bubble", stage.time.bubble},
                {"host", stage.time.host},
                {"communication_busy", stage.busy_communication}}}};
  if (!stage.timeline.phases.empty()) object["timeline"] = timeline_json(stage.timeline);
  return object;
}

/// Of the seconds of ops and collectives, the share that each basis has.
std::array<double, kTimeBases> basis_shares(const Prediction& p) {
  std::array<double, kTimeBases> shares = p.seconds_by_basis;
  double sum = 0;
  for (double seconds : shares) sum += seconds;
  for (double& share : shares) share = sum > 0 ? share / sum : 0;
  return shares;
}

void print_stage(const StagePrediction& stage, size_t number, double step, double capacity) {
  const auto row = [&](std::string_view name, double seconds) {
    if (seconds >= 5e-5 * step)
      fmt::print("  {:<24} {:>10} {:>7.1f} %\n", name, format_seconds(seconds),
                 100 * seconds / step);
  };
  fmt::print("stage {}, rank {}: {} of {} of memory, {} a step\n", number, stage.run.rank.value,
             format_bytes(stage.run.peak.bytes), format_bytes(static_cast<int64_t>(capacity)),
             counted(stage.run.launches, "launch", "launches"));
  row("compute", stage.time.compute);
  for (int kind = 0; kind < kOpKinds; ++kind)
    row(fmt::format("  {}", op_kind_name(OpKind(kind))),
        stage.time.compute_by_kind[static_cast<size_t>(kind)]);
  row("optimizer", stage.time.optimizer);
  for (const auto& [group, seconds] : stage.time.exposed) row("exposed, " + group, seconds);
  row("bubble", stage.time.bubble);
  row("host", stage.time.host);
}

}  // namespace

Json figures_json(const Prediction& p) {
  Json memory = Json::array();
  for (const StagePrediction& stage : p.stages) memory.push_back(stage.run.peak.bytes);
  return {{"step_seconds", p.step_seconds},
          {"tokens_per_second_per_gpu", p.tokens_per_second_per_gpu},
          {"tflops_per_gpu", p.model_tflops_per_gpu},
          {"mfu", p.mfu},
          {"mfu_peak", p.peak.describe()},
          {"flop_convention", kFlopConvention},
          {"peak_memory_bytes", std::move(memory)}};
}

void print_prediction_document(const PredictedRun& of, const std::optional<MeasuredSteps>& measured,
                               const rules::Evaluation& evaluation) {
  const auto& [setup, cluster, p, basis, calibrated] = of;
  Json stages = Json::array(), predicted = figures_json(p);
  for (const StagePrediction& stage : p.stages) stages.push_back(stage_json(stage));
  predicted["capacity_bytes"] = p.capacity_bytes;
  predicted["fits"] = p.fits;
  Json document{{"config", to_yaml(setup.config)},
                {"cluster", cluster.name},
                {"gpu", cluster.gpu.name},
                {"gpus", setup.config.dist.ranks},
                {"images_of_row", images_of_row(setup)},
                {"predicted", std::move(predicted)},
                {"stages", std::move(stages)},
                {"basis", basis},
                {"notes", setup.notes},
                {"guide_rules", rules_json(evaluation)}};
  if (calibrated) {
    const auto shares = basis_shares(p);
    document["time_basis"] = {
        {"measured", shares[0]}, {"interpolated", shares[1]}, {"modelled", shares[2]}};
  }
  if (measured) document["measured"] = measured_json(p, *measured);
  fmt::print("{}\n", document.dump(2));
}

void print_prediction(const PredictedRun& of) {
  const auto& [setup, cluster, p, basis, calibrated] = of;
  fmt::print("{} × {} ({}), predicted from {}\n", setup.config.dist.ranks, cluster.gpu.name,
             cluster.name, basis);
  fmt::print(
      "step {}, {:.0f} tokens/s a GPU, {:.0f} model TFLOP/s a GPU ({}), MFU {:.1f} % of {}\n",
      format_seconds(p.step_seconds), p.tokens_per_second_per_gpu, p.model_tflops_per_gpu,
      kFlopConvention, 100 * p.mfu, p.peak.describe());
  if (const std::string images = images_text(setup); !images.empty())
    fmt::print("images: {}\n", images);
  if (calibrated) {
    const auto shares = basis_shares(p);
    fmt::print(
        "times of ops and communication: {:.1f} % measured, {:.1f} % interpolated, {:.1f} % "
        "modelled\n",
        100 * shares[0], 100 * shares[1], 100 * shares[2]);
  }
  for (size_t i = 0; i < p.stages.size(); ++i)
    print_stage(p.stages[i], i, p.step_seconds, p.capacity_bytes);
  if (p.host_is_full()) {
    fmt::print(
        "does not fit: what the ranks of a host offload takes {} of its memory, which has {}\n",
        format_bytes(static_cast<int64_t>(p.host_bytes)),
        format_bytes(static_cast<int64_t>(p.host_capacity_bytes)));
  } else if (!p.fits) {
    fmt::print("does not fit: the fullest stage needs more than the GPU has\n");
  }
  for (const std::string& note : setup.notes) fmt::print("note: {}\n", note);
}

}  // namespace viaduct::cli
