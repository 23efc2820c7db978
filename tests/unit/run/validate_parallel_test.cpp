// Rules over parallel settings: each message has both numbers and the nearest valid choice.

#include "run/parallel_settings.h"
#include "support/validated_run.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> problems_of(const std::vector<std::string>& settings) {
  return validated(settings).problems;
}

TEST(ValidateParallel, GoodLayouts) {
  EXPECT_GOOD();
  EXPECT_GOOD(tp(2), cp(2), pp(2));
  EXPECT_GOOD(tp(8)) << "fewer key-value heads than ranks";
  EXPECT_GOOD(pp(2), vpp(2), "model.sequence_parallel=auto");
  EXPECT_GOOD(ranks(6), pp(2), "train.global_batch_size=12") << "odd data ranks";
}

TEST(ValidateParallel, RanksAreWholeReplicas) {
  EXPECT_ONE("2 · 2 · 2 = 8; nearest: 8 or 16", tp(2), cp(2), pp(2), ranks(12));
  EXPECT_ONE("dist.ranks: 3 is not divisible", tp(4), ranks(3));
  EXPECT_ONE("= 1 · 3 · 1 = 3; nearest: 6 or 9", "model.expert_model_parallel_size=3",
             "model.expert_tensor_parallel_size=1", "model.num_moe_experts=6");
}

const std::string kExperts = "model.num_moe_experts=8", kMixtral = "model.family=mixtral";
std::string ep(int n) {
  return "model.expert_model_parallel_size=" + std::to_string(n);
}
std::string etp(int n) {
  return "model.expert_tensor_parallel_size=" + std::to_string(n);
}

TEST(ValidateParallel, ExpertsDivideByTheirRanks) {
  EXPECT_GOOD(kMixtral, kExperts, ep(4));
  EXPECT_GOOD(kMixtral, kExperts, ep(2), etp(2), tp(2), cp(2));
  EXPECT_ONE("expert_model_parallel_size: 4 does not divide num_moe_experts = 6; nearest: 3 or 6",
             kMixtral, "model.num_moe_experts=6", ep(4));
  EXPECT_ONE(
      "expert_tensor_parallel_size: 8 does not divide ffn_hidden_size = 100; nearest: 5 or 10",
      kMixtral, kExperts, etp(8), "model.ffn_hidden_size=100");
  EXPECT_ONE(
      "expert_tensor_parallel_size: 4 does not divide moe_ffn_hidden_size = 30; nearest: 3 or 5",
      kMixtral, kExperts, etp(4), "model.moe_ffn_hidden_size=30");
}

TEST(ValidateParallel, GatheredTokensAreEquallyManyOnEveryRank) {
  const std::string gather = "model.moe_token_dispatcher_type=allgather",
                    packed = "dataset.reset_attention_mask=true";
  EXPECT_GOOD(kMixtral, kExperts, ep(2), gather, packed);
  EXPECT_GOOD(kMixtral, kExperts, ep(2), cp(2), gather);
  EXPECT_ONE("allgather needs one shape for the whole run", kMixtral, kExperts, ep(2), pp(2),
             gather, "model.variable_seq_lengths=true");
  EXPECT_ONE(
      "documents (dataset.reset_attention_mask = true) are padded for context_parallel_size = 2; "
      "nearest: alltoall",
      kMixtral, kExperts, ep(2), cp(2), gather, packed);
}

TEST(ValidateParallel, SendingByDomainNeedsWholeDomains) {
  const std::string flex = "model.moe_token_dispatcher_type=flex",
                    hierarchical = "model.moe_flex_dispatcher_backend=hierarchical";
  const auto domain = [](int ranks) { return "dist.nvlink_domain_size=" + std::to_string(ranks); };
  EXPECT_GOOD(kMixtral, kExperts, ep(4), flex);
  EXPECT_GOOD(kMixtral, kExperts, ep(4), flex, hierarchical, domain(2));
  EXPECT_GOOD(kMixtral, kExperts, ep(4), etp(2), tp(2), flex, hierarchical, domain(4));
  EXPECT_GOOD(kMixtral, kExperts, ep(4), flex, domain(3)) << "then it sends without domains";
  EXPECT_ONE("hierarchical needs dist.nvlink_domain_size (the ranks of a domain), which is null",
             kMixtral, kExperts, ep(4), flex, hierarchical);
  EXPECT_ONE(
      "dist.nvlink_domain_size: 3 with moe_flex_dispatcher_backend = hierarchical: expected "
      "a divisor of expert_model_parallel_size · expert_tensor_parallel_size = 4 · 1",
      kMixtral, kExperts, ep(4), flex, hierarchical, domain(3));
  EXPECT_ONE("that is a multiple of 2; nearest: 2", kMixtral, kExperts, ep(4), etp(2), tp(2), flex,
             hierarchical, domain(1));
  EXPECT_ONE("hierarchical with moe_pad_expert_input_to_capacity = true", kMixtral, kExperts, ep(4),
             flex, hierarchical, domain(2), "model.moe_expert_capacity_factor=1",
             "model.moe_pad_expert_input_to_capacity=true");
}

