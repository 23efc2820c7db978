#include "sharding/store_settings.h"

#include "base/error.h"

namespace viaduct {
namespace {

void check_settings(const StoreSettings& settings, const PrecisionRecipe& recipe,
                    const ParallelGroups& groups) {
  VIADUCT_CHECK(ShapeError, settings.distributed_optimizer || groups.dp_cp_inner().size() == 1,
                "parameter store: without the distributed optimizer every data rank is an instance "
                "of its own, but {} ranks share one",
                groups.dp_cp_inner().size());
  VIADUCT_CHECK(ShapeError,
                !settings.reduce_by_exchange ||
                    (settings.distributed_optimizer && groups.dp_cp_outer().size() == 1),
                "parameter store: an exchange of shards needs the distributed optimizer and one "
                "instance of it, found {}",
                groups.dp_cp_outer().size());
  VIADUCT_CHECK(
      ShapeError,
      !settings.share_state || (settings.distributed_optimizer && !settings.reduce_by_exchange),
      "parameter store: instances that share their state need the distributed optimizer, "
      "without exchange of shards");
  VIADUCT_CHECK(ShapeError, !settings.fp32_messages || settings.shard_gradients,
                "parameter store: a format of messages needs shards of gradients");
  VIADUCT_CHECK(ShapeError, !settings.shard_weights || settings.shard_gradients,
                "parameter store: shards of weights need shards of gradients");
  VIADUCT_CHECK(ShapeError, !settings.offload_shards || settings.shard_weights,
                "parameter store: shards of weights in a second memory need shards of weights");
  VIADUCT_CHECK(
      ShapeError,
      !settings.shard_gradients || (!settings.reduce_by_exchange && !settings.bucket_norms &&
                                    settings.fp32_accumulation.empty()),
      "parameter store: a rank with shards of gradients has no buckets to exchange, to "
      "measure, or to add up in another format");
  VIADUCT_CHECK(ShapeError,
                !recipe.stores_codes || recipe.products.scaling != Scaling::mx ||
                    !settings.with_masters ||
                    (settings.distributed_optimizer && !settings.shard_gradients &&
                     !settings.gather_with_optimizer_step),
                "parameter store: weights that pass through the memory of gradients need the "
                "distributed optimizer, whole gradients, and gathers after all updates");
}

}  // namespace

StoreSettings store_settings(const DdpConfig& config) {
  StoreSettings settings;
  settings.distributed_optimizer = config.use_distributed_optimizer;
  settings.overlap_grad_reduce = config.overlap_grad_reduce;
  settings.align_grad_reduce = config.align_grad_reduce && config.overlap_grad_reduce;
  settings.overlap_param_gather = config.overlap_param_gather.value();
  settings.align_param_gather = config.align_param_gather.value();
  settings.gather_with_optimizer_step = config.overlap_param_gather_with_optimizer_step;
  settings.shard_gradients = config.shards_gradients();
  settings.shard_weights = config.shards_weights();
  settings.gather_ahead_elements = config.suggested_communication_unit_size;
  settings.double_buffer = config.fsdp_double_buffer;
  settings.bucket_elements = config.bucket_size.value();
  settings.num_buckets = config.num_buckets.value_or(0);
  settings.pad_for_bus_bandwidth = config.pad_buckets_for_high_nccl_busbw;
  settings.average_in_collective = config.average_in_collective;
  settings.fp32_gradients = config.grad_reduce_in_fp32;
  settings.share_state = config.shares_state();
  if (const auto& format = config.megatron_fsdp_grad_comm_dtype)
    settings.fp32_messages = *format == NumberFormat::fp32;
  settings.fp32_accumulation = config.fp32_accumulation_patterns.values();
  settings.reduce_by_exchange = config.reduce_scatter_with_fp32_accumulation;
  settings.bucket_norms = config.check_for_large_grads;
  return settings;
}

StoreSettings settings_in_effect(StoreSettings settings, const PrecisionRecipe& recipe,
                                 const ParallelGroups& groups, size_t chunks,
                                 bool has_second_memory) {
  check_settings(settings, recipe, groups);
  if (!has_second_memory) settings.offload_fraction = 0, settings.offload_shards = false;
  // One rank has everything; its shards are whole, wherever they live.
  if (groups.dp_cp_inner().size() == 1 && !settings.offload_shards)
    settings.shard_gradients = settings.shard_weights = false;
  settings.share_state &= groups.dp_cp_outer().size() > 1;
  // Without virtual stages the one reduction of a stage starts with its last backward anyway.
  settings.align_grad_reduce &= groups.stages() > 1 && chunks > 1;
  return settings;
}

}  // namespace viaduct
