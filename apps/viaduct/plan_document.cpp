#include "plan_document.h"

#include <algorithm>

#include "plan/reasons.h"
#include "plan_prediction.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

// Of the time limit: the least that is left for changes of the run when no layout fits.
constexpr double kChangesShare = 0.1;

Json layout_json(const Layout& l) {
  Json json{{"tensor_model_parallel_size", l.tp},
            {"context_parallel_size", l.cp},
            {"pipeline_model_parallel_size", l.pp},
            {"virtual_pipeline_model_parallel_size", l.vpp},
            {"data_parallel_size", l.dp},
            {"micro_batch_size", l.micro_batch},
            {"micro_batches", l.micro_batches},
            {"sharding", sharding_text(l.sharding)},
            {"recompute", recompute_text(l.recompute)}};
  if (l.ep > 0)
    json["expert_model_parallel_size"] = l.ep, json["expert_tensor_parallel_size"] = l.etp;
  if (l.has_encoder) {
    json["encoder_pipeline_model_parallel_size"] = l.encoder_stages;
    json["encoder_tensor_model_parallel_size"] = l.encoder_tp;
  }
  if (l.variant) json["varied"] = l.variant->name;
  return json;
}

Json candidate_json(const PlanSearchOptions& options, const Cluster& cluster,
                    const SearchResult& result, size_t index, const SearchSettings& settings) {
  const Candidate& candidate = result.candidates[index];
  const Prediction& p = candidate.prediction;
  Json parts;
  for (const auto& [name, seconds] : step_parts(p)) parts[name] = seconds;
  const Bill bill = bill_of(options, cluster, result.ranks, p);
  Json json = layout_json(candidate.layout);
  json["overrides"] = overrides_of(candidate.layout);
  Json& predicted = json["predicted"] = figures_json(p);
  predicted["slack_bytes"] = candidate.slack_bytes();
  predicted["fits"] = p.fits;
  predicted["seconds"] = std::move(parts);
  predicted["days"] = bill.days ? Json(*bill.days) : Json();
  predicted["cost_usd"] = bill.usd ? Json(*bill.usd) : Json();
  json["proven"] = static_cast<int64_t>(index) < result.proven;
  json["lower_bound"] = {{"step_seconds", candidate.bound.seconds},
                         {"peak_memory_bytes", candidate.bound.bytes}};
  json["tie"] = ties_with_best(result, candidate, settings.tie_share);
  json["pareto"] = on_pareto_front(result, candidate);
  json["reasons"] = reasons_of(result, index, settings);
  json["notes"] = candidate.notes;
  return json;
}

Json miss_json(const NearMiss& miss) {
  Json json = layout_json(miss.rejected.layout);
  json["step_seconds"] = miss.rejected.seconds;
  json["step_seconds_is"] = miss.rejected.exact_seconds ? "predicted" : "lower bound";
  json["peak_memory_bytes"] = miss.rejected.bytes;
  json["peak_memory_is"] = miss.rejected.exact_bytes ? "dry run" : "lower bound";
  json["excess_bytes"] = miss.excess_bytes;
  json["change_that_fits"] = miss.rejected.neighbor
                                 ? Json(differences(miss.rejected.layout, *miss.rejected.neighbor))
                                 : Json();
  json["reason"] = text_of(miss);
  return json;
}

Json change_json(const FittingChange& change) {
  return {{"overrides", change.overrides},
          {"peak_memory_bytes", change.bytes},
          {"excess_bytes", change.excess_bytes},
          {"fits", change.excess_bytes <= 0},
          {"reason", text_of(change)}};
}

}  // namespace

FittingChanges changes_that_fit(const PlanSearchOptions& options, const PlanRequest& request,
                                const SearchResult& result) {
  if (!result.candidates.empty() || result.rejected.empty()) return {};
  const double seconds =
      std::max(options.seconds() - result.seconds, kChangesShare * options.seconds());
  return fitting_changes(request, result, near_misses(result).front().rejected.layout,
                         Deadline::at(steady_seconds() + seconds));
}

Json search_document(const PlanSearchOptions& options, const PlanRequest& request,
                     const SearchResult& result, const std::string& basis) {
  const SearchSettings settings = search_settings(options);
  const Cluster& cluster = request.cluster;
  Json candidates = Json::array(), rejected = Json::array(), refused = Json::array();
  const size_t count = std::min(result.candidates.size(), static_cast<size_t>(options.top));
  for (size_t i = 0; i < count; ++i)
    candidates.push_back(candidate_json(options, cluster, result, i, settings));
  for (const NearMiss& miss : near_misses(result)) rejected.push_back(miss_json(miss));
  for (const auto& [message, layouts] : result.refused)
    refused.push_back({{"layouts", layouts}, {"reason", message}});
  Json changes = Json::array(), given_up = Json::array();
  const FittingChanges fitting = changes_that_fit(options, request, result);
  for (const FittingChange& change : fitting.changes) changes.push_back(change_json(change));
  for (const Layout& layout : result.given_up) given_up.push_back(layout_json(layout));
  return {{"model", options.model},
          {"cluster", cluster.name},
          {"gpu", cluster.gpu.name},
          {"gpus", result.ranks},
          {"images_of_row", result.images_of_row},
          {"capacity_bytes", result.capacity_bytes},
          {"candidates", std::move(candidates)},
          {"rejected", std::move(rejected)},
          {"refused", std::move(refused)},
          {"changes", std::move(changes)},
          {"changes_not_tried", fitting.not_tried},
          {"search",
           {{"layouts", result.layouts},
            {"dry_runs", result.dry_runs},
            {"layer_costs", result.layer_costs},
            {"too_large", result.rejected.size()},
            {"left", result.left},
            {"given_up", std::move(given_up)},
            {"next_bound_seconds", result.next_bound},
            {"complete", result.complete},
            {"proven", result.proven},
            {"seconds", result.seconds},
            {"tie_share", settings.tie_share},
            {"not_searched", result.not_searched}}},
          {"basis", basis}};
}

}  // namespace viaduct::cli
