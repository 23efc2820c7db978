// viaduct plan: what a configuration needs and how long its step takes on a described cluster.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/given_path.h"
#include "base/units.h"
#include "before_ranks.h"
#include "hardware/cluster.h"
#include "number_checks.h"
#include "plan/calibrated_time.h"
#include "plan/planning_defaults.h"
#include "plan/predict.h"
#include "plan_explain.h"
#include "plan_measured.h"
#include "plan_prediction.h"
#include "plan_score.h"
#include "plan_search.h"
#include "rule_report.h"
#include "run/check_conversations.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

// A search has already examined most changes that rules advise.
constexpr double kRuleSecondsOfSearch = 1;

struct Options {
  std::string config, cluster, measured, calibration;
  std::string score, constants;
  bool timeline = false;
  RuleOptions rules;
  bool explain = false;
  PlanSearchOptions search;  // overrides and flags are those of a prediction, too
  /// Options that only a search has and that were given.
  std::function<std::vector<std::string>()> given_of_search;
  /// The same of the rules.
  std::function<std::vector<std::string>()> given_of_rules;
  /// Every option that was given.
  std::function<std::vector<std::string>()> given;
};

/// Where the times come from.
std::string basis_of(const Cluster& cluster, bool spec_sheet) {
  const std::string sheets = "specification sheets, shares of their rates fitted to published runs";
  if (cluster.gpu.is_cpu) return "round figures";
  if (spec_sheet || cluster.gpu.step_share == 1) return sheets;
  return fmt::format("{}, and a share of {} for {}", sheets, cluster.gpu.step_share,
                     cluster.gpu.name);
}

int predict_one(const Options& options, const Cluster& cluster, const std::string& basis,
                const std::shared_ptr<const Calibration>& table) {
  const double begin = steady_seconds();
  const PlanSearchOptions& common = options.search;
  RunSetup setup = before_ranks([&] {
    VIADUCT_CHECK(ConfigError, !options.config.empty() || !common.overrides.empty(),
                  "viaduct plan: expected --model MODEL to search for a layout, or a configuration "
                  "to predict: --config FILE, overrides section.field=value, or both");
    const std::vector<std::string> given = options.given_of_search();
    VIADUCT_CHECK(ConfigError, given.empty(), "viaduct plan: {} without --model has no effect",
                  fmt::join(given, ", "));
    RunSetup prepared =
        prepare_run(load_run_config(options.config, common.overrides, planning_defaults(cluster)));
    for (const std::string& warning : check_conversations(prepared))
      prepared.notes.push_back(warning);
    return prepared;
  });
  VIADUCT_CHECK(ConfigError, !options.timeline || common.json,
                "viaduct plan: --timeline without --json has no effect");
  std::optional<MeasuredSteps> measured;
  if (!options.measured.empty()) {
    check_given_path("--measured ", options.measured, "the metrics.jsonl of a run");
    measured = measured_steps(read_run_log(options.measured));
  }
  rules::EvaluationSettings rule_settings = evaluation_settings(options.rules);
  const bool calibrated = table != nullptr;
  if (calibrated) {
    if (const auto note = note_of_ranks(*table, setup.config)) setup.notes.push_back(*note);
  }
  const PredictionSettings settings = calibrated ? calibrated_settings(cluster, table)
                                                 : prediction_settings(cluster, common.spec_sheet);
  PredictionSettings shown = settings;
  shown.timeline = options.timeline;
  const Prediction prediction = predict(setup, cluster, shown, kPlanThreads);
  rule_settings.most_seconds = rule_seconds(options.rules, steady_seconds() - begin);
  const rules::Evaluation evaluation = rules::evaluate_rules(
      rules::figures_of(setup, cluster, settings, prediction), rule_settings,
      rules::predict_changes(options.config, common.overrides, cluster, settings));
  const PredictedRun predicted{setup, cluster, prediction, basis, calibrated};
  if (common.json) {
    print_prediction_document(predicted, measured, evaluation);
    return 0;
  }
  print_prediction(predicted);
  if (measured) print_measured(prediction, *measured);
  print_rules(evaluation, options.rules.verbose);
  return 0;
}

