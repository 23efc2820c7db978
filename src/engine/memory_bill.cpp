#include "engine/memory_bill.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "engine/plan_memory.h"
#include "run/parallel_settings.h"
#include "run/validate.h"

namespace viaduct {
namespace {

/// Changes of one kind exclude each other.
enum class Kind {
  save,
  tiles,
  recompute,
  state,
  shards,
  gradients,
  batch,
  offload,
  state_offload,
  weight_offload
};

struct Change {
  Kind kind;
  std::string settings;
  std::function<void(RunConfig&)> apply;
};

void add_recompute(const RunConfig& c, std::vector<Change>& list) {
  if (c.recompute.recompute_granularity) return;  // chosen already
  const auto selective = [&](std::vector<RecomputeModule> modules) {
    list.push_back(
        {Kind::recompute,
         fmt::format("model.recompute_granularity=selective model.recompute_modules=[{}]",
                     fmt::join(choice_names_of(modules), ",")),
         [modules](RunConfig& config) {
           config.recompute.recompute_granularity = RecomputeGranularity::selective;
           config.recompute.recompute_modules = modules;
         }});
  };
  selective({RecomputeModule::layernorm});
  selective({RecomputeModule::core_attn, RecomputeModule::layernorm, RecomputeModule::mlp});
  list.push_back({Kind::recompute,
                  "model.recompute_granularity=full model.recompute_method=uniform "
                  "model.recompute_num_layers=1",
                  [](RunConfig& config) {
                    config.recompute.recompute_granularity = RecomputeGranularity::full;
                    config.recompute.recompute_method = RecomputeMethod::uniform;
                    config.recompute.recompute_num_layers = 1;
                  }});
}

void add_state(const RunConfig& c, std::vector<Change>& list) {
  const auto formats = [&](NumberFormat moments, std::string settings) {
    if (c.optimizer_state.use_precision_aware_optimizer) return;
    list.push_back({Kind::state, "optimizer.use_precision_aware_optimizer=true" + settings,
                    [moments](RunConfig& config) {
                      config.optimizer_state.use_precision_aware_optimizer = true;
                      config.optimizer_state.exp_avg_dtype =
                          config.optimizer_state.exp_avg_sq_dtype = moments;
                    }});
  };
  formats(NumberFormat::fp32, "");  // masters as remainders
  for (const auto moments : {NumberFormat::bf16, NumberFormat::fp8}) {
    formats(moments, fmt::format(" optimizer.exp_avg_dtype={0} optimizer.exp_avg_sq_dtype={0}",
                                 choice_name(moments)));
  }
}

/// In the order of the time that they cost.
std::vector<Change> changes_of(const RunConfig& c) {
  std::vector<Change> list;
  if (c.checkpoint.save && c.checkpoint.async_save) {
    list.push_back({Kind::save, "checkpoint.async_save=false",
                    [](RunConfig& config) { config.checkpoint.async_save = false; }});
  }
  if (c.packing.packed_weights.value_or(false)) {
    list.push_back({Kind::tiles, "model.packed_weights=false",
                    [](RunConfig& config) { config.packing.packed_weights = false; }});
  }
  add_state(c, list);
  add_recompute(c, list);
  if (!c.ddp.shards_weights() && !c.ddp.tensor_parallel_num_weight_shards &&
      document_ranks(c) > 1) {
    list.push_back({Kind::shards, "ddp.data_parallel_sharding_strategy=optim_grads_params",
                    [](RunConfig& config) {
                      config.ddp.use_distributed_optimizer = true;
                      config.ddp.data_parallel_sharding_strategy =
                          ShardingStrategy::optim_grads_params;
                      config.ddp.align_param_gather = false;
                    }});
  }
  if (c.ddp.grad_reduce_in_fp32 && has_bf16_weights(c.mixed_precision)) {
    list.push_back({Kind::gradients, "ddp.grad_reduce_in_fp32=false",
                    [](RunConfig& config) { config.ddp.grad_reduce_in_fp32 = false; }});
  }
  if (c.train.micro_batch_rows() % 2 == 0) {
    // With more micro-batches `auto` may turn tiles of weights on.
    const bool tiles = c.packing.packed_weights.value();
    list.push_back({Kind::batch,
                    fmt::format("train.micro_batch_size={}{}", c.train.micro_batch_rows() / 2,
                                tiles ? "" : " model.packed_weights=false"),
                    [](RunConfig& config) {
                      config.train.micro_batch_size = config.train.micro_batch_rows() / 2;
                    }});
  }
  if (const auto& layers = c.model.num_layers; !layers.is_auto() && !c.offload.cpu_offloading) {
    const int64_t all = layers.value();
    list.push_back({Kind::offload,
                    fmt::format("model.cpu_offloading=true model.cpu_offloading_num_layers={} "
                                "memory.offload_path=FOLDER",
                                all),
                    [all](RunConfig& config) {
                      config.offload.cpu_offloading = true;
                      config.offload.cpu_offloading_num_layers = all;
                    }});
  }
  if (c.state_offload.fraction() == 0) {
    list.push_back({Kind::state_offload,
                    "optimizer.optimizer_cpu_offload=true optimizer.optimizer_offload_fraction=1 "
                    "memory.offload_path=FOLDER",
                    [](RunConfig& config) {
                      config.state_offload.optimizer_cpu_offload = true;
                      config.state_offload.optimizer_offload_fraction = 1;
                    }});
  }
  if (!c.offload.moves_weights() && c.ddp.shards_weights()) {
    list.push_back({Kind::weight_offload,
                    "model.cpu_offloading=true model.cpu_offloading_weights=true "
                    "memory.offload_path=FOLDER",
                    [](RunConfig& config) {
                      config.offload.cpu_offloading = config.offload.cpu_offloading_weights = true;
                    }});
  }
  return list;
}

/// The bytes of the rank with these changes; nothing where the run does not allow them.
std::optional<int64_t> bytes_with(const RunSetup& setup, GlobalRank rank,
                                  const std::vector<Change>& changes, uint32_t chosen) {
  RunSetup changed;
  changed.config = setup.config;
  changed.model = setup.model;
  changed.hf_config = setup.hf_config;
  for (size_t i = 0; i < changes.size(); ++i) {
    if ((chosen >> i & 1) != 0) changes[i].apply(changed.config);
  }
  Problems problems;
  validate(changed.config, {}, problems);
  if (!problems.empty()) return std::nullopt;
  try {
    const PlannedMemory planned = plan_memory(changed, rank);
    return planned.plan.arena_bytes + planned.save_copy_bytes;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

/// Appends the settings of a change, without those that another change has given.
void append_settings(std::string& text, const std::string& settings) {
  std::istringstream words(settings);
  for (std::string word; words >> word;) {
    if ((" " + text + " ").find(" " + word + " ") == std::string::npos)
      text += (text.empty() ? "" : " ") + word;
  }
}

/// Bits by kind; nothing if two changes are of one kind.
std::optional<uint32_t> kinds_of(const std::vector<Change>& changes, uint32_t chosen) {
  uint32_t kinds = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    if ((chosen >> i & 1) == 0) continue;
    const uint32_t kind = 1u << static_cast<int>(changes[i].kind);
    if ((kinds & kind) != 0) return std::nullopt;
    kinds |= kind;
  }
  return kinds;
}

}  // namespace

std::vector<FittingSettings> changes_that_fit(const RunSetup& setup, GlobalRank rank,
                                              int64_t limit_bytes, size_t most, double seconds) {
  const double end = steady_seconds() + seconds;
  const std::vector<Change> changes = changes_of(setup.config);
  std::vector<uint32_t> sets;
  for (uint32_t chosen = 1; chosen < 1u << changes.size(); ++chosen)
    if (kinds_of(changes, chosen)) sets.push_back(chosen);
  std::stable_sort(sets.begin(), sets.end(),
                   [](uint32_t a, uint32_t b) { return std::popcount(a) < std::popcount(b); });
  std::vector<FittingSettings> found;
  std::vector<uint32_t> found_kinds;
  for (const uint32_t chosen : sets) {
    if (found.size() == most || steady_seconds() > end) break;
    const uint32_t kinds = *kinds_of(changes, chosen);
    // Less of these kinds, or a cheaper one of each, fits already.
    const auto contains = [&](uint32_t others) { return (kinds & others) == others; };
    if (std::any_of(found_kinds.begin(), found_kinds.end(), contains)) continue;
    const auto bytes = bytes_with(setup, rank, changes, chosen);
    if (!bytes || *bytes > limit_bytes) continue;
    std::string settings;
    for (size_t i = 0; i < changes.size(); ++i)
      if ((chosen >> i & 1) != 0) append_settings(settings, changes[i].settings);
    found.push_back({std::move(settings), *bytes});
    found_kinds.push_back(kinds);
  }
  return found;
}

}  // namespace viaduct
