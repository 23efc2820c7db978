#include "dry_run_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "comm/group_kinds.h"
#include "device/memory_tag.h"
#include "engine/dry_run.h"
#include "model/flops.h"
#include "pipeline/layer_map.h"
#include "report/offload_report.h"
#include "rule_report.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "run/run_length.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kAllGroupsUpTo = 64;  // ranks of a run whose groups are all shown

/// Whether experts are cut otherwise than the rest.
bool cuts_experts(const Mesh& mesh) {
  return mesh.size(Grid::expert, Axis::ep) > 1 ||
         mesh.size(Grid::expert, Axis::tp) != mesh.size(Axis::tp);
}

/// Kinds that the run has: those of experts where there are experts.
std::vector<GroupKind> shown_kinds(const Mesh& mesh) {
  const bool experts = cuts_experts(mesh);
  std::vector<GroupKind> kinds;
  for (int i = 0; i < kGroupKinds; ++i) {
    const auto kind = static_cast<GroupKind>(i);
    const std::string_view name = group_kind_name(kind);
    if (experts || !(name.starts_with("expert") || kind == GroupKind::ep)) kinds.push_back(kind);
  }
  return kinds;
}

/// "{0, 1}", "{0, 4, … 60}", and with domains "{0, 1} in 0", "{6, 7, 8} in 0 to 1".
std::string group_text(const std::vector<GlobalRank>& group, std::optional<int> domain) {
  constexpr size_t kMost = 8;
  std::string text = "{";
  for (size_t i = 0; i < group.size(); ++i) {
    if (group.size() > kMost && i == 2) {
      text += "… ";
      i = group.size() - 1;
    }
    text += fmt::format("{}{}", group[i].value, i + 1 < group.size() ? ", " : "");
  }
  text += "}";
  if (domain) {
    const int first = group.front().value / *domain, last = group.back().value / *domain;
    text += first == last ? fmt::format(" in {}", first) : fmt::format(" in {} to {}", first, last);
  }
  return text;
}

