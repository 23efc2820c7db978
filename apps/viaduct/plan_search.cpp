#include "plan_search.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "base/units.h"
#include "plan/reasons.h"
#include "plan/written_config.h"
#include "plan_document.h"
#include "plan_largest.h"
#include "plan_scaling.h"
#include "run/check_conversations.h"

namespace viaduct::cli {
namespace {

/// How far the result is proven, in words.
std::string proof_text(const SearchResult& result, const SearchSettings& settings) {
  if (result.left == 0) return "all layouts were predicted or rejected";
  if (result.complete) {
    return fmt::format("{} at least {}: none is faster than the best",
                       counted(result.left, "further layout takes", "further layouts take"),
                       format_seconds(result.next_bound));
  }
  return fmt::format(
      "not complete: the time limit of {:.3g} s was reached with {} left, of which the "
      "fastest takes at least {}; --time-limit raises it",
      settings.time_limit_seconds, counted(result.left, "layout"),
      format_seconds(result.next_bound));
}

/// Which of the first `count` rows are the fastest of all layouts, and which only of those that
/// were predicted before the time limit.
std::string proven_rows_text(const SearchResult& result, size_t count) {
  const size_t proven = std::min(static_cast<size_t>(result.proven), count);
  if (result.left == 0 || count < 2) return "";
  if (proven == count) return fmt::format("rows 1 to {} are proven: no other is faster\n", count);
  return fmt::format(
      "? not proven: the time limit ended the search before, and a layout that was not predicted "
      "may take only {}; --time-limit raises it\n",
      format_seconds(result.next_bound));
}

void print_row(const PlanSearchOptions& options, const Cluster& cluster, const SearchResult& result,
               size_t index, const SearchSettings& settings) {
  const Candidate& c = result.candidates[index];
  const Layout& l = c.layout;
  const Prediction& p = c.prediction;
  const Bill bill = bill_of(options, cluster, result.ranks, p);
  std::string money;
  if (bill.days) money += fmt::format("  {:.1f} days", *bill.days);
  if (bill.usd) money += fmt::format("  ${}", format_count(*bill.usd));
  if (l.ep > 0) money += fmt::format("  ep {} etp {}", l.ep, l.etp);
  if (l.encoder_stages > 0)
    money += fmt::format("  encoder pp {} tp {}", l.encoder_stages, l.encoder_tp);
  if (l.variant) money += "  " + l.variant->name;
  fmt::print(
      "{:>2}{}{} {:>3} {:>3} {:>3} {:>3} {:>5} {:>5} × {:<5} {:<9} {:<9} {:>9} {:>10.0f} "
      "{:>5.1f} % {:>10} {:>10}{}{}\n",
      index + 1, on_pareto_front(result, c) ? '*' : ' ',
      static_cast<int64_t>(index) < result.proven ? ' ' : '?', l.tp, l.cp, l.pp, l.vpp, l.dp,
      l.micro_batch, l.micro_batches, sharding_text(l.sharding), recompute_text(l.recompute),
      format_seconds(p.step_seconds), p.tokens_per_second_per_gpu, 100 * p.mfu,
      format_bytes(c.peak_bytes()), format_bytes(static_cast<int64_t>(c.slack_bytes())),
      index > 0 && ties_with_best(result, c, settings.tie_share) ? "  tie" : "", money);
}

void print_candidates(const PlanSearchOptions& options, const Cluster& cluster,
                      const SearchResult& result, const SearchSettings& settings) {
  fmt::print(
      "       tp  cp  pp vpp    dp micro-batch   sharding  recompute      step tokens/s/G "
      "    MFU       peak      slack\n");
  const size_t count = std::min(result.candidates.size(), static_cast<size_t>(options.top));
  for (size_t i = 0; i < count; ++i) print_row(options, cluster, result, i, settings);
  fmt::print("* no other row is both faster and smaller; MFU is of {}\n",
             result.candidates.front().prediction.peak.describe());
  fmt::print("{}", proven_rows_text(result, count));
  fmt::print("\n");
  for (size_t i = 0; i < std::min<size_t>(count, 3); ++i) {
    fmt::print("{}: {}\n", i + 1, describe(result.candidates[i].layout));
    for (const std::string& reason : reasons_of(result, i, settings)) fmt::print("   {}\n", reason);
  }
}

void print_text(const PlanSearchOptions& options, const PlanRequest& request,
                const SearchResult& result, const SearchSettings& settings,
                const std::string& basis) {
  const Cluster& cluster = request.cluster;
  fmt::print("{} on {} × {} ({}), {} of {} a step, predicted from {}\n", options.model,
             result.ranks, cluster.gpu.name, cluster.name, counted(result.global_batch, "row"),
             counted(result.length, "token"), basis);
  if (!result.images.empty()) fmt::print("images: {}\n", result.images);
  fmt::print("{}: {} predicted, {} too large, {} left; {:.1f} s\n{}\n",
             counted(result.layouts, "layout"), result.dry_runs, result.rejected.size(),
             result.left, result.seconds, proof_text(result, settings));
  for (const Layout& layout : result.given_up)
    fmt::print("given up at the time limit while it was predicted: {}\n", describe(layout));
  fmt::print("\n");
  if (!result.candidates.empty()) print_candidates(options, cluster, result, settings);
  const auto misses = near_misses(result);
  if (!misses.empty())
    fmt::print("\n{}{}\n", result.candidates.empty() && result.left == 0 ? "No layout fits. " : "",
               result.candidates.empty()
                   ? "Do not fit, smallest first, and what would make the first one fit:"
                   : "Might be faster, but do not fit:");
  for (const NearMiss& miss : misses) fmt::print("- {}\n", text_of(miss));
  const FittingChanges fitting = changes_that_fit(options, request, result);
  for (const FittingChange& change : fitting.changes) fmt::print("  {}\n", text_of(change));
  if (fitting.not_tried > 0)
    fmt::print("  changes of the run that were not tried within the time limit: {}\n",
               fitting.not_tried);
  for (const auto& [message, layouts] : result.refused)
    fmt::print("refused, {}: {}\n", counted(layouts, "layout"), message);
  for (const std::string& text : result.not_searched) fmt::print("not searched: {}\n", text);
}

void write_winner(const PlanSearchOptions& options, const PlanRequest& request,
                  const SearchResult& result) {
  const Candidate& best = result.candidates.front();
  const std::vector<std::string> comment{
      fmt::format("Written by viaduct plan: {} on {} × {} ({}).", options.model, result.ranks,
                  request.cluster.gpu.name, request.cluster.name),
      fmt::format("Predicted: step {:.4g} s, {:.0f} tokens/s a GPU, MFU {:.1f} %, peak memory {}.",
                  best.prediction.step_seconds, best.prediction.tokens_per_second_per_gpu,
                  100 * best.prediction.mfu, format_bytes(best.peak_bytes()))};
  write_file_atomically(
      options.write, written_config(with_tokens(request, options, result), best.layout, comment));
}

/// The fastest layout was chosen by its prediction; rules cover what a search does not examine.
/// ConfigError for what a run of it would refuse of its data.
rules::Evaluation evaluate_winner(const PlanRequest& request, const Candidate& best,
                                  const RuleOptions& options) {
  std::vector<std::string> overrides = request.overrides;
  const std::vector<std::string> layout = overrides_of(best.layout);
  overrides.insert(overrides.end(), layout.begin(), layout.end());
  const RunSetup setup = setup_of_layout(request, best.layout, {});
  check_conversations(setup);
  return rules::evaluate_rules(
      rules::figures_of(setup, request.cluster, request.prediction, best.prediction),
      evaluation_settings(options),
      rules::predict_changes(request.file, overrides, request.cluster, request.prediction));
}

int search_once(const PlanSearchOptions& options, const Cluster& cluster, int64_t ranks,
                const std::string& basis, const RuleOptions& rules) {
  VIADUCT_CHECK(ConfigError, !options.weak,
                "viaduct plan: --weak with one number of ranks has no effect");
  VIADUCT_CHECK(ConfigError, !options.deadline && !options.budget,
                "viaduct plan: {} chooses between numbers of GPUs; give several, such as --ranks "
                "64,128,256",
                options.deadline ? "--deadline" : "--budget");
  const PlanRequest request = plan_request(options, cluster, ranks, *options.global_batch);
  const SearchSettings settings = search_settings(options);
  const SearchResult result = search_layouts(request, settings);
  std::optional<rules::Evaluation> evaluation;
  if (!result.candidates.empty())
    evaluation =
        evaluate_winner(with_tokens(request, options, result), result.candidates.front(), rules);
  if (options.json) {
    nlohmann::ordered_json document = search_document(options, request, result, basis);
    if (evaluation) document["guide_rules"] = rules_json(*evaluation);
    fmt::print("{}\n", document.dump(2));
  } else {
    print_text(options, request, result, settings, basis);
    if (evaluation) print_rules(*evaluation, rules.verbose);
  }
  if (result.candidates.empty()) {
    VIADUCT_CHECK(
        ConfigError, result.refused.empty() || !result.rejected.empty() || result.left > 0,
        "viaduct plan: the trainer refuses every layout: {}", result.refused.begin()->first);
    fail<Error>("viaduct plan: no layout of {} on {} × {} {}", options.model, result.ranks,
                cluster.gpu.name, result.left > 0 ? "was found in time" : "fits in memory");
  }
  if (!options.write.empty()) write_winner(options, request, result);
  return 0;
}

}  // namespace

int run_plan_search(const PlanSearchOptions& options, const Cluster& cluster,
                    const std::string& basis, const WinnerRules& rules) {
  VIADUCT_CHECK(ConfigError, options.global_batch.has_value(),
                "viaduct plan --model: --global-batch (rows of a step) is missing");
  const std::vector<int64_t> counts = rank_counts(options.ranks);
  const bool one_winner = counts.size() == 1 && !options.longest && !options.largest;
  VIADUCT_CHECK(
      ConfigError, one_winner || rules.given.empty(),
      "viaduct plan: {} has no effect here: rules are applied to the winner of one search",
      fmt::join(rules.given, ", "));
  evaluation_settings(rules.options);  // errors are reported before the search
  VIADUCT_CHECK(ConfigError, options.tokens || !options.price,
                "viaduct plan: --price without --tokens has no effect");
  if (options.longest || options.largest) {
    VIADUCT_CHECK(ConfigError,
                  counts.size() == 1 && !options.weak && !options.deadline && !options.budget &&
                      !options.tokens,
                  "viaduct plan: --longest and --largest expect one number of ranks, and neither "
                  "--weak, --tokens, --deadline nor --budget");
    return run_plan_largest(options, cluster, counts.front(), basis);
  }
  if (counts.size() > 1) return run_plan_scaling(options, cluster, counts, basis);
  return search_once(options, cluster, counts.front(), basis, rules.options);
}

}  // namespace viaduct::cli