TEST(ValidateParallel, ALimitOfRanksNeedsAnExchangeOfFlex) {
  const std::string flex = "model.moe_token_dispatcher_type=flex",
                    limit = "model.moe_expert_rank_capacity_factor=1.5";
  const auto backend = [](const std::string& name) {
    return "model.moe_flex_dispatcher_backend=" + name;
  };
  EXPECT_GOOD(kMixtral, kExperts, ep(2), flex, limit);
  EXPECT_GOOD(kMixtral, kExperts, ep(2), flex, limit, backend("hybridep"));
  EXPECT_GOOD(kMixtral, kExperts, ep(2), flex, limit, backend("ncclep"));
  EXPECT_GOOD(kMixtral, kExperts, ep(2), etp(2), tp(2), flex, limit);
  EXPECT_GOOD(kMixtral, kExperts, ep(2), flex, limit, "model.moe_expert_capacity_factor=1");
  for (const std::string dispatcher : {"alltoall", "allgather"}) {
    EXPECT_ONE(
        "model.moe_expert_rank_capacity_factor: 1.5 needs moe_token_dispatcher_type=flex, "
        "found " +
            dispatcher + "; nearest: flex",
        kMixtral, kExperts, ep(2), limit, "model.moe_token_dispatcher_type=" + dispatcher);
  }
  EXPECT_ONE(
      "moe_flex_dispatcher_backend = deepep, which has no limit of a rank; nearest: hybridep",
      kMixtral, kExperts, ep(2), flex, limit, backend("deepep"));
}

TEST(ValidateParallel, EveryNthLayerHasExperts) {
  EXPECT_GOOD(kMixtral, kExperts, "model.moe_layer_freq=1");
  EXPECT_ONE("model.moe_layer_freq: -2, expected at least 1, or a list of 0 and 1", kMixtral,
             kExperts, "model.moe_layer_freq=-2");
}

TEST(ValidateParallel, RowsAreQuantizedByFlexAlone) {
  const std::string flex = "model.moe_token_dispatcher_type=flex",
                    dispatch = "model.moe_dispatch_fwd_dtype=mxfp8",
                    combine = "model.moe_combine_bwd_dtype=mxfp8";
  EXPECT_GOOD(kMixtral, kExperts, ep(2), flex, dispatch, combine);
  EXPECT_ONE("moe_dispatch_fwd_dtype: mxfp8 needs moe_token_dispatcher_type=flex, found alltoall",
             kMixtral, kExperts, ep(2), dispatch);
  EXPECT_ONE("moe_combine_bwd_dtype: mxfp8 needs moe_token_dispatcher_type=flex, found allgather",
             kMixtral, kExperts, ep(2), combine, "model.moe_token_dispatcher_type=allgather");
  EXPECT_ONE("moe_dispatch_fwd_dtype: mxfp8 with mixed_precision.recipe = fp64", kMixtral, kExperts,
             ep(2), flex, dispatch, "mixed_precision=fp64");
}

TEST(ValidateParallel, TokensThatAreScaledTogetherHaveNoPadding) {
  const std::string sinkhorn = "model.moe_router_load_balancing_type=sinkhorn",
                    packed = "dataset.reset_attention_mask=true";
  EXPECT_GOOD(kMixtral, kExperts, ep(2), sinkhorn, packed);
  EXPECT_GOOD(kMixtral, kExperts, ep(2), cp(2), sinkhorn);
  EXPECT_ONE("sinkhorn is not implemented with documents", kMixtral, kExperts, ep(2), cp(2),
             sinkhorn, packed);
  const std::string quantile = "model.moe_router_load_balancing_type=quantile_balancing";
  EXPECT_GOOD(kMixtral, kExperts, ep(2), quantile, packed);
  EXPECT_GOOD(kMixtral, kExperts, ep(2), cp(2), quantile);
  EXPECT_ONE("quantile_balancing is not implemented with documents", kMixtral, kExperts, ep(2),
             cp(2), quantile, packed);
}

