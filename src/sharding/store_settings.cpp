#include "sharding/store_settings.h"

namespace viaduct {

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

}  // namespace viaduct
