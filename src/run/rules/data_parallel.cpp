// Gradients and weights over data-parallel ranks.

#include "config/nearest_valid.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

void validate_gather(const RunConfig& config, Problems& problems) {
  const DdpConfig& ddp = config.ddp;
  const bool possible = ddp.use_distributed_optimizer && ddp.overlap_grad_reduce;
  if (ddp.overlap_param_gather.value_or(false) && !possible) {
    problems.add(
        "ddp.overlap_param_gather: true needs use_distributed_optimizer and overlap_grad_reduce, "
        "found {} and {}; `auto` follows them",
        ddp.use_distributed_optimizer, ddp.overlap_grad_reduce);
  }
  const bool overlapped = ddp.overlap_param_gather.value_or(possible);
  if (ddp.align_param_gather.value_or(false) && !overlapped) {
    problems.add("ddp.align_param_gather: true needs overlap_param_gather, which is off");
  }
  if (ddp.overlap_param_gather_with_optimizer_step && !overlapped) {
    problems.add(
        "optimizer.overlap_param_gather_with_optimizer_step: true needs ddp.overlap_param_gather, "
        "which is off");
  }
}

void validate_instances(const RunConfig& config, Problems& problems) {
  const int copies = config.ddp.num_distributed_optimizer_instances;
  if (copies == 1) return;
  if (!config.ddp.use_distributed_optimizer) {
    problems.add(
        "ddp.num_distributed_optimizer_instances: {} needs use_distributed_optimizer, which is "
        "false",
        copies);
  }
  const ParallelConfig& sizes = config.parallel;
  const int64_t data_ranks = data_parallel_size(config) * sizes.context_parallel_size;
  if (data_ranks == 0) return;  // reported elsewhere
  if (data_ranks % copies != 0) {
    problems.add(
        "ddp.num_distributed_optimizer_instances: {} does not divide data-parallel ranks · "
        "context_parallel_size = {} · {} = {}; nearest: {}",
        copies, data_parallel_size(config), sizes.context_parallel_size, data_ranks,
        nearest_divisor(copies, data_ranks));
  }
  const int64_t expert_ranks = int64_t{1} * sizes.expert_tensor() *
                               sizes.expert_model_parallel_size *
                               sizes.pipeline_model_parallel_size;
  const int64_t expert_data = config.dist.ranks / expert_ranks;
  const bool own_grid = sizes.expert_model_parallel_size > 1 ||
                        sizes.expert_tensor() != sizes.tensor_model_parallel_size;
  if (own_grid && config.dist.ranks % expert_ranks == 0 && expert_data % copies != 0) {
    problems.add(
        "ddp.num_distributed_optimizer_instances: {} does not divide the expert data-parallel "
        "ranks = {}; nearest: {}",
        copies, expert_data, nearest_divisor(copies, expert_data));
  }
}

void validate_wire(const RunConfig& config, Problems& problems) {
  const DdpConfig& ddp = config.ddp;
  if (ddp.grad_reduce_in_bf16) {
    if (!has_bf16_weights(config.mixed_precision)) {
      problems.add(
          "ddp.grad_reduce_in_bf16: true needs a mixed_precision recipe with BF16 weights, found "
          "{}",
          choice_name(config.mixed_precision.recipe));
    }
    if (ddp.grad_reduce_in_fp32) {
      problems.add(
          "ddp.grad_reduce_in_bf16: true, but grad_reduce_in_fp32 = true is also given: give only "
          "one of them");
    }
  }
  if (ddp.average_in_collective && config.model.calculate_per_token_loss) {
    problems.add(
        "ddp.average_in_collective: true excludes model.calculate_per_token_loss = true: a mean "
        "over ranks is not a mean over tokens");
  }
  if (!ddp.fp32_accumulation_patterns.values().empty() && ddp.grad_reduce_in_fp32) {
    problems.add(
        "ddp.param_name_patterns_for_fp32_local_accumulation: has no effect with "
        "grad_reduce_in_fp32 = true, where all gradients add up in FP32");
  }
  if (ddp.reduce_scatter_with_fp32_accumulation) {
    const char* name = "ddp.reduce_scatter_with_fp32_accumulation: true";
    if (!ddp.use_distributed_optimizer)
      problems.add("{} needs use_distributed_optimizer, which is false", name);
    if (ddp.grad_reduce_in_fp32)
      problems.add("{} is for low precision on the wire, but grad_reduce_in_fp32 is true", name);
    if (ddp.num_distributed_optimizer_instances > 1) {
      problems.add("{} needs num_distributed_optimizer_instances = 1, found {}", name,
                   ddp.num_distributed_optimizer_instances);
    }
  }
}

void refuse_data_parallel(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const DdpConfig& ddp = config.ddp;
  const int64_t bucket_size = ddp.bucket_size.value_or(1);
  if (ddp.num_buckets && !ddp.bucket_size.is_auto() && bucket_size > 0) {
    problems.add("ddp.bucket_size: {} and num_buckets = {} are both given: give only one of them",
                 bucket_size, *ddp.num_buckets);
  }
  if (!ddp.num_buckets && bucket_size == 0)
    problems.add("ddp.bucket_size: 0 means that num_buckets is used, which is null");
  if (ddp.pad_buckets_for_high_nccl_busbw && !ddp.use_distributed_optimizer) {
    problems.add(
        "ddp.pad_buckets_for_high_nccl_busbw: true needs use_distributed_optimizer, which is "
        "false: without it nothing is padded");
  }
  validate_gather(config, problems);
  validate_instances(config, problems);
  validate_wire(config, problems);
}

}  // namespace

Topic data_parallel_topic() {
  std::vector<NoEffectRule> idle{
      {{"ddp.overlap_param_gather", "ddp.align_param_gather"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return one_document_rank(c, "no weights are gathered");
       }},
      {{"dist.align_grad_reduce"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.pipeline.virtual_stages() == 1, "there are no virtual pipeline stages");
       }},
      {{"train.check_weight_hash_across_dp_replicas_interval"},
       [](const RunConfig& c, const ConfigOutcome&) {
         // Experts that are not cut over the tensor ranks have copies there.
         const bool copies_of_experts =
             c.model.moe.experts() > 0 && c.parallel.tensor_model_parallel_size > 1;
         return copies_of_experts ? std::string() : one_document_rank(c, "weights have no copies");
       }},
      {{"ddp.bucket_size", "ddp.num_buckets"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.ddp.shards_gradients() && document_ranks(c) > 1,
                          stated("ddp.data_parallel_sharding_strategy", c.ddp.strategy()) +
                              ": each layer is a bucket");
       }},
      {{"ddp.grad_reduce_in_fp32"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const RecipeName recipe = c.mixed_precision.recipe;
         return reason_if(recipe == RecipeName::fp32 || recipe == RecipeName::fp64,
                          recipe_without(c.mixed_precision, "narrower weights"));
       }},
  };
  return {refuse_data_parallel, std::move(idle)};
}

}  // namespace viaduct
