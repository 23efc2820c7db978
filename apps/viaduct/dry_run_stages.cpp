#include "dry_run_stages.h"

#include <fmt/core.h>

#include "base/units.h"
#include "device/memory_tag.h"
#include "model/flops.h"
#include "report/offload_report.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

void print_traffic(const DryRun& run) {
  fmt::print("communication of a step, rank {}:\n", run.rank.value);
  int64_t sum = 0;
  for (const GroupTraffic& t : run.traffic) {
    sum += t.wire_bytes;
    fmt::print("  {:<14} {:<14} {:>6} × over {} ranks, {:>10} in total, {:>10} sent by the rank\n",
               t.group, choice_name(t.operation), t.count, t.ranks, format_bytes(t.bytes),
               format_bytes(t.wire_bytes));
  }
  fmt::print("  sent in total: {}\n", format_bytes(sum));
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

}  // namespace

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

void print_stages_in_full(const std::vector<DryRun>& stages, const std::optional<DryRun>& plain,
                          const DryRun& fullest, int64_t ranks, bool on_gpu,
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
  if (ranks > 1) {
    for (const DryRun& run : stages) print_traffic(run);
  }
  if (on_gpu) print_kernels(fullest, target);
}

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

Json stages_json(const std::vector<DryRun>& stages) {
  Json list = Json::array();
  for (const DryRun& run : stages) {
    Json traffic = Json::array();
    for (const GroupTraffic& t : run.traffic) {
      traffic.push_back({{"group", t.group},
                         {"operation", std::string(choice_name(t.operation))},
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

}  // namespace viaduct::cli
