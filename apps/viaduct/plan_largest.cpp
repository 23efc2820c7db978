#include "plan_largest.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "base/units.h"
#include "plan/written_config.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string value_text(LargestOf question, int64_t value) {
  return question == LargestOf::tokens ? fmt::format("rows of {} tokens", value)
                                       : counted(value, "layer");
}

/// What is known about the next larger value.
std::string next_text(const LargestFit& fit, LargestOf question) {
  const int64_t next = fit.value + step_of(question);
  if (!fit.proven)
    return fmt::format(
        "the search hit its time limit after {:.0f} s, so more may fit; --time-limit raises it",
        fit.seconds);
  if (!fit.next_refused.empty())
    return fmt::format("{} are refused: {}", value_text(question, next), fit.next_refused);
  if (fit.next_bytes == 0) return "nothing larger was tried";
  return fmt::format("{} need at least {} in any layout, of {}", value_text(question, next),
                     format_bytes(static_cast<int64_t>(fit.next_bytes)),
                     format_bytes(static_cast<int64_t>(fit.capacity_bytes)));
}

Json json_of(const PlanSearchOptions& options, const Cluster& cluster, int64_t ranks,
             LargestOf question, const LargestFit& fit, const Prediction* prediction,
             const std::string& basis) {
  Json document{{"model", options.model},
                {"cluster", cluster.name},
                {"gpu", cluster.gpu.name},
                {"gpus", ranks},
                {"question", question == LargestOf::tokens ? "longest rows" : "most layers"},
                {"value", fit.value},
                {"proven", fit.proven},
                {"capacity_bytes", fit.capacity_bytes}};
  if (prediction != nullptr) {
    document["layout"] = describe(fit.layout);
    document["overrides"] = overrides_of(fit.layout);
    document["peak_memory_bytes"] = fit.bytes;
    document["predicted"] = {{"step_seconds", prediction->step_seconds},
                             {"tokens_per_second_per_gpu", prediction->tokens_per_second_per_gpu},
                             {"mfu", prediction->mfu}};
  }
  document["next"] = {{"value", fit.value + step_of(question)},
                      {"least_bytes", fit.next_bytes > 0 ? Json(fit.next_bytes) : Json()},
                      {"reason", next_text(fit, question)}};
  document["search"] = {{"dry_runs", fit.dry_runs}, {"seconds", fit.seconds}};
  document["basis"] = basis;
  return document;
}

}  // namespace

int run_plan_largest(const PlanSearchOptions& options, const Cluster& cluster, int64_t ranks,
                     const std::string& basis) {
  VIADUCT_CHECK(ConfigError, options.longest != options.largest,
                "viaduct plan: --longest and --largest exclude each other; give one of them");
  VIADUCT_CHECK(ConfigError, options.vary.empty(),
                "viaduct plan: --vary has no effect with --longest or --largest");
  VIADUCT_CHECK(ConfigError, !options.longest || !options.sequence_length,
                "viaduct plan: --seq-length with --longest has no effect");
  const LargestOf question = options.longest ? LargestOf::tokens : LargestOf::layers;
  const PlanRequest request = plan_request(options, cluster, ranks, *options.global_batch);
  const LargestFit fit = largest_that_fits(request, question, options.seconds());
  const PlanRequest found = with_value(request, question, std::max(fit.value, step_of(question)));
  std::optional<Prediction> prediction;
  if (fit.value > 0)
    prediction = predict(setup_of_layout(found, fit.layout), cluster, request.prediction);
  if (options.json) {
    fmt::print("{}\n", json_of(options, cluster, ranks, question, fit,
                               prediction ? &*prediction : nullptr, basis)
                           .dump(2));
  } else if (prediction) {
    fmt::print(
        "{} on {} × {} ({}): {} fit{}\n  {}: {} of {}; step {}, {:.0f} tokens/s a GPU, predicted "
        "from {}\n  {}\n",
        options.model, ranks, cluster.gpu.name, cluster.name, value_text(question, fit.value),
        question == LargestOf::layers && fit.value == 1 ? "s" : "", describe(fit.layout),
        format_bytes(static_cast<int64_t>(fit.bytes)),
        format_bytes(static_cast<int64_t>(fit.capacity_bytes)),
        format_seconds(prediction->step_seconds), prediction->tokens_per_second_per_gpu, basis,
        next_text(fit, question));
  }
  if (!prediction) {
    fail<Error>("viaduct plan: {} {}", options.model,
                fit.proven ? fmt::format("does not fit: {}", next_text(fit, question))
                           : "was not found to fit within the time limit; --time-limit raises it");
  }
  if (!options.write.empty()) {
    write_file_atomically(
        options.write,
        written_config(found, fit.layout,
                       {fmt::format("Written by viaduct plan: {} of {} on {} × {} ({}), the most "
                                    "that fit.",
                                    value_text(question, fit.value), options.model, ranks,
                                    cluster.gpu.name, cluster.name)}));
  }
  return 0;
}

}  // namespace viaduct::cli
