#include "plan_request.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/hub_cache.h"
#include "plan/model_catalog.h"
#include "plan/variants.h"

namespace viaduct::cli {
namespace {

// Of a search whose user gave no limit, as long as nothing fits.
constexpr double kFirstRowSeconds = 60;

/// The recipe of --precision; whether the GPU has its formats is checked with the configuration.
std::string recipe_of(const std::string& precision, const Cluster& cluster) {
  std::map<std::string, std::string> recipes{{"bf16", "bf16_mixed"},
                                             {"fp8", "bf16_with_fp8_current_scaling_mixed"},
                                             {"mxfp8", "bf16_with_mxfp8_mixed"},
                                             {"nvfp4", "bf16_with_nvfp4_mixed"}};
  if (cluster.gpu.is_cpu) recipes["fp32"] = "fp32";
  if (const auto found = recipes.find(precision); found != recipes.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, recipe] : recipes) names.push_back(name);
  fail<ConfigError>(
      "viaduct plan --precision {}: expected one of {}; other recipes: mixed_precision=NAME after "
      "the options",
      precision, fmt::join(names, ", "));
}

}  // namespace

std::vector<int64_t> rank_counts(const std::string& text) {
  std::vector<int64_t> counts;
  for (const char *at = text.data(), *last = at + text.size();; ++at) {
    int64_t ranks = 0;
    const auto [end, error] = std::from_chars(at, last, ranks);
    VIADUCT_CHECK(ConfigError, error == std::errc() && ranks >= 1 && (end == last || *end == ','),
                  "viaduct plan --ranks: expected a number of at least 1, or several such as "
                  "64,128,256; found {}",
                  text.empty() ? "nothing" : text);
    VIADUCT_CHECK(ConfigError, counts.empty() || ranks > counts.back(),
                  "viaduct plan --ranks {}: expected ascending numbers, found {} after {}", text,
                  ranks, counts.back());
    counts.push_back(ranks);
    if (end == last) return counts;
    at = end;
  }
}

PlanRequest plan_request(const PlanSearchOptions& options, const Cluster& cluster, int64_t ranks,
                         int64_t global_batch) {
  PlanRequest request{.cluster = cluster,
                      .prediction = prediction_settings(cluster, options.spec_sheet)};
  const std::string& model = options.model;
  auto& fields = request.overrides;
  if (model.ends_with(".yaml") || model.ends_with(".yml")) {
    request.file = model;
  } else if (model.ends_with(".json") || model.ends_with(".gguf") ||
             std::filesystem::is_directory(model) ||
             (model.find('/') != std::string::npos && find_model(model))) {
    fields.push_back("model.hf_config=" + model);
  } else {
    fields = catalog_model(model);
    if (options.sequence_length)
      fields.push_back(fmt::format("model.max_position_embeddings={}", *options.sequence_length));
  }
  fields.push_back(fmt::format("dist.ranks={}", ranks));
  fields.push_back(fmt::format("train.global_batch_size={}", global_batch));
  if (options.sequence_length)
    fields.push_back(fmt::format("model.seq_length={}", *options.sequence_length));
  if (request.file.empty() || options.precision)
    fields.push_back("mixed_precision.recipe=" +
                     recipe_of(options.precision.value_or("bf16"), cluster));
  fields.insert(fields.end(), options.overrides.begin(), options.overrides.end());
  request.variants = variants_of(options.vary);
  const bool of_catalog = request.file.empty() && !fields.front().starts_with("model.hf_config=");
  const bool stated = std::ranges::any_of(options.overrides, [](const std::string& text) {
    return text.starts_with("model.seq_length=");
  });
  VIADUCT_CHECK(ConfigError, !of_catalog || options.sequence_length || options.longest || stated,
                "viaduct plan --model {}: --seq-length (tokens of a row) is missing", model);
  return request;
}

PlanRequest with_tokens(PlanRequest request, const PlanSearchOptions& options,
                        const SearchResult& result) {
  const bool given = std::ranges::any_of(request.overrides, [](const std::string& text) {
    return text.starts_with("train.train_iters=") || text.starts_with("train.train_samples=");
  });
  if (!options.tokens || given) return request;
  const double steps =
      std::ceil(*options.tokens / static_cast<double>(result.global_batch * result.length));
  if (steps < 1e15)
    request.overrides.push_back(
        fmt::format("train.train_iters={}", static_cast<int64_t>(std::max(1.0, steps))));
  return request;
}

SearchSettings search_settings(const PlanSearchOptions& options) {
  return {.time_limit_seconds = options.seconds(),
          .first_row_seconds = options.time_limit ? 0 : kFirstRowSeconds,
          .rows = options.top};
}

Bill bill_of(const PlanSearchOptions& options, const Cluster& cluster, int64_t ranks,
             const Prediction& prediction) {
  Bill bill;
  if (!options.tokens) return bill;
  const double seconds =
      *options.tokens / prediction.tokens_per_second_per_gpu / static_cast<double>(ranks);
  bill.days = seconds / 86400;
  std::optional<double> price = options.price;
  if (!price && cluster.gpu.price) price = (cluster.gpu.price->low + cluster.gpu.price->high) / 2;
  if (price) bill.usd = seconds / 3600 * static_cast<double>(ranks) * *price;
  return bill;
}

}  // namespace viaduct::cli
