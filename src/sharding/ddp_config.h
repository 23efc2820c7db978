#pragma once
// Section `ddp`: gradient buffers and their reduction over data-parallel ranks.

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "config/field.h"
#include "config/one_or_list.h"
#include "tensor/format_name.h"

namespace viaduct {

/// What a data-parallel rank has a shard of: each also of what those before it say.
enum class ShardingStrategy {
  no_shard,
  optim,               // masters and moments
  optim_grads,         // main gradients
  optim_grads_params,  // weights
};
constexpr auto choice_names(ShardingStrategy) {
  return std::to_array<std::string_view>(
      {"no_shard", "optim", "optim_grads", "optim_grads_params"});
}

/// NeMo's names of the two presets of full sharding (`dist.fsdp`).
enum class FsdpKind { pytorch, megatron };
constexpr auto choice_names(FsdpKind) {
  return std::to_array<std::string_view>({"pytorch", "megatron"});
}

struct DdpConfig {
  bool use_distributed_optimizer = true;
  /// `auto`: optim, or no_shard without the distributed optimizer.
  Auto<ShardingStrategy> data_parallel_sharding_strategy;
  /// Elements; null: those of the largest layer, at least 40 000 000.
  std::optional<int64_t> suggested_communication_unit_size;
  bool fsdp_double_buffer = false;
  /// Presets of the strategy (section `dist`).
  bool use_megatron_fsdp = false, use_torch_fsdp2 = false;
  /// NeMo's name for one of these two.
  std::optional<FsdpKind> fsdp;
  /// Preset of strategy and instances: weights are kept in this many shards, over tensor and data
  /// ranks; null: nothing is set (section `model`).
  std::optional<int64_t> tensor_parallel_num_weight_shards;
  /// optim: instances share the optimizer state, each has a part of each other's shards.
  ShardingStrategy outer_dp_sharding_strategy = ShardingStrategy::no_shard;
  /// With shards of gradients: formats of masters and main gradients (presets of
  /// optimizer.main_params_dtype and grad_reduce_in_fp32; null: as these say), and of gradients on
  /// the wire (null: that of main gradients).
  std::optional<NumberFormat> megatron_fsdp_main_params_dtype, megatron_fsdp_main_grads_dtype,
      megatron_fsdp_grad_comm_dtype;
  bool overlap_grad_reduce = true;
  /// `auto`: where the distributed optimizer and overlap_grad_reduce are on.
  Auto<bool> overlap_param_gather;
  /// `auto`: pp > 1 with virtual stages.
  Auto<bool> align_param_gather;
  /// Elements; `auto`: max(40 000 000, 1 000 000 · dp · cp), or 0 where num_buckets is given.
  Auto<int64_t> bucket_size;
  std::optional<int> num_buckets;
  bool pad_buckets_for_high_nccl_busbw = false;
  /// Copies of the sharded optimizer state.
  int num_distributed_optimizer_instances = 1;
  bool grad_reduce_in_fp32 = true;
  bool reduce_scatter_with_fp32_accumulation = false;
  /// Globs over names of parameters; "all".
  OneOrList<std::string> fp32_accumulation_patterns = std::vector<std::string>{};
  bool average_in_collective = false;
  bool check_for_nan_in_grad = true;
  bool check_for_large_grads = false;
  /// Turns grad_reduce_in_fp32 off.
  bool grad_reduce_in_bf16 = false;
  /// Pipeline stages start gradient reductions at the same virtual micro-batch (section `dist`).
  bool align_grad_reduce = true;
  /// Section `optimizer`.
  bool overlap_param_gather_with_optimizer_step = false;

  /// The strategy, `auto` replaced.
  ShardingStrategy strategy() const;
  bool shards_gradients() const;
  bool shards_weights() const { return strategy() == ShardingStrategy::optim_grads_params; }
  bool shares_state() const { return outer_dp_sharding_strategy == ShardingStrategy::optim; }

  /// Replaces each `auto`. `data_ranks`: dp · cp, over which gradients are reduced.
  void resolve(int64_t data_ranks, bool several_chunks_of_several_stages);
};

FieldGroup ddp_fields(DdpConfig& config);
/// The fields that Megatron keeps in `model`, in `dist` and in `optimizer`.
FieldGroup ddp_model_fields(DdpConfig& config);
FieldGroup ddp_dist_fields(DdpConfig& config);
FieldGroup ddp_optimizer_fields(DdpConfig& config);

}  // namespace viaduct