/// Of a configuration, or of the model of a search.
int explain(const Options& options, const Cluster& cluster) {
  const PlanSearchOptions& search = options.search;
  if (search.model.empty()) {
    VIADUCT_CHECK(ConfigError, !options.config.empty() || !search.overrides.empty(),
                  "viaduct plan --explain: expected --model MODEL or --config FILE");
    return explain_plan({options.config, search.overrides, cluster,
                         prediction_settings(cluster, search.spec_sheet)},
                        search.json);
  }
  const std::vector<int64_t> counts = rank_counts(search.ranks);
  VIADUCT_CHECK(
      ConfigError, counts.size() == 1 && search.global_batch,
      "viaduct plan --explain --model: expected one number of --ranks, and --global-batch");
  return explain_plan(plan_request(search, cluster, counts.front(), *search.global_batch),
                      search.json);
}

/// The table determines models and clusters, so other options have no effect.
int score(const Options& options) {
  before_ranks([&] {
    std::vector<std::string> others = options.given();
    std::erase_if(others, [](const std::string& name) {
      return name == "--score" || name == "--constants" || name == "--json";
    });
    VIADUCT_CHECK(ConfigError, others.empty(), "viaduct plan: {} with --score has no effect",
                  fmt::join(others, ", "));
  });
  return score_published(options.score, options.constants, options.search.json);
}

int run(const Options& options) {
  if (!options.score.empty()) return score(options);
  before_ranks([&] {
    VIADUCT_CHECK(ConfigError, options.constants.empty(),
                  "viaduct plan: --constants without --score has no effect");
    VIADUCT_CHECK(ConfigError, !options.cluster.empty(),
                  "viaduct plan: --cluster is required; expected one of {}, or a YAML file",
                  fmt::join(cluster_names(), ", "));
  });
  Cluster cluster = load_cluster(options.cluster);
  if (!options.calibration.empty()) {
    VIADUCT_CHECK(ConfigError, options.search.model.empty() && !options.explain,
                  "viaduct plan: --calibration with {} has no effect; expected --config",
                  options.explain ? "--explain" : "--model");
    VIADUCT_CHECK(ConfigError, !options.search.spec_sheet,
                  "viaduct plan: --spec-sheet with --calibration has no effect");
    check_given_path("--calibration ", options.calibration, "a table of viaduct bench --calibrate");
    const auto table = std::make_shared<const Calibration>(load_calibration(options.calibration));
    cluster = calibrated_cluster(cluster, *table);
    const CalibratedMachine& of = table->machine;
    const std::string machine =
        of.gpu.empty() ? fmt::format("{}, {} a rank", of.cpu, counted(of.threads, "thread"))
                       : fmt::format("{}, {}", of.gpu, of.libraries);
    return predict_one(options, cluster,
                       fmt::format("{}: {}, {}", options.calibration, machine, of.measured_at),
                       table);
  }
  const std::string basis = basis_of(cluster, options.search.spec_sheet);
  if (options.explain) return explain(options, cluster);
  if (options.search.model.empty()) return predict_one(options, cluster, basis, nullptr);
  VIADUCT_CHECK(ConfigError, options.measured.empty() && !options.timeline,
                "viaduct plan: {} without --config has no effect",
                options.timeline ? "--timeline" : "--measured");
  VIADUCT_CHECK(
      ConfigError, options.config.empty(),
      "viaduct plan: --model searches for a layout and --config predicts one; give one of "
      "them");
  WinnerRules rules{options.rules, options.given_of_rules()};
  if (!rules.options.seconds) rules.options.seconds = kRuleSecondsOfSearch;
  return run_plan_search(options.search, cluster, basis, rules);
}

std::vector<std::string> names_given(const std::vector<CLI::Option*>& options) {
  std::vector<std::string> given;
  for (const CLI::Option* option : options)
    if (option->count() > 0) given.push_back(option->get_name());
  return given;
}

