#include "plan/score/published_run.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/flops.h"
#include "plan/model_catalog.h"
#include "plan/score/published_features.h"
#include "run/setup.h"

namespace viaduct {
namespace {

/// FLOPs that a source counted for a token, from its convention (which pages count attention in
/// full, and which recomputation).
double flops_of_token(const PublishedRow& row, std::string& convention) {
  std::vector<std::string> overrides = catalog_model(row.text("model"));
  const int64_t length = row.needed_count("seq_len");
  overrides.push_back(fmt::format("model.seq_length={}", length));
  const ModelConfig model = prepare_run(load_run_config({}, overrides)).model;
  const std::string framework = row.text("framework"), notes = row.text("notes");
  const bool causal = framework.starts_with("Megatron-Bridge") ||
                      framework.starts_with("Megatron-LM dev 2026") ||
                      framework.starts_with("NeMo Automodel") || framework == "Megatron-Core MoE";
  const bool hardware = notes.find("hardware FLOP") != std::string::npos ||
                        notes.find("recompute counted") != std::string::npos ||
                        framework.starts_with("Megatron-LM 2021");
  convention = hardware ? "full attention and recomputation counted"
               : causal ? "causal attention counted half"
                        : "attention counted in full";
  const FlopCount count = training_flops(flop_sizes(model), 1, length);
  return (causal ? count.model() : count.full()) / static_cast<double>(length) *
         (hardware ? 4.0 / 3 : 1);
}

}  // namespace

int64_t override_value(const PublishedRun& run, const std::string& field) {
  for (const std::string& text : run.overrides)
    if (text.starts_with(field + "=")) return std::stoll(text.substr(field.size() + 1));
  return 0;
}

std::optional<double> published_throughput(const PublishedRow& row,
                                           std::vector<std::string>& notes) {
  if (const auto stated = row.number("tokens_per_sec_per_gpu")) return stated;
  if (const auto seconds = row.number("step_time_s")) {
    notes.emplace_back("published: from the step's seconds");
    return static_cast<double>(row.needed_count("global_batch") * row.needed_count("seq_len")) /
           *seconds / static_cast<double>(row.needed_count("n_gpus"));
  }
  const auto tflops = row.number("tflops_per_gpu");
  if (!tflops) return {};
  std::string convention;
  const double flops = flops_of_token(row, convention);
  notes.push_back(fmt::format("published: from TFLOP/s, {}", convention));
  return *tflops * 1e12 / flops;
}

PublishedRun published_run(const PublishedRow& row) {
  const std::string name = row.text("model");
  if (name.empty()) throw UnsupportedRow("the source does not state model");
  PublishedRun run;
  try {
    run.overrides = catalog_model(name);
  } catch (const ConfigError& error) {
    throw UnsupportedRow(error.what());
  }
  add_precision(row, run);
  add_layout(row, override_value(run, "model.num_layers"), run);
  add_sharding(row, run);
  add_adapters(row, run);
  add_recompute(row, run);
  add_overlap(row, run);
  add_kernels(row, run);
  if (override_value(run, "model.num_moe_experts") > 0 && row.notes_mention("tokendrop"))
    run.notes.emplace_back("the run dropped tokens");
  return run;
}

}  // namespace viaduct
