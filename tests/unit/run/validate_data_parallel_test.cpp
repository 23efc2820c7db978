// Rules over data-parallel ranks: sharding, instances, message formats, buckets.

#include "support/validated_run.h"

namespace viaduct {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> problems_of(const std::vector<std::string>& settings) {
  return validated(settings).problems;
}

TEST(ValidateParallel, OverlappedGathers) {
  EXPECT_ONE("needs use_distributed_optimizer and overlap_grad_reduce, found true and false",
             "ddp.overlap_param_gather=true", "ddp.overlap_grad_reduce=false");
  EXPECT_GOOD("ddp.overlap_grad_reduce=false") << "auto follows";
  EXPECT_ONE("align_param_gather: true needs overlap_param_gather", "ddp.align_param_gather=true",
             "ddp.use_distributed_optimizer=false");
  EXPECT_ONE("needs virtual_pipeline_model_parallel_size of at least 2, found 1", pp(2),
             "optimizer.overlap_param_gather_with_optimizer_step=true");
  EXPECT_GOOD(pp(2), vpp(2), "optimizer.overlap_param_gather_with_optimizer_step=true");
  EXPECT_ONE("with_optimizer_step: true needs ddp.overlap_param_gather, which is off", pp(2),
             vpp(2), "optimizer.overlap_param_gather_with_optimizer_step=true",
             "ddp.use_distributed_optimizer=false");
}

TEST(ValidateParallel, Instances) {
  const std::string copies = "ddp.num_distributed_optimizer_instances=";
  EXPECT_GOOD(copies + "4");
  EXPECT_GOOD(cp(4), tp(2), copies + "4") << "context ranks count";
  EXPECT_ONE(
      "3 does not divide data-parallel ranks · context_parallel_size = 4 · 2 = 8; nearest: "
      "2 or 4",
      cp(2), copies + "3");
  EXPECT_ONE("needs use_distributed_optimizer", copies + "2",
             "ddp.use_distributed_optimizer=false");
}

TEST(ValidateParallel, ShardingStrategies) {
  const std::string field = "ddp.data_parallel_sharding_strategy=";
  const std::string gradients = field + "optim_grads", weights = field + "optim_grads_params";
  const std::string replicated = "ddp.use_distributed_optimizer=false";
  for (const char* rank : {"optim", "optim_grads", "optim_grads_params"}) {
    EXPECT_GOOD(field + rank);
    EXPECT_ONE("excludes use_distributed_optimizer = false", field + rank, replicated);
  }
  EXPECT_GOOD(field + "no_shard", replicated);
  EXPECT_ONE("no_shard excludes use_distributed_optimizer = true", field + "no_shard");
  // Limits of Megatron without a reason here do not exist.
  EXPECT_GOOD(weights, pp(2), vpp(2), tp(2), "ddp.overlap_grad_reduce=false",
              "ddp.overlap_param_gather=false", "dist.use_tp_pp_dp_mapping=true",
              "model.share_embeddings_and_output_weights=true",
              "ddp.num_distributed_optimizer_instances=2");
  EXPECT_ONE("excludes align_param_gather = true", weights, pp(2), vpp(2),
             "ddp.align_param_gather=true");
  EXPECT_GOOD(gradients, pp(2), vpp(2), "ddp.align_param_gather=true");
  EXPECT_ONE("no weights are whole after an update", weights, pp(2), vpp(2),
             "optimizer.overlap_param_gather_with_optimizer_step=true");
  for (const std::string& strategy : {gradients, weights}) {
    EXPECT_ONE("ranks have different numbers of micro-batches", strategy,
               "model.hybrid_context_parallel=true", "model.max_seqlen_per_dp_cp_rank=16");
    EXPECT_ONE("reduce_scatter_with_fp32_accumulation = true is not implemented", strategy,
               "ddp.reduce_scatter_with_fp32_accumulation=true", "ddp.grad_reduce_in_fp32=false");
    EXPECT_ONE("no rank adds up its own micro-batches", strategy, "ddp.grad_reduce_in_fp32=false",
               "ddp.param_name_patterns_for_fp32_local_accumulation=all");
    EXPECT_ONE("excludes check_for_large_grads = true", strategy, "ddp.check_for_large_grads=true");
  }
  EXPECT_GOOD("dist.use_torch_fsdp2=true", weights);
  EXPECT_ONE("use_torch_fsdp2: true means ddp.data_parallel_sharding_strategy = optim_grads_params",
             "dist.use_torch_fsdp2=true", gradients);
  EXPECT_GOOD("dist.use_megatron_fsdp=true", gradients);
  EXPECT_ONE("give only one of them", "dist.use_torch_fsdp2=true", "dist.use_megatron_fsdp=true",
             weights);
  EXPECT_GOOD("dist.fsdp=megatron", "dist.use_megatron_fsdp=true", gradients);
  EXPECT_ONE("dist.fsdp: megatron, but use_megatron_fsdp = false is also given",
             "dist.fsdp=megatron", "dist.use_megatron_fsdp=false", weights);
  EXPECT_ONE("give only one of them", "dist.fsdp=pytorch", "dist.use_megatron_fsdp=true", weights);
}

TEST(ValidateParallel, PresetsSayWhichStrategyTheySet) {
  const std::string field = "ddp.data_parallel_sharding_strategy";
  for (const char* preset : {"dist.use_megatron_fsdp", "dist.use_torch_fsdp2"}) {
    const LoadedRunConfig loaded = load_run_config({}, {std::string(preset) + "=true"});
    EXPECT_EQ(loaded.config.ddp.strategy(), ShardingStrategy::optim_grads_params);
    EXPECT_THAT(loaded.outcome.notes,
                ElementsAre(std::string(preset) + "=true sets " + field + "=optim_grads_params"));
  }
  for (const auto& [kind, sets] : {std::pair{"megatron", "dist.use_megatron_fsdp"},
                                   std::pair{"pytorch", "dist.use_torch_fsdp2"}}) {
    const std::string preset = std::string("dist.fsdp=") + kind;
    const LoadedRunConfig loaded = load_run_config({}, {preset});
    EXPECT_EQ(loaded.config.ddp.strategy(), ShardingStrategy::optim_grads_params);
    EXPECT_THAT(loaded.outcome.notes,
                ElementsAre(preset + " sets " + sets + "=true",
                            std::string(sets) + "=true sets " + field + "=optim_grads_params"));
  }
  const LoadedRunConfig given =
      load_run_config({}, {"dist.use_megatron_fsdp=true", field + "=optim_grads"});
  EXPECT_EQ(given.config.ddp.strategy(), ShardingStrategy::optim_grads);
  EXPECT_THAT(given.outcome.notes, IsEmpty());
  EXPECT_FALSE(load_run_config({}, {field + "=no_shard"}).config.ddp.use_distributed_optimizer);
  EXPECT_EQ(load_run_config({}, {"ddp.use_distributed_optimizer=false"}).config.ddp.strategy(),
            ShardingStrategy::no_shard);
}

TEST(ValidateParallel, WeightShards) {
  const auto shards = [](int n) {
    return "model.tensor_parallel_num_weight_shards=" + std::to_string(n);
  };
  const std::string full = "ddp.data_parallel_sharding_strategy=optim_grads_params";
  const std::string two = "ddp.num_distributed_optimizer_instances=2";
  EXPECT_GOOD(tp(2), shards(2));
  EXPECT_GOOD(tp(2), shards(8), full);
  EXPECT_GOOD(tp(2), shards(4), full, two);
  EXPECT_GOOD(tp(2), cp(2), pp(2), shards(4), full) << "context ranks count";
  EXPECT_ONE(
      "6 is not tensor_model_parallel_size = 2 times a divisor of data-parallel ranks · "
      "context_parallel_size = 4 · 1 = 4; nearest: 4 or 8",
      tp(2), shards(6), full);
  EXPECT_ONE("5 is not tensor_model_parallel_size = 2 times", tp(2), shards(5), full);
  EXPECT_ONE("nearest: 8", tp(2), shards(16), full);
  EXPECT_ONE("optim_grads_params, found optim_grads", tp(2), shards(4),
             "ddp.data_parallel_sharding_strategy=optim_grads");
  EXPECT_ONE("needs ddp.num_distributed_optimizer_instances = 2, found 1", tp(2), shards(4), full);
  EXPECT_ONE("needs ddp.num_distributed_optimizer_instances = 4, found 1", tp(2), shards(2), full);

  const std::vector<std::string> eight{ranks(8), tp(2)};
  const auto load = [&](std::vector<std::string> more) {
    more.insert(more.end(), eight.begin(), eight.end());
    return load_run_config({}, more);
  };
  const LoadedRunConfig loaded = load({shards(4)});
  EXPECT_EQ(loaded.config.ddp.strategy(), ShardingStrategy::optim_grads_params);
  EXPECT_EQ(loaded.config.ddp.num_distributed_optimizer_instances, 2);
  EXPECT_THAT(loaded.outcome.notes,
              ElementsAre("model.tensor_parallel_num_weight_shards=4 sets "
                          "ddp.data_parallel_sharding_strategy=optim_grads_params, "
                          "ddp.num_distributed_optimizer_instances=2"));
  // Values that were set by hand, or written by a run, stay without a note.
  EXPECT_THAT(load({shards(4), full, two}).outcome.notes, IsEmpty());
  EXPECT_EQ(load({shards(2)}).config.ddp.strategy(), ShardingStrategy::optim);
}

TEST(ValidateParallel, FormatsOfFullSharding) {
  const std::string full = "ddp.data_parallel_sharding_strategy=optim_grads_params";
  const std::string bf16 = "mixed_precision=bf16_mixed";
  const std::string params = "ddp.megatron_fsdp_main_params_dtype=",
                    grads = "ddp.megatron_fsdp_main_grads_dtype=",
                    wire = "ddp.megatron_fsdp_grad_comm_dtype=";
  EXPECT_GOOD(full, bf16, params + "fp32", grads + "fp32", wire + "bf16");
  EXPECT_ONE("bf16 means grad_reduce_in_fp32 = false, found true", full, bf16, grads + "bf16");
  EXPECT_ONE("fp16, but gradients of mixed_precision.recipe = bf16_mixed are bf16 or fp32", full,
             bf16, wire + "fp16");
  EXPECT_ONE(
      "needs data_parallel_sharding_strategy = optim_grads or optim_grads_params, found "
      "optim",
      bf16, wire + "bf16");
  EXPECT_ONE("fp16, but optimizer.main_params_dtype = fp32", full, bf16, params + "fp16");

  const LoadedRunConfig loaded =
      load_run_config({}, {full, bf16, grads + "bf16", params + "fp16", wire + "fp32"});
  EXPECT_FALSE(loaded.config.ddp.grad_reduce_in_fp32);
  EXPECT_EQ(loaded.config.optimizer_state.main_params_dtype, NumberFormat::fp16);
  EXPECT_THAT(loaded.outcome.notes, ElementsAre("ddp.megatron_fsdp_main_params_dtype=fp16 sets "
                                                "optimizer.main_params_dtype=fp16, "
                                                "optimizer.use_precision_aware_optimizer=true",
                                                "ddp.megatron_fsdp_main_grads_dtype=bf16 sets "
                                                "ddp.grad_reduce_in_fp32=false"));
}

TEST(ValidateParallel, InstancesThatShareTheirState) {
  const std::string shared = "ddp.outer_dp_sharding_strategy=optim";
  EXPECT_GOOD(shared, "ddp.num_distributed_optimizer_instances=2");
  EXPECT_ONE("needs num_distributed_optimizer_instances of at least 2, found 1", shared);
  EXPECT_ONE("optim needs use_distributed_optimizer, which is false", shared,
             "ddp.use_distributed_optimizer=false");
}

TEST(ValidateParallel, GradientsOnTheWire) {
  EXPECT_ONE("average_in_collective: true excludes", "ddp.average_in_collective=true");
  EXPECT_GOOD("ddp.average_in_collective=true", "model.calculate_per_token_loss=false");
  const std::string low = "ddp.reduce_scatter_with_fp32_accumulation=true";
  EXPECT_GOOD(low, "ddp.grad_reduce_in_fp32=false");
  EXPECT_THAT(problems_of({low, "ddp.num_distributed_optimizer_instances=2"}),
              ElementsAre(HasSubstr("grad_reduce_in_fp32 is true"), HasSubstr("found 2")));
}

TEST(ValidateParallel, Buckets) {
  EXPECT_ONE("bucket_size: 1000 and num_buckets = 4 are both given", "ddp.bucket_size=1000",
             "ddp.num_buckets=4");
  EXPECT_GOOD("ddp.num_buckets=4");
  EXPECT_ONE("0 means that num_buckets is used", "ddp.bucket_size=0");
  EXPECT_ONE("without it nothing is padded", "ddp.pad_buckets_for_high_nccl_busbw=true",
             "ddp.use_distributed_optimizer=false");
}

TEST(ValidateParallel, Fp32AccumulationIsForNarrowGradients) {
  const std::string all = "ddp.param_name_patterns_for_fp32_local_accumulation=all";
  EXPECT_GOOD(all, "ddp.grad_reduce_in_fp32=false");
  EXPECT_ONE("param_name_patterns_for_fp32_local_accumulation: has no effect", all);
}

TEST(ValidateParallel, SkippingNeedsTheTestOfGradients) {
  const std::string unchecked = "ddp.check_for_nan_in_grad=false";
  EXPECT_GOOD(unchecked);
  EXPECT_GOOD("train.nan_loss_action=skip");
  EXPECT_GOOD(unchecked, "train.nan_loss_action=skip", "mixed_precision=fp16_mixed");
  EXPECT_ONE("ddp.check_for_nan_in_grad: false applies", unchecked, "train.nan_loss_action=skip");
}

}  // namespace
}  // namespace viaduct