TEST(ValidateParallel, LoadsOfExpertsAreNoGradients) {
  const std::string sigmoid = "model.moe_router_score_function=sigmoid",
                    bias = "model.moe_router_enable_expert_bias=true";
  EXPECT_GOOD(kMixtral, kExperts, sigmoid, bias);
  EXPECT_ONE("check_for_large_grads: true is not implemented", kMixtral, kExperts, sigmoid, bias,
             "ddp.check_for_large_grads=true");
  EXPECT_GOOD(kMixtral, kExperts, sigmoid, bias, "ddp.check_for_large_grads=true",
              "model.moe_router_load_balancing_type=quantile_balancing");
}

TEST(ValidateParallel, ExchangesOfExpertsBesideAnotherMicroBatch) {
  const std::string overlap = "comm_overlap.overlap_moe_expert_parallel_comm=true",
                    delay = "comm_overlap.delay_wgrad_compute=true",
                    bf16 = "mixed_precision=bf16_mixed";
  EXPECT_GOOD(kMixtral, kExperts, bf16, ep(2), overlap, delay);
  EXPECT_GOOD(kMixtral, kExperts, bf16, ep(2), pp(2), vpp(2), overlap);
  EXPECT_GOOD(kMixtral, kExperts, bf16, ep(2), pp(2), vpp(2), overlap,
              "model.pipeline_schedule=dualpipe_v");
  EXPECT_GOOD(kMixtral, kExperts, bf16, ep(2), pp(2), overlap, "model.num_layers=5",
              "model.pipeline_model_parallel_layout=\"Et|t|t|ttL\"");
  EXPECT_ONE("needs model.expert_model_parallel_size of at least 2, found 1", kMixtral, kExperts,
             bf16, overlap);
  EXPECT_ONE("needs model.moe_token_dispatcher_type = alltoall or flex, found allgather", kMixtral,
             kExperts, bf16, ep(2), overlap, "model.moe_token_dispatcher_type=allgather");
  const std::string flex = "model.moe_token_dispatcher_type=flex";
  EXPECT_GOOD(kMixtral, kExperts, bf16, ep(2), overlap, flex);
  EXPECT_GOOD(kMixtral, kExperts, bf16, ep(2), overlap, flex, "dist.nvlink_domain_size=1");
  EXPECT_ONE("mixed_precision.recipe = fp32 has FP32", kMixtral, kExperts, "mixed_precision=fp32",
             ep(2), overlap);
  EXPECT_ONE(
      "with model.pipeline_model_parallel_size = 2 needs virtual_pipeline_model_parallel_size",
      kMixtral, kExperts, bf16, ep(2), pp(2), overlap);
  EXPECT_ONE("needs model.pipeline_schedule = 1f1b or dualpipe_v, found gpipe", kMixtral, kExperts,
             bf16, ep(2), pp(2), overlap, "model.pipeline_schedule=gpipe");
  EXPECT_ONE("model.recompute_granularity = full exclude each other", kMixtral, kExperts, bf16,
             ep(2), overlap, "model.recompute_granularity=full", "model.recompute_method=uniform",
             "model.recompute_num_layers=1");
  EXPECT_GOOD(kMixtral, kExperts, bf16, ep(2), overlap, "model.recompute_granularity=selective",
              "model.recompute_modules=[mlp]");
  EXPECT_THAT(
      problems_of({kMixtral, kExperts, bf16, ep(2), overlap,
                   "model.recompute_granularity=selective", "model.recompute_modules=[moe]"}),
      testing::Contains(HasSubstr("moe in model.recompute_modules exclude each other")));
  EXPECT_ONE("moe_shared_expert_overlap = true exclude each other", "model.family=qwen2_moe",
             kExperts, bf16, ep(2), overlap, "model.moe_shared_expert_intermediate_size=32",
             "model.moe_shared_expert_overlap=true");
  EXPECT_THAT(problems_of({"model.family=deepseek_v3", kExperts, bf16, ep(2), overlap,
                           "model.mtp_num_layers=2"}),
              testing::Contains(HasSubstr("needs model.mtp_num_layers of at most 1, found 2")));
  EXPECT_ONE("delay_wgrad_compute: true needs comm_overlap.overlap_moe_expert_parallel_comm",
             kMixtral, kExperts, bf16, ep(2), delay);
}

