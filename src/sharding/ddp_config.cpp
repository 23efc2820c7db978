#include "sharding/ddp_config.h"

#include <algorithm>

namespace viaduct {
namespace {

// Far above any real model.
constexpr double kMostElements = 1e12;

}  // namespace

ShardingStrategy DdpConfig::strategy() const {
  return data_parallel_sharding_strategy.value_or(
      use_distributed_optimizer ? ShardingStrategy::optim : ShardingStrategy::no_shard);
}

bool DdpConfig::shards_gradients() const {
  return strategy() == ShardingStrategy::optim_grads || shards_weights();
}

void DdpConfig::resolve(int64_t data_ranks, bool several_chunks_of_several_stages) {
  data_parallel_sharding_strategy.resolve(strategy());
  overlap_param_gather.resolve(use_distributed_optimizer && overlap_grad_reduce);
  align_param_gather.resolve(several_chunks_of_several_stages && overlap_param_gather.value() &&
                             !shards_weights());
  bucket_size.resolve(num_buckets ? 0 : std::max<int64_t>(40'000'000, 1'000'000 * data_ranks));
}

FieldGroup ddp_fields(DdpConfig& config) {
  FieldGroup group("ddp",
                   "Gradient buffers, and gradients and weights between data-parallel ranks.");
  group.on_resume(resume::free);
  group
      .field("use_distributed_optimizer", config.use_distributed_optimizer,
             "Each data-parallel rank keeps and updates 1/dp of the optimizer state: gradients are "
             "reduce-scattered, "
             "weights gathered. No effect at dp = 1.")
      .alias("OptimizerConfig.use_distributed_optimizer")
      .alias("optimizer.use_distributed_optimizer")
      .alias("recipe.trainer.use_distributed_optimizer")
      .constraint("false excludes every data_parallel_sharding_strategy but no_shard")
      .decides(LayoutPart::sharding);
  group
      .field(
          "data_parallel_sharding_strategy", config.data_parallel_sharding_strategy,
          "What a data-parallel rank has a shard of: no_shard nothing, optim masters and moments "
          "(use_distributed_optimizer), optim_grads main gradients too, optim_grads_params "
          "weights too; auto: optim, or no_shard where use_distributed_optimizer=false. With "
          "shards of gradients every micro-batch is reduce-scattered, layer by layer; with "
          "shards of weights a layer's are gathered before its forward and its backward.")
      .constraint(
          "optim_grads and optim_grads_params: not with hybrid_context_parallel, "
          "reduce_scatter_with_fp32_accumulation, "
          "param_name_patterns_for_fp32_local_accumulation, check_for_large_grads; "
          "optim_grads_params: not with align_param_gather, "
          "overlap_param_gather_with_optimizer_step")
      .decides(LayoutPart::sharding);
  group
      .field("suggested_communication_unit_size", config.suggested_communication_unit_size,
             "With shards of weights: layers of this many elements in total are gathered ahead of "
             "their use; null: those of the largest layer (embedding and head are layers too), and "
             "at least 40 000 000. If it is smaller than a layer, no layer is gathered ahead.")
      .range(0, kMostElements)
      .in("elements");
  group.field(
      "fsdp_double_buffer", config.fsdp_double_buffer,
      "With shards of weights: layers of equal size are gathered into two fixed buffers, so at "
      "most one layer is gathered ahead.");
  group
      .field("outer_dp_sharding_strategy", config.outer_dp_sharding_strategy,
             "With several optimizer instances. no_shard: each has all of the optimizer state. "
             "optim: they share it; gradients of a shard are reduce-scattered over the ranks that "
             "have it in all instances, and its updated weights gathered from them.")
      .one_of({ShardingStrategy::no_shard, ShardingStrategy::optim})
      .constraint("optim needs num_distributed_optimizer_instances > 1")
      .decides(LayoutPart::sharding);
  group
      .field("megatron_fsdp_main_params_dtype", config.megatron_fsdp_main_params_dtype,
             "Preset for shards of gradients: optimizer.main_params_dtype, and for fp16 "
             "optimizer.use_precision_aware_optimizer=true; null: as these fields say.")
      .one_of({NumberFormat::fp32, NumberFormat::fp16})
      .planned_values({"bf16"}, "roadmap: masters in BF16")
      .constraint("needs data_parallel_sharding_strategy=optim_grads or optim_grads_params");
  group
      .field("megatron_fsdp_main_grads_dtype", config.megatron_fsdp_main_grads_dtype,
             "Preset for shards of gradients, the format of main gradients. fp32: "
             "grad_reduce_in_fp32=true; that of the weights: grad_reduce_in_fp32=false; null: as "
             "grad_reduce_in_fp32 says.")
      .one_of({NumberFormat::fp32, NumberFormat::bf16, NumberFormat::fp16})
      .constraint(
          "fp32, or the format of the weights; needs "
          "data_parallel_sharding_strategy=optim_grads or optim_grads_params");
  group
      .field("megatron_fsdp_grad_comm_dtype", config.megatron_fsdp_grad_comm_dtype,
             "With shards of gradients: format in which a layer's gradients add up in a backward "
             "and are reduce-scattered; null: that of main gradients.")
      .one_of({NumberFormat::fp32, NumberFormat::bf16, NumberFormat::fp16})
      .constraint(
          "fp32, or the format of the weights; needs "
          "data_parallel_sharding_strategy=optim_grads or optim_grads_params");
  group.field(
      "overlap_grad_reduce", config.overlap_grad_reduce,
      "A bucket's reduction starts when its last gradient of the last micro-batch is ready, and "
      "runs during the backward. No "
      "effect at dp = 1.");
  group
      .field("overlap_param_gather", config.overlap_param_gather,
             "Weights are gathered bucket by bucket during the next forward; auto: if "
             "use_distributed_optimizer and "
             "overlap_grad_reduce.")
      .constraint("needs use_distributed_optimizer and overlap_grad_reduce");
  group
      .field(
          "align_param_gather", config.align_param_gather,
          "A chunk's weight gathers start together with the first forward of the chunk before "
          "it, at the same virtual micro-batch on all pipeline stages, not one by one as needed; "
          "auto: if pp > 1 with virtual stages.")
      .constraint("needs overlap_param_gather");
  group
      .field("bucket_size", config.bucket_size,
             "Elements (parameters, not bytes) after which a gradient bucket closes; auto: max(40 "
             "000 000, 1 000 000 · dp · cp), or 0 where num_buckets is given.")
      .range(0, kMostElements)
      .in("elements")
      .constraint("excludes num_buckets");
  group
      .field("num_buckets", config.num_buckets,
             "Number of gradient buckets instead of their size; null: as bucket_size says.")
      .range(1, kMostElements)
      .constraint("excludes bucket_size");
  group
      .field("pad_buckets_for_high_nccl_busbw", config.pad_buckets_for_high_nccl_busbw,
             "Buckets end on multiples of 65536 elements.")
      .constraint("needs use_distributed_optimizer");
  group
      .field("num_distributed_optimizer_instances", config.num_distributed_optimizer_instances,
             "Optimizer shards are kept this many times: reduce-scatter inside an instance, "
             "all-reduce of the shard across them.")
      .range(1)
      .constraint(
          "needs use_distributed_optimizer; divides dp · cp and expert dp; not with "
          "reduce_scatter_with_fp32_accumulation")
      .decides(LayoutPart::sharding);
  group
      .field("grad_reduce_in_fp32", config.grad_reduce_in_fp32,
             "Main gradients and their reduction in FP32; false: in the weights' format.")
      .constraint("excludes param_name_patterns_for_fp32_local_accumulation");
  group
      .field("reduce_scatter_with_fp32_accumulation", config.reduce_scatter_with_fp32_accumulation,
             "Shards travel in low precision and are summed in FP32.")
      .constraint("needs use_distributed_optimizer and grad_reduce_in_fp32=false; one instance");
  group
      .field("param_name_patterns_for_fp32_local_accumulation", config.fp32_accumulation_patterns,
             "Parameters whose micro-batches add up in FP32 before the sum over ranks, which is in "
             "the weights' format: globs over paths (blocks.*.mlp.*) and Hugging Face names, or "
             "`all`; quoted where YAML wants it ('*.bias').")
      .constraint("needs grad_reduce_in_fp32=false; each pattern matches a parameter");
  group
      .field("average_in_collective", config.average_in_collective,
             "The reduction averages instead of scaling gradients before a sum.")
      .constraint("not with model.calculate_per_token_loss");
  group
      .field(
          "check_for_nan_in_grad", config.check_for_nan_in_grad,
          "A step whose gradients hold NaN or infinity updates nothing; the first such tensor "
          "is named, and train.nan_loss_action says what follows. false: such gradients are "
          "applied like others; a loss that is not finite still stops the run. Under fp16_mixed, "
          "where loss scaling needs this check, updates are skipped either way.")
      .constraint("false excludes train.nan_loss_action=skip, but under fp16_mixed");
  group.field(
      "check_for_large_grads", config.check_for_large_grads,
      "The norm of each bucket of a rank's gradients is computed before the sum over ranks; a norm "
      "of at least 10 times the largest of the first 100 updates since the program started stops "
      "the run before its update, with an error that names rank and bucket.");
  group
      .field("grad_reduce_in_bf16", config.grad_reduce_in_bf16,
             "The same as grad_reduce_in_fp32=false where weights are BF16.")
      .constraint("mixed_precision=bf16_mixed; excludes grad_reduce_in_fp32=true");
  return group;
}

FieldGroup ddp_model_fields(DdpConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field("tensor_parallel_num_weight_shards", config.tensor_parallel_num_weight_shards,
             "Preset: weights are kept in this many shards, the tensor-parallel ranks' parts cut "
             "further over data ranks, and gathered before use: "
             "ddp.data_parallel_sharding_strategy=optim_grads_params, and one optimizer instance "
             "for each copy of the shards. null: each tensor-parallel rank keeps "
             "its weights as the section ddp says.")
      .range(1)
      .constraint("a multiple of tensor_model_parallel_size; over it, a divisor of dp · cp")
      .decides(LayoutPart::sharding);
  return group;
}

FieldGroup ddp_dist_fields(DdpConfig& config) {
  FieldGroup group("dist", "");
  group.on_resume(resume::free);
  group
      .field(
          "use_megatron_fsdp", config.use_megatron_fsdp,
          "Preset: ddp.data_parallel_sharding_strategy=optim_grads_params, unless that is given.")
      .constraint("excludes use_torch_fsdp2")
      .alias("ddp.use_megatron_fsdp")
      .decides(LayoutPart::sharding);
  group
      .field("use_torch_fsdp2", config.use_torch_fsdp2,
             "Preset: ddp.data_parallel_sharding_strategy=optim_grads_params.")
      .constraint("excludes use_megatron_fsdp and every other data_parallel_sharding_strategy")
      .decides(LayoutPart::sharding);
  group
      .field("fsdp", config.fsdp,
             "Preset: megatron sets use_megatron_fsdp, pytorch sets use_torch_fsdp2.")
      .constraint("agrees with use_megatron_fsdp and use_torch_fsdp2 where these are given")
      .decides(LayoutPart::sharding);
  group.field(
      "align_grad_reduce", config.align_grad_reduce,
      "With virtual stages, a chunk's gradient reductions start together, at the same virtual "
      "micro-batch on all pipeline stages; false: each when its last gradient is ready. No "
      "effect without virtual stages, where a stage has one reduction after its last "
      "backward, or without ddp.overlap_grad_reduce.");
  return group;
}

FieldGroup ddp_optimizer_fields(DdpConfig& config) {
  FieldGroup group("optimizer", "");
  group.on_resume(resume::free);
  group
      .field("overlap_param_gather_with_optimizer_step",
             config.overlap_param_gather_with_optimizer_step,
             "The weights of a chunk are gathered while the next chunks are updated; each chunk is "
             "one bucket, whatever ddp.bucket_size says.")
      .constraint("virtual stages; overlap_param_gather")
      .alias("comm_overlap.overlap_param_gather_with_optimizer_step");
  return group;
}

}  // namespace viaduct