void print_groups(const Mesh& mesh, const DistConfig& dist) {
  fmt::print("groups of {}, order {}: {}{}\n", counted(mesh.ranks(), "rank"), dist.mesh_order(),
             mesh_text(mesh),
             dist.nvlink_domain_size
                 ? fmt::format("; `in` is the domain of {} ranks", *dist.nvlink_domain_size)
                 : "");
  std::vector<std::string_view> alone;
  for (const GroupKind kind : shown_kinds(mesh)) {
    const auto groups = all_groups(mesh, kind);
    const auto largest =
        std::max_element(groups.begin(), groups.end(),
                         [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (largest->size() == 1) {
      alone.push_back(group_kind_name(kind));
      continue;
    }
    fmt::print("  {:<18} {:>5} of {:<5}", group_kind_name(kind), groups.size(), largest->size());
    const size_t shown = mesh.ranks() <= kAllGroupsUpTo ? groups.size() : 1;
    for (size_t i = 0; i < shown; ++i)
      fmt::print(" {}", group_text(groups[i], dist.nvlink_domain_size));
    fmt::print("{}\n", shown < groups.size() ? " …" : "");
  }
  fmt::print("  each rank alone: {}\n", fmt::join(alone, ", "));
}

std::string chunk_text(const ChunkLayers& chunk) {
  std::vector<std::string> parts;
  if (chunk.embedding) parts.emplace_back("embedding");
  if (chunk.blocks == 1) parts.push_back(fmt::format("block {}", chunk.first_block));
  if (chunk.blocks > 1) {
    parts.push_back(
        fmt::format("blocks {} to {}", chunk.first_block, chunk.first_block + chunk.blocks - 1));
  }
  if (chunk.head) parts.emplace_back("head");
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

void print_layers(const Parallelism& parallelism) {
  const int pp = parallelism.size(Axis::pp);
  fmt::print("layer map of {} with {} each:\n", counted(pp, "stage"),
             counted(parallelism.virtual_stages(), "chunk"));
  for (int stage = 0; stage < pp; ++stage) {
    std::vector<std::string> chunks;
    for (const ChunkLayers& chunk :
         chunks_of_stage(parallelism.layer_map, pp, stage, parallelism.schedule.placement()))
      chunks.push_back(chunk_text(chunk));
    fmt::print("  stage {}: {}\n", stage, fmt::join(chunks, " | "));
  }
}

void print_traffic(const DryRun& run) {
  fmt::print("communication of a step, rank {}:\n", run.rank.value);
  int64_t sum = 0;
  for (const GroupTraffic& t : run.traffic) {
    sum += t.wire_bytes;
    fmt::print("  {:<14} {:<14} {:>6} × over {} ranks, {:>10} in total, {:>10} sent by the rank\n",
               t.group, t.operation, t.count, t.ranks, format_bytes(t.bytes),
               format_bytes(t.wire_bytes));
  }
  fmt::print("  sent in total: {}\n", format_bytes(sum));
}

Json groups_json(const Mesh& mesh) {
  Json list = Json::array();
  for (const GroupKind kind : shown_kinds(mesh)) {
    const auto groups = all_groups(mesh, kind);
    Json ranks = Json::array();
    size_t largest = 0;
    for (const auto& group : groups) {
      largest = std::max(largest, group.size());
      if (mesh.ranks() > kAllGroupsUpTo && !ranks.empty()) continue;
      Json members = Json::array();
      for (const GlobalRank rank : group) members.push_back(rank.value);
      ranks.push_back(std::move(members));
    }
    list.push_back({{"kind", group_kind_name(kind)},
                    {"count", groups.size()},
                    {"size", largest},
                    {"complete", ranks.size() == groups.size()},
                    {"ranks", std::move(ranks)}});
  }
  return list;
}

Json layers_json(const Parallelism& parallelism) {
  Json list = Json::array();
  const auto pp = static_cast<size_t>(parallelism.size(Axis::pp));
  for (size_t i = 0; i < parallelism.layer_map.size(); ++i) {
    const ChunkLayers& chunk = parallelism.layer_map[i];
    list.push_back({{"stage", parallelism.stage_order().rank_of(static_cast<int64_t>(i))},
                    {"chunk", i / pp},
                    {"embedding", chunk.embedding},
                    {"first", chunk.first_block},
                    {"count", chunk.blocks},
                    {"head", chunk.head}});
  }
  return list;
}

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

Json kernels_json(const DryRun& run) {
  Json list = Json::array();
  for (const KernelUse& use : run.kernels) {
    list.push_back({{"op", use.op},
                    {"kernel", use.kernel},
                    {"calls", use.calls},
                    {"launches", use.launches},
                    {"workspace_bytes", use.workspace_bytes},
                    {"flops", use.cost.total_flops()},
                    {"bytes_read", use.cost.bytes_read},
                    {"bytes_written", use.cost.bytes_written}});
  }
  return list;
}

Json stages_json(const std::vector<DryRun>& stages) {
  Json list = Json::array();
  for (const DryRun& run : stages) {
    Json traffic = Json::array();
    for (const GroupTraffic& t : run.traffic) {
      traffic.push_back({{"group", t.group},
                         {"operation", t.operation},
                         {"ranks", t.ranks},
                         {"count", t.count},
                         {"bytes", t.bytes},
                         {"wire_bytes", t.wire_bytes}});
    }
    list.push_back({{"stage", list.size()},
                    {"rank", run.rank.value},
                    {"peak_memory_bytes", run.peak.bytes},
                    {"memory_by_owner", run.peak.bytes_by_tag},
                    {"launches_per_step", run.launches},
                    {"kernels", kernels_json(run)},
                    {"flops_per_step", run.cost.total_flops()},
                    {"host_reads_per_step", run.host_reads},
                    {"traffic", std::move(traffic)}});
    if (run.save_copy_bytes > 0) list.back()["save_copy_bytes"] = run.save_copy_bytes;
    if (run.offload.puts == 0) continue;
    list.back()["second_memory"] = {{"bytes_out", run.offload.put_bytes},
                                    {"bytes_back", run.offload.fetched_bytes},
                                    {"copies_out", run.offload.puts},
                                    {"copies_back", run.offload.fetches},
                                    {"most_bytes", run.offload.most_bytes}};
  }
  return list;
}

void print_kernels(const DryRun& run, std::string_view target) {
  fmt::print("kernels of a step on {}, rank {}:\n", target, run.rank.value);
  fmt::print("  {:<24} {:<20} {:>8} {:>9} {:>12} {:>10} {:>10}\n", "op", "kernel", "calls",
             "launches", "workspace", "FLOPs", "bytes");
  for (const KernelUse& use : run.kernels) {
    fmt::print("  {:<24} {:<20} {:>8} {:>9} {:>12} {:>10} {:>10}\n", use.op, use.kernel, use.calls,
               use.launches, format_bytes(use.workspace_bytes),
               format_count(use.cost.total_flops()),
               format_bytes(use.cost.bytes_read + use.cost.bytes_written));
  }
}

/// The same rank of a run that recomputes and offloads nothing; none where this one does not
/// either.
std::optional<DryRun> without_policies(const RunSetup& setup, GlobalRank rank) {
  if (!setup.config.recompute.recompute_granularity && !setup.config.offload.by_layer() &&
      !setup.config.offload.by_module() && setup.config.state_offload.fraction() == 0 &&
      !setup.config.offload.moves_weights())
    return std::nullopt;
  RunSetup plain{.config = setup.config, .model = setup.model};
  plain.config.recompute = {};
  plain.config.offload = {};
  plain.config.state_offload = {};
  return dry_run(plain, rank);
}

int64_t saved_bytes(const DryRun& run) {
  const auto found = run.peak.bytes_by_tag.find(std::string(memory_tag_name(MemoryTag::saved)));
  return found == run.peak.bytes_by_tag.end() ? 0 : found->second;
}

void print_difference(const DryRun& run, const DryRun& plain) {
  fmt::print(
      "recompute and offload, rank {}: {} of saved activations instead of {}, {} in total instead "
      "of {}; {} FLOPs instead of {}\n",
      run.rank.value, format_bytes(saved_bytes(run)), format_bytes(saved_bytes(plain)),
      format_bytes(run.peak.bytes), format_bytes(plain.peak.bytes),
      format_count(run.cost.total_flops()), format_count(plain.cost.total_flops()));
}

/// What `--full` adds.
void print_details(const std::vector<DryRun>& stages, const std::optional<DryRun>& plain,
                   const Parallelism& parallelism, const DryRun& fullest, bool on_gpu,
                   std::string_view target) {
  double run_flops = 0;
  for (const DryRun& run : stages) run_flops += run.cost.total_flops();
  fmt::print("model FLOPs of a step ({}, recomputation not counted): {}\n", kFlopConvention,
             format_count(fullest.model_flops));
  fmt::print("FLOPs that one rank of each stage runs in it, recomputation included: {}\n",
             format_count(run_flops));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    fmt::print("memory of a step at its fullest, by owner, each rank of stage {}:\n", stage);
    fmt::print("{}", memory_text(stages[stage].peak.bytes_by_tag, stages[stage].peak.bytes));
    if (stages[stage].offload.puts > 0)
      fmt::print("  second memory, beside it: {}\n", traffic_text(stages[stage].offload));
    if (stages[stage].save_copy_bytes > 0)
      fmt::print("{}", save_copy_text(stages[stage].save_copy_bytes));
  }
  if (plain) print_difference(fullest, *plain);
  if (parallelism.mesh.ranks() > 1) {
    for (const DryRun& run : stages) print_traffic(run);
  }
  if (on_gpu) print_kernels(fullest, target);
}

/// "memory of each rank: 112.3 MiB", or stage by stage.
void print_memory_of_ranks(const std::vector<DryRun>& stages) {
  const auto second = [](const DryRun& run) {
    return run.offload.puts > 0
               ? fmt::format(", and {} in the second memory", format_bytes(run.offload.most_bytes))
               : std::string();
  };
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const DryRun& run = stages[stage];
    fmt::print("memory of a step at its fullest, each rank{}: {}{}\n",
               stages.size() == 1 ? "" : fmt::format(" of stage {}", stage),
               format_bytes(run.peak.bytes), second(run));
    if (run.save_copy_bytes > 0) fmt::print("{}", save_copy_text(run.save_copy_bytes));
  }
}

/// What the user set, and what `auto` became.
void print_settings(const RunSetup& setup) {
  RunConfig config = setup.config, untouched;
  const Schema schema = run_schema(config), plain = run_schema(untouched);
  const auto is_given = [&](const std::string& name) {
    return std::find(setup.given.begin(), setup.given.end(), name) != setup.given.end();
  };
  std::vector<std::string> set, found;
  for (const std::string& section : schema.sections()) {
    for (const FieldGroup& group : schema.groups()) {
      if (group.section() != section) continue;
      for (const Field& field : group.fields()) {
        if (!field.current) continue;
        const std::string name = field.full_name();
        const std::string line = fmt::format("  {}: {}", name, to_flow_yaml(field.current()));
        if (is_given(name)) {
          set.push_back(line);
        } else if (plain.find(name)->default_value.is_plain("auto")) {
          found.push_back(line);
        }
      }
    }
  }
  if (!set.empty()) fmt::print("set:\n{}\n", fmt::join(set, "\n"));
  if (!found.empty()) fmt::print("found, where the default is auto:\n{}\n", fmt::join(found, "\n"));
}

}  // namespace