/// The options of a search alone.
void add_search_options(CLI::App& app, Options& options) {
  PlanSearchOptions& search = options.search;
  std::vector<CLI::Option*> all{
      app.add_option("--ranks", search.ranks,
                     "GPUs to plan for; several numbers (64,128,256) give a scaling table"),
      app.add_flag("--weak", search.weak,
                   "With several numbers of ranks: the global batch grows with them"),
      app.add_option("--global-batch", search.global_batch, "Rows of a step")->check(positive()),
      app.add_option("--seq-length", search.sequence_length,
                     "Tokens of a row; default: as a training configuration says")
          ->check(positive()),
      app.add_option("--precision", search.precision,
                     "bf16, fp8 (tensorwise current scaling), mxfp8 or nvfp4, on a CPU also fp32; "
                     "default bf16, or as a training configuration says"),
      app.add_option("--tokens", search.tokens, "Tokens of the training: gives days and cost")
          ->check(positive()),
      app.add_option("--price", search.price,
                     "US dollars per GPU-hour; default: the middle of the catalog's offers")
          ->check(positive()),
      app.add_option("--deadline", search.deadline,
                     "Days: find the fewest GPUs of --ranks that train --tokens within this time")
          ->check(positive()),
      app.add_option("--budget", search.budget,
                     "US dollars: find the fastest of --ranks that trains --tokens for this "
                     "amount; with --deadline the cheapest that meets both")
          ->check(positive()),
      app.add_option("--vary", search.vary,
                     "Also searches values of a field: section.field=a|b|c, or a set of fields: "
                     "states (formats of moments and gradients), units (recompute of single "
                     "units), offload; may be given several times")
          ->allow_extra_args(false),
      app.add_flag("--longest", search.longest,
                   "Find the longest rows that fit on --ranks instead"),
      app.add_flag("--largest", search.largest,
                   "Find the maximum number of layers that fit on --ranks instead"),
      app.add_option("--top", search.top, "Maximum number of layouts to show; default 5")
          ->check(positive()),
      app.add_option(
             "--time-limit", search.time_limit,
             "Seconds of the search; what still runs then is given up; default 8, and up to 60 "
             "as long as no layout fits")
          ->check(positive()),
      app.add_option("--write", search.write,
                     "Writes the fastest layout into this file, a configuration for viaduct train")
          ->check(new_path())};
  options.given_of_search = [all] { return names_given(all); };
}

}  // namespace

Subcommand add_plan(CLI::App& root) {
  auto options = std::make_shared<Options>();
  CLI::App* app = root.add_subcommand("plan",
                                      "Find the fastest layout of a model on a cluster (--model), "
                                      "or predict step time and memory of "
                                      "one training configuration (--config)");
  app->add_option(
      "--model", options->search.model,
      "Searches for a layout of this model: a training configuration (.yaml), whose "
      "layout is not used, a Hugging Face folder, config.json or GGUF file, or a name such as "
      "llama3-8b");
  app->add_option("--config", options->config, "Predicts this configuration, as of viaduct train");
  app->add_option("--measured", options->measured,
                  "With --config: the metrics.jsonl of a run of it, to show beside the prediction");
  app->add_option("--calibration", options->calibration,
                  "With --config and --cluster cpu, or a cluster of the measured GPU: the table of "
                  "`viaduct bench --calibrate`, from which times are predicted");
  app->add_flag(
      "--timeline", options->timeline,
      "With --config and --json: when each stage's phases run, and its memory over the step");
  app->add_option(
      "--score", options->score,
      "Predicts every row of a table of published runs (CSV) and shows the error beside "
      "the published figure");
  app->add_option("--constants", options->constants,
                  "With --score: a YAML file with step_share, the share of the predicted speed "
                  "that runs reach on each GPU; default: specification sheets alone");
  add_search_options(*app, *options);
  const std::vector<CLI::Option*> of_rules = add_rule_options(*app, options->rules);
  options->given_of_rules = [of_rules] { return names_given(of_rules); };
  app->add_option("--cluster", options->cluster,
                  fmt::format("A cluster: {}, or a YAML file with the fields of one "
                              "(hardware/clusters.yaml)",
                              fmt::join(cluster_names(), ", ")));
  app->add_option(
      "OVERRIDES", options->search.overrides,
      "section.field=value, as of viaduct train; dist.ranks is the number of GPUs. In a "
      "search, fields of the layout are fixed by them");
  app->add_flag("--explain", options->explain,
                "How a layout is chosen by hand for this model and cluster, with the sizes at each "
                "step; predicts and searches nothing");
  app->add_flag("--json", options->search.json, "One JSON document");
  app->add_flag(
      "--spec-sheet", options->search.spec_sheet,
      "Do not apply the share that was fitted for the GPU (step_share in hardware/gpus.yaml)");
  app->footer(
      "Examples:\n  viaduct plan --model llama3-8b --cluster dgx-h100 --ranks 64 --global-batch "
      "256 "
      "--seq-length 8192\n  viaduct plan --config configs/bench/gpt2_124m.yaml --cluster dgx-h100 "
      "dist.ranks=8");
  options->given = [app] {
    const std::vector<CLI::Option*> all = app->get_options();
    return names_given(all);
  };
  return {app, [options] { return run(*options); }};
}

}  // namespace viaduct::cli