TEST(ValidateParallel, ExpertsNeedWhatTheyStandOn) {
  EXPECT_ONE("2 needs experts, and num_moe_experts is null", "model.num_moe_experts=null", ep(2));
  EXPECT_ONE("2 needs experts, and num_moe_experts is null; expected null",
             "model.num_moe_experts=null", etp(2));
  EXPECT_ONE(
      "family llama has no experts; families with experts: deepseek_v2, deepseek_v3, dots1, "
      "ernie4_5_moe, glm4_moe, glm4_moe_lite, gpt_oss, granitemoe, granitemoeshared, "
      "hunyuan_v1_moe, kimi_k2, llama4_text, minimax_m2, mixtral, olmoe, phimoe, qwen2_moe, "
      "qwen3_moe, solar_open",
      "model.family=llama", kExperts);
  EXPECT_ONE("2 with add_mlp_bias = true: the biases of num_moe_experts = 4",
             "model.family=gpt_oss", "model.num_moe_experts=4", "model.moe_router_topk=2",
             "model.add_mlp_bias=true", tp(2), etp(2));
  EXPECT_ONE("tensor ranks would route the same tokens; expected true", kMixtral, kExperts, tp(2),
             "model.sequence_parallel=false");
  EXPECT_ONE("experts have fewer copies than dense weights", kMixtral, kExperts, ep(2),
             "ddp.use_distributed_optimizer=false");
  EXPECT_ONE("does not divide the expert data-parallel ranks = 2; nearest: 2", kMixtral, kExperts,
             ep(4), "ddp.num_distributed_optimizer_instances=4");
}

TEST(ValidateParallel, StagesBeforeDataRanksNeedEqualGrids) {
  EXPECT_GOOD("dist.use_tp_pp_dp_mapping=true", pp(2), tp(2));
  EXPECT_GOOD("dist.use_tp_pp_dp_mapping=true", cp(2)) << "one stage";
  EXPECT_ONE("expert data ranks = 4 must equal data ranks = 2", "dist.use_tp_pp_dp_mapping=true",
             pp(2), cp(2));
}

TEST(ValidateParallel, TheBatchIsWholeMicroBatches) {
  EXPECT_ONE(
      "30 is not divisible by micro_batch_size · data-parallel ranks = 1 · 8; nearest: 24 or 32",
      "train.global_batch_size=30");
  EXPECT_ONE("ranks = 8 · 8; nearest: 64, or micro_batch_size = 4", "train.global_batch_size=32",
             "train.micro_batch_size=8");
  EXPECT_GOOD("train.global_batch_size=30", tp(8));
}

TEST(ValidateParallel, TensorRanksCutEvenly) {
  EXPECT_THAT(problems_of({tp(3), ranks(3), "train.global_batch_size=3"}),
              ElementsAre(HasSubstr("3 does not divide num_attention_heads = 8; nearest: 2 or 4"),
                          AllOf(HasSubstr("num_query_groups: 4 and tensor_model_parallel_size = 3"),
                                HasSubstr("nearest tensor_model_parallel_size: 2 or 4"))));
  EXPECT_ONE("8 does not divide ffn_hidden_size = 100; nearest: 5 or 10", tp(8),
             "model.ffn_hidden_size=100");
}

TEST(ValidateParallel, SequenceParallel) {
  EXPECT_GOOD(tp(4), "model.sequence_parallel=true");
  EXPECT_ONE("needs tensor_model_parallel_size of at least 2", "model.sequence_parallel=true");
  EXPECT_ONE(
      "the 66 tokens of a rank's micro-batch (seq_length / context_parallel_size · "
      "micro_batch_size = 66 / 1 · 1) are not divisible by tensor_model_parallel_size = 4; "
      "nearest: 64 or 68",
      tp(4), "model.sequence_parallel=true", "model.seq_length=66");
  EXPECT_GOOD(tp(4), "model.sequence_parallel=true", "model.seq_length=66",
              "train.micro_batch_size=2")
      << "the condition is on tokens, not rows";
}