std::string mesh_text(const Mesh& mesh) {
  std::string text = fmt::format("tp {}, cp {}, dp {}, pp {}", mesh.size(Axis::tp),
                                 mesh.size(Axis::cp), mesh.size(Axis::dp), mesh.size(Axis::pp));
  if (cuts_experts(mesh)) {
    text += fmt::format(", ep {}, tp of experts {}", mesh.size(Grid::expert, Axis::ep),
                        mesh.size(Grid::expert, Axis::tp));
  }
  return text;
}

std::string save_copy_text(int64_t bytes) {
  return fmt::format("  {:<20} {:>12}: of host memory, beside it, while it is written\n",
                     "asynchronous save", format_bytes(bytes));
}

std::string memory_text(const std::map<std::string, int64_t>& bytes_by_owner, int64_t total) {
  std::string text;
  for (const auto& [owner, bytes] : bytes_by_owner) {
    if (bytes > 0) text += fmt::format("  {:<20} {:>12}\n", owner, format_bytes(bytes));
  }
  return text + fmt::format("  {:<20} {:>12}\n", "sum", format_bytes(total));
}

void print_memory(const std::vector<DryRun>& stages, std::string_view what, bool json) {
  if (json) {
    Json list = Json::array();
    for (const DryRun& run : stages) {
      list.push_back({{"stage", list.size()},
                      {"rank", run.rank.value},
                      {"peak_memory_bytes", run.peak.bytes},
                      {"memory_by_owner", run.peak.bytes_by_tag}});
    }
    fmt::print("{}\n", Json{{"stages", std::move(list)}}.dump(2));
    return;
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    fmt::print("memory of {} at its fullest, by owner, each rank of stage {}:\n", what, stage);
    fmt::print("{}", memory_text(stages[stage].peak.bytes_by_tag, stages[stage].peak.bytes));
  }
  fmt::print("nothing was started\n");
}

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
  print_settings(setup);
  for (const std::string& warning : setup.warnings) fmt::print("warning: {}\n", warning);
  for (const std::string& note : setup.notes) fmt::print("note: {}\n", note);
  fmt::print("layout: {}: {}\n", counted(parallelism.mesh.ranks(), "rank"),
             mesh_text(parallelism.mesh));
  if (output.full) {
    fmt::print("\n{}\n", to_yaml(setup.config));
    print_groups(parallelism.mesh, setup.config.dist);
    print_layers(parallelism);
  }
  fmt::print("length: {}\n", length_text(setup.config));
  fmt::print("parameters: {}\n", format_count(static_cast<double>(parameters)));
  if (output.full) {
    print_details(stages, plain, parallelism, fullest, setup.config.cuda_target.has_value(),
                  target);
  } else {
    print_memory_of_ranks(stages);
  }
  print_rules(evaluation, output.all_rules);
  fmt::print(
      "nothing was started{}\n",
      output.full ? "" : " (--full: the whole configuration, groups, layers, memory by owner)");
}

}  // namespace viaduct::cli
