#include "dry_run_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/units.h"
#include "dry_run_layout.h"
#include "dry_run_stages.h"
#include "engine/dry_run.h"
#include "model/flops.h"
#include "rule_report.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "run/run_length.h"
#include "run/vision_support.h"
#include "settings_text.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

/// "20 steps of 4 rows", or the batch's sizes as it grows.
std::string length_text(const RunConfig& config) {
  const BatchSchedule batches = batch_schedule(config);
  const int64_t steps = config.train.train_iters;
  std::vector<std::string> sizes;
  for (const BatchSchedule::Size& size : batches.sizes()) {
    if (size.first_step > steps) break;
    sizes.push_back(fmt::format("{} from step {}", size.rows, size.first_step));
  }
  const std::string rows = sizes.size() == 1 ? counted(batches.rows_at(0), "row")
                                             : fmt::format("rows: {}", fmt::join(sizes, ", "));
  return fmt::format("{} of {}; {} in total", counted(steps, "step"), rows,
                     counted(batches.samples_after(steps), "row"));
}

Json batches_json(const RunConfig& config) {
  Json list = Json::array();
  for (const BatchSchedule::Size& size : batch_schedule(config).sizes()) {
    if (size.first_step <= config.train.train_iters)
      list.push_back({{"first_step", size.first_step}, {"rows", size.rows}});
  }
  return list;
}

/// The same rank of a run that recomputes and offloads nothing; none where this one does not
/// either.
std::optional<DryRun> without_policies(const RunSetup& setup, GlobalRank rank) {
  if (!setup.config.recompute.recompute_granularity && !setup.config.offload.by_layer() &&
      !setup.config.offload.by_module() && setup.config.state_offload.fraction() == 0 &&
      !setup.config.offload.moves_weights())
    return std::nullopt;
  RunSetup plain{
      .config = setup.config, .model = setup.model, .conversations = setup.conversations};
  plain.config.recompute = {};
  plain.config.offload = {};
  plain.config.state_offload = {};
  return dry_run(plain, rank);
}

}  // namespace

void print_dry_run(const RunSetup& setup, const DryRunOutput& output,
                   const std::function<rules::Evaluation(const std::vector<DryRun>&)>& evaluate) {
  const Parallelism parallelism = resolve_run(setup.config, setup.model).parallelism;
  const std::vector<DryRun> stages = dry_run_stages(setup);
  const DryRun& fullest = *std::max_element(
      stages.begin(), stages.end(),
      [](const DryRun& a, const DryRun& b) { return a.peak.bytes < b.peak.bytes; });
  const rules::Evaluation evaluation =
      evaluate ? evaluate(stages) : rules::evaluate_rules(rules::figures_of(setup, stages));
  const int64_t parameters = model_parameters(stages);
  const std::optional<DryRun> plain = without_policies(setup, fullest.rank);
  const std::string target = make_dry_run_device(setup.config).ops.traits.name;
  if (output.json) {
    Json document{
        {"config", to_yaml(setup.config)},
        {"target", target},
        {"parameters", parameters},
        {"steps", setup.config.train.train_iters},
        {"samples", batch_schedule(setup.config).samples_after(setup.config.train.train_iters)},
        {"batches", batches_json(setup.config)},
        {"images_of_row", images_of_row(setup)},
        {"groups", groups_json(parallelism.mesh)},
        {"layers", layers_json(parallelism)},
        {"peak_memory_bytes", fullest.peak.bytes},
        {"memory_by_owner", fullest.peak.bytes_by_tag},
        {"stages", stages_json(stages)},
        {"model_flops_per_step", fullest.model_flops},
        {"flop_convention", kFlopConvention},
        {"launches_per_step", fullest.launches},
        {"host_reads_per_step", fullest.host_reads},
        {"notes", setup.notes},
        {"warnings", setup.warnings},
        {"guide_rules", rules_json(evaluation)}};
    if (plain) {
      document["without_recompute_and_offload"] = {{"rank", plain->rank.value},
                                                   {"peak_memory_bytes", plain->peak.bytes},
                                                   {"memory_by_owner", plain->peak.bytes_by_tag},
                                                   {"flops_per_step", plain->cost.total_flops()}};
    }
    fmt::print("{}\n", document.dump(2));
    return;
  }
  fmt::print("{}", given_settings_text(setup));
  for (const std::string& warning : setup.warnings) fmt::print("warning: {}\n", warning);
  for (const std::string& note : setup.notes) fmt::print("note: {}\n", note);
  if (!output.full) fmt::print("{}", found_settings_text(setup));
  fmt::print("layout: {}: {}\n", counted(parallelism.mesh.ranks(), "rank"),
             mesh_text(parallelism.mesh));
  if (output.full) {
    fmt::print("\n{}\n", to_yaml(setup.config));
    print_groups(parallelism.mesh, setup.config.dist);
    print_layers(parallelism);
  }
  fmt::print("length: {}\n", length_text(setup.config));
  if (const std::string images = images_text(setup); !images.empty())
    fmt::print("images: {}\n", images);
  fmt::print("parameters: {}\n", format_count(static_cast<double>(parameters)));
  if (output.full) {
    print_stages_in_full(stages, plain, fullest, parallelism.mesh.ranks(),
                         setup.config.cuda_target.has_value(), target);
  } else {
    print_memory_of_ranks(stages);
  }
  print_rules(evaluation, output.all_rules);
  fmt::print(
      "nothing was started{}\n",
      output.full ? "" : " (--full: the whole configuration, groups, layers, memory by owner)");
}

}  // namespace viaduct::cli