TEST(ValidateParallel, TensorOverlap) {
  EXPECT_GOOD(tp(2), "model.sequence_parallel=true", "comm_overlap.tp_comm_overlap=true");
  EXPECT_ONE("needs tensor_model_parallel_size of at least 2", "comm_overlap.tp_comm_overlap=true");
  EXPECT_ONE("needs model.sequence_parallel", tp(2), "model.sequence_parallel=false",
             "comm_overlap.tp_comm_overlap=true");
  EXPECT_ONE("variable_seq_lengths is true", tp(2), "comm_overlap.tp_comm_overlap=true",
             "model.variable_seq_lengths=true");
  EXPECT_ONE("3 does not divide the 64 output features; nearest: 2 or 4", tp(2),
             "comm_overlap.tp_comm_overlap_cfg.proj_fprop.num_splits=3");
  EXPECT_ONE("tp_comm_bulk_dgrad: true and tp_comm_overlap_rs_dgrad=true exclude", tp(2),
             "model.tp_comm_bulk_dgrad=true", "model.tp_comm_overlap_rs_dgrad=true");
  EXPECT_GOOD(tp(2), "model.tp_comm_overlap_rs_dgrad=true");
}

TEST(ValidateParallel, ContextCutsZigzag) {
  EXPECT_ONE("66 is not divisible by 2 · context_parallel_size = 2 · 2; nearest: 64 or 68", cp(2),
             "model.seq_length=66");
  EXPECT_GOOD("model.seq_length=66");
}

TEST(ValidateParallel, ContextExchangesHeads) {
  EXPECT_GOOD(cp(4), "model.cp_comm_type=a2a");
  EXPECT_ONE(
      "num_query_groups / tensor_model_parallel_size = 4 / 2 = 2 is not divisible by 4; "
      "nearest: context_parallel_size = 2",
      tp(2), cp(4), "model.cp_comm_type=a2a");
  EXPECT_THAT(problems_of({cp(8), tp(2), ranks(16),
                           "model.cp_comm_type=[p2p,p2p,p2p,a2a,p2p,p2p,p2p,p2p]"}),
              ElementsAre(HasSubstr("num_attention_heads / tensor_model_parallel_size = 8 / 2 = 4"),
                          HasSubstr("num_query_groups")));
  EXPECT_GOOD(cp(8), tp(1)) << "rings do not exchange heads";
}

TEST(ValidateParallel, ContextTypesPerLayer) {
  EXPECT_GOOD(cp(2), "model.cp_comm_type=[p2p,a2a,p2p,a2a,p2p,a2a,p2p,all_gather]");
  EXPECT_ONE("2 entries for num_layers = 8", cp(2), "model.cp_comm_type=[p2p,a2a]");
}

TEST(ValidateParallel, ContextLevels) {
  const std::string both = "model.cp_comm_type=a2a+p2p";
  const std::string sizes = "model.hierarchical_context_parallel_sizes=";
  EXPECT_GOOD(cp(4), both, sizes + "[2,2]");
  EXPECT_ONE(
      "required by cp_comm_type a2a+p2p: two sizes whose product is context_parallel_size = "
      "4, for instance [2, 2]",
      cp(4), both);
  EXPECT_ONE("2 · 4 = 8 is not context_parallel_size = 4; nearest: [2, 2]", cp(4), both,
             sizes + "[2,4]");
  EXPECT_ONE("nearest: an inner size of 2 or 4", cp(4), both, sizes + "[3,1]");
  EXPECT_ONE("expected two sizes (a2a, p2p), found 3", cp(4), both, sizes + "[2,2,1]");
  EXPECT_ONE("no layer has it", cp(4), sizes + "[2,2]");
  EXPECT_ONE("a2a+p2p over 4 ranks: num_query_groups / tensor_model_parallel_size = 4 / 2 = 2",
             cp(8), tp(2), ranks(16), both, sizes + "[4,2]", "model.num_attention_heads=16");
}

TEST(ValidateParallel, HybridContext) {
  const std::string hybrid = "model.hybrid_context_parallel=true",
                    tokens = "model.max_seqlen_per_dp_cp_rank=";
  EXPECT_GOOD(cp(2), ranks(4), hybrid, tokens + "16");
  EXPECT_ONE(
      "required by hybrid_context_parallel: maximum tokens of a micro-batch on a rank, for "
      "instance seq_length / context_parallel_size = 32",
      cp(2), ranks(4), hybrid);
  EXPECT_ONE(
      "15 · 4 data and context ranks = 60 tokens, but a document may have seq_length = 64; "
      "expected at least 16",
      cp(2), ranks(4), hybrid, tokens + "15");
  EXPECT_ONE("needs a power of two of data and context ranks, found 3; nearest: 2 or 4", ranks(3),
             hybrid, tokens + "64", "train.global_batch_size=12");
  EXPECT_ONE("one pipeline stage, found pipeline_model_parallel_size = 2", pp(2), ranks(4), hybrid,
             tokens + "64");
  EXPECT_ONE("needs model.calculate_per_token_loss = true", ranks(4), hybrid, tokens + "64",
             "model.calculate_per_token_loss=false");
  EXPECT_ONE("needs cp_comm_type p2p or all_gather, found a2a", cp(2), ranks(4), hybrid,
             tokens + "64", "model.cp_comm_type=a2a");
  EXPECT_ONE("windows need all_gather or a2a", ranks(4), hybrid, tokens + "64",
             "model.window_size=16", "model.window_layers=[]");
}

TEST(ValidateParallel, WindowsHaveNoRing) {
  const std::string window = "model.window_size=16", all = "model.window_layers=[]";
  EXPECT_GOOD(window, all);
  EXPECT_GOOD(cp(2), window, all, "model.cp_comm_type=all_gather");
  EXPECT_ONE("p2p on layer 0, which has a sliding window of 16; windows need all_gather or a2a",
             cp(2), window, all);
  EXPECT_ONE("p2p on layer 5", cp(2), window, "model.window_layers=[1,0,0,0,0,1,0,0]",
             "model.cp_comm_type=[a2a,p2p,p2p,p2p,p2p,p2p,p2p,p2p]");
}

TEST(ValidateParallel, ChunksNeedWholeDocuments) {
  const std::string chunk = "model.attention_chunk_size=16";
  EXPECT_GOOD(chunk);
  EXPECT_GOOD(cp(2), chunk, "model.cp_comm_type=a2a");
  EXPECT_ONE("p2p on layer 0, which attends in chunks of 16 tokens; chunks need a2a", cp(2), chunk);
  EXPECT_ONE("all_gather on layer 5", cp(2), chunk,
             "model.attention_chunk_layers=[1,0,0,0,0,1,0,0]",
             "model.cp_comm_type=[a2a,p2p,p2p,p2p,p2p,all_gather,p2p,p2p]");
}

TEST(ValidateParallel, Recompute) {
  const std::string full = "model.recompute_granularity=full",
                    selective = "model.recompute_granularity=selective",
                    uniform = "model.recompute_method=uniform",
                    block = "model.recompute_method=block";
  const auto layers = [](int n) { return "model.recompute_num_layers=" + std::to_string(n); };
  EXPECT_GOOD(selective);
  EXPECT_GOOD(selective, "model.recompute_modules=[mlp, layernorm, core_attn]", uniform);
  EXPECT_GOOD(full, uniform, layers(3));
  EXPECT_GOOD(full, block, layers(8));
  EXPECT_GOOD(full, block, layers(2), pp(2), vpp(2));
  EXPECT_THAT(problems_of({full}),
              ElementsAre(HasSubstr("full needs recompute_method, which is null; expected uniform "
                                    "or block"),
                          HasSubstr("full needs recompute_num_layers, which is null; expected 1 to "
                                    "8")));
  EXPECT_ONE("recompute_num_layers: 9 is more than the 8 layers", full, uniform, layers(9));
  EXPECT_ONE(
      "recompute_num_layers: 3 is more than the 2 layers of a pipeline stage's chunk; "
      "expected 1 to 2",
      full, block, layers(3), pp(2), vpp(2));
  EXPECT_ONE("recompute_num_layers: 1 is for recompute_granularity=full", selective, layers(1));
  const std::string folder = "model.hf_config=models/any";
  EXPECT_THAT(problems_of({selective, "model.recompute_modules=[core_attn, moe]"}),
              ElementsAre(testing::EndsWith("the model has no moe; it has core_attn, layernorm, "
                                            "mlp")));
  EXPECT_GOOD(folder, selective, "model.recompute_modules=[core_attn, moe]");
  EXPECT_THAT(problems_of({"model.multi_latent_attention=true", selective,
                           "model.recompute_modules=[moe]"}),
              testing::Contains(HasSubstr("it has core_attn, layernorm, mlp, mla_up_proj")));
  const std::string shared = "model.moe_shared_expert_intermediate_size=32";
  EXPECT_GOOD(kMixtral, kExperts, selective, "model.recompute_modules=[core_attn, moe]");
  EXPECT_GOOD("model.family=qwen2_moe", kExperts, shared, selective,
              "model.recompute_modules=[moe_act, shared_experts]");
  EXPECT_ONE("the model has no shared_experts; it has core_attn, layernorm, mlp", kMixtral,
             kExperts, "model.moe_shared_expert_intermediate_size=null", selective,
             "model.recompute_modules=[shared_experts]");
  EXPECT_ONE("moe_act is a part of moe, which is recomputed as a whole", kMixtral, kExperts,
             selective, "model.recompute_modules=[moe, moe_act]");
  // Numbers of layers that do not divide are reported once.
  EXPECT_ONE("num_layers", full, uniform, layers(9), pp(2), "model.num_layers=7");
}

TEST(ValidateParallel, SharesOfSavedActivationsAndPartialRecompute) {
  const std::string share = "model.distribute_saved_activations=true",
                    full = "model.recompute_granularity=full",
                    selective = "model.recompute_granularity=selective",
                    uniform = "model.recompute_method=uniform",
                    block = "model.recompute_method=block", one = "model.recompute_num_layers=1",
                    partial = "model.num_microbatches_with_partial_activation_checkpoints=1";
  EXPECT_GOOD(full, uniform, one, share, tp(2), "model.sequence_parallel=false");
  EXPECT_ONE(
      "distribute_saved_activations: true needs recompute_granularity = full, found selective",
      selective, share);
  EXPECT_ONE("sequence_parallel = true each tensor rank keeps only its share", full, uniform, one,
             share, tp(2), "model.sequence_parallel=true");
  const std::string apart = "model.recompute_segments_apart=true";
  EXPECT_GOOD(full, uniform, one, apart);
  EXPECT_GOOD(full, block, "model.recompute_num_layers=2", apart);
  EXPECT_ONE("recompute_segments_apart: true needs recompute_granularity = full, found selective",
             selective, apart);
  EXPECT_ONE(
      "recompute_segments_apart: true with recompute_method = uniform needs "
      "recompute_num_layers = 1, found 2",
      full, uniform, "model.recompute_num_layers=2", apart);
  EXPECT_GOOD(full, block, one, partial, pp(2));
  EXPECT_GOOD(selective, partial, pp(2));
  EXPECT_ONE(
      "checkpoints: 1 needs recompute_granularity = selective, or full with recompute_method = "
      "block, found null with null",
      partial);
  EXPECT_ONE("found full with uniform", full, uniform, one, partial);
}

TEST(ValidateParallel, Offload) {
  const std::string layers = "model.cpu_offloading=true",
                    modules = "model.fine_grained_activation_offloading=true",
                    block = "model.recompute_method=block";
  const auto number = [](int n) { return "model.cpu_offloading_num_layers=" + std::to_string(n); };
  const auto names = [](const std::string& list) { return "model.offload_modules=[" + list + "]"; };
  EXPECT_GOOD(layers, number(8), pp(2), tp(2));
  EXPECT_ONE("cpu_offloading_num_layers: 9 is more than num_layers = 8; expected 0 to 8", layers,
             number(9));
  EXPECT_ONE("cpu_offloading_activations: false and cpu_offloading_weights = false leave", layers,
             number(1), "model.cpu_offloading_activations=false");
  EXPECT_ONE(
      "cpu_offloading_weights: true needs ddp.data_parallel_sharding_strategy = "
      "optim_grads_params, found optim",
      layers, "model.cpu_offloading_weights=true");
  EXPECT_GOOD(modules, names("attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, mlp"), pp(2),
              vpp(2));
  EXPECT_ONE("fine_grained_activation_offloading: true needs offload_modules, which is empty",
             modules);
  EXPECT_ONE("are both true: set only one of them", modules, names("mlp"), layers, number(1));
  EXPECT_ONE("offload_modules: moe_act is a part of experts, but the model has no experts; it has",
             "model.num_moe_experts=null", modules, names("mlp, moe_act"));
  EXPECT_GOOD(kMixtral, kExperts, modules, names("expert_fc1, moe_act"));
  EXPECT_GOOD(kMixtral, kExperts, ep(2), layers, number(2));
  EXPECT_ONE("offload_modules: moe_act is not implemented with expert_model_parallel_size",
             kMixtral, kExperts, ep(2), modules, names("core_attn, moe_act"));
  EXPECT_ONE("offload_modules: expert_fc1 is a part of moe in recompute_modules", kMixtral,
             kExperts, modules, names("core_attn, expert_fc1"),
             "model.recompute_granularity=selective", "model.recompute_modules=[moe]");
  EXPECT_ONE("offload_modules: attn_proj needs core_attn", modules, names("attn_proj, mlp"));
  EXPECT_ONE("offload_modules: mlp_norm is a part of layernorm in recompute_modules", modules,
             names("mlp_norm, mlp"), "model.recompute_granularity=selective",
             "model.recompute_modules=[layernorm]");
  EXPECT_GOOD(layers, number(2), "model.recompute_granularity=selective");
  EXPECT_GOOD(layers, number(2), "model.recompute_granularity=full", block,
              "model.recompute_num_layers=1");
  EXPECT_GOOD(layers, number(2), "model.recompute_granularity=full",
              "model.recompute_method=uniform", "model.recompute_num_layers=1");
  EXPECT_ONE(
      "fine_grained_activation_offloading: true, but recompute_granularity = full with "
      "recompute_method = uniform",
      modules, names("mlp"), "model.recompute_granularity=full", "model.recompute_method=uniform",
      "model.recompute_num_layers=1");
}

TEST(ValidateParallel, Fusions) {
  EXPECT_GOOD("model.cross_entropy_loss_fusion=false", "model.gradient_accumulation_fusion=false",
              "model.bias_activation_fusion=false", "model.bias_dropout_fusion=false");
  EXPECT_GOOD("model.cross_entropy_loss_fusion=false", "model.recompute_logits=false");
  EXPECT_ONE("recompute_logits: true needs cross_entropy_loss_fusion",
             "model.cross_entropy_loss_fusion=false", "model.recompute_logits=true");
  EXPECT_ONE("found activation_func = squared_relu; auto leaves it off",
             "model.activation_func=squared_relu", "model.bias_activation_fusion=true");
  EXPECT_GOOD("model.activation_func=squared_relu");
  EXPECT_GOOD("model.activation_func=quick_gelu", "model.bias_activation_fusion=true");
  EXPECT_ONE("defer_embedding_wgrad_compute: true needs model.gradient_accumulation_fusion", pp(2),
             "comm_overlap.defer_embedding_wgrad_compute=true",
             "comm_overlap.wgrad_deferral_limit=0", "model.gradient_accumulation_fusion=false");
}

TEST(ValidateParallel, AllProblemsAtOnce) {
  EXPECT_THAT(
      problems_of({tp(3), ranks(8), "model.cp_comm_type=[p2p]",
                   "model.num_layers_in_first_pipeline_stage=1", "ddp.average_in_collective=true"})
          .size(),
      6u);
}

// The values that `auto` resolves to obey the rules too, without a note.
TEST(ResolveParallel, AutoFollowsTheSizes) {
  RunConfig config;
  config.dist.ranks = 8;
  config.parallel.tensor_model_parallel_size = 2;
  config.parallel.pipeline_model_parallel_size = 2;
  config.pipeline.virtual_pipeline_model_parallel_size = 2;
  config.model.seq_length = 64;
  resolve_parallel(config);
  EXPECT_TRUE(config.parallel.sequence_parallel.value());
  EXPECT_TRUE(config.pipeline.overlap_p2p_comm.value());
  EXPECT_FALSE(config.pipeline.batch_p2p_comm.value());
  EXPECT_TRUE(config.ddp.align_param_gather.value());
  EXPECT_EQ(data_parallel_size(config), 2);

  RunConfig odd;
  odd.dist.ranks = 100;
  odd.parallel.tensor_model_parallel_size = 2;
  odd.model.seq_length = 63;
  odd.train.micro_batch_size = 1;
  odd.pipeline.pipeline_model_parallel_layout = OneOrList<std::string>("Et|tL");
  resolve_parallel(odd);
  EXPECT_FALSE(odd.parallel.sequence_parallel.value()) << "63 tokens over 2 ranks";
  EXPECT_TRUE(odd.pipeline.batch_p2p_comm.value());
  EXPECT_EQ(odd.pipeline.virtual_stages(), 2) << "two stages on one rank";
  EXPECT_EQ(odd.ddp.bucket_size.value(), 50'000'000);
  EXPECT_FALSE(odd.ddp.align_param_gather.value());
}

}  // namespace
}  // namespace viaduct
