// Rows of published runs as configurations.

#include "plan/score/published_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/op_time.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> overrides_of(const std::string& columns, const std::string& row) {
  const CsvTable table = parse_csv(columns + "\n" + row + "\n", "t.csv");
  return published_run(PublishedRow(table, table.rows[0])).overrides;
}

TEST(PublishedRun, ColumnsBecomeFeatures) {
  const std::string columns =
      "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,vpp,cp,ep,etp,fsdp,"
      "recompute,notes";
  EXPECT_THAT(overrides_of(columns, "NeMo (x),llama3-70b,fp8,64,128,1,8192,4,4,5,2,,,,full,"),
              AllOf(Contains("model.tensor_model_parallel_size=4"),
                    Contains("model.virtual_pipeline_model_parallel_size=5"),
                    Contains("model.context_parallel_size=2"),
                    Contains("mixed_precision=bf16_with_fp8_delayed_scaling_mixed"),
                    Contains("model.recompute_granularity=full"),
                    Not(Contains("comm_overlap.tp_comm_overlap=false"))));
  EXPECT_THAT(
      overrides_of(columns, "torchtitan,llama3-8b,fp8,64,64,,8192,1,1,,1,,,shard:8,selective,"),
      AllOf(Contains("ddp.data_parallel_sharding_strategy=optim_grads_params"),
            Contains("ddp.num_distributed_optimizer_instances=8"),
            Contains("mixed_precision=bf16_with_fp8_current_scaling_mixed"),
            Contains("model.recompute_modules=[layernorm]")));
  EXPECT_THAT(overrides_of(columns,
                           "Megatron-Bridge,deepseek-v3,bf16,256,2048,1,4096,1,4,4,1,64,1,no,"
                           "modules:mla_up_proj+mlp,dispatcher hybridep"),
              AllOf(Contains("model.expert_model_parallel_size=64"),
                    Contains("model.moe_token_dispatcher_type=flex"),
                    Contains("model.recompute_modules=[mla_up_proj, mlp]"),
                    Contains(HasSubstr("pipeline_model_parallel_layout=\"Etttt|tttt|"))));
  EXPECT_THAT(
      overrides_of(columns, "InternEvo,llama3-8b,bf16,64,64,1,2048,2,1,1,1,,,zero1:4,none,"),
      AllOf(Contains("ddp.num_distributed_optimizer_instances=8"),
            Contains("ddp.grad_reduce_in_fp32=false"), Contains("ddp.overlap_param_gather=false")));
  EXPECT_THAT(overrides_of(columns, "x,llama3-8b,fp8-mx,8,8,1,8192,1,1,,1,,,no,none,"),
              Contains("mixed_precision=bf16_with_mxfp8_mixed"));
  EXPECT_THAT(overrides_of(columns, "x,llama3-8b,bf16,8,8,1,8192,1,2,,1,,,no,none,interleaved"),
              Contains("model.virtual_pipeline_model_parallel_size=2"));
}

// As its code of the time of the rows has them.
TEST(PublishedRun, StagesOfTorchtitan) {
  const std::string columns =
      "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,fsdp,notes";
  // 32 rows of a data rank are cut into as many micro-batches as there are stages.
  EXPECT_THAT(
      overrides_of(columns, "torchtitan,llama3.1-405b,fp8,512,256,,8192,8,8,yes,1F1B; async TP"),
      AllOf(Contains("train.micro_batch_size=4"),
            Contains("ddp.data_parallel_sharding_strategy=optim_grads"),
            Not(Contains("comm_overlap.tp_comm_overlap=false"))));
  EXPECT_THAT(overrides_of(columns, "torchtitan,llama3-8b,fp8,8,16,,8192,2,1,yes,vanilla TP"),
              AllOf(Contains("train.micro_batch_size=4"),
                    Contains("ddp.data_parallel_sharding_strategy=optim_grads_params"),
                    Contains("comm_overlap.tp_comm_overlap=false")));
}

TEST(PublishedRun, KernelsAreThoseOfTheCode) {
  const auto of = [](const std::string& framework, const std::string& gpu,
                     const std::string& notes) {
    const CsvTable table = parse_csv(
        "framework,hardware,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,notes\n" +
            framework + "," + gpu + ",llama3-8b,bf16,8,64,1,8192,1,1," + notes + "\n",
        "t.csv");
    return published_run(PublishedRow(table, table.rows[0]));
  };
  // Transformer Engine takes cuDNN's attention from Hopper on.
  for (const char* code : {"NeMo 24.07", "Megatron-LM mcore v0.9", "MLPerf", "MaxText", "llmq"})
    EXPECT_TRUE(of(code, "H100-SXM", "").library_attention) << code;
  for (const char* code : {"torchtitan", "llm-foundry", "MosaicML"})
    EXPECT_FALSE(of(code, "H100-SXM", "").library_attention) << code;
  EXPECT_FALSE(of("NeMo Megatron 23.05", "A100-80GB-SXM", "").library_attention);
  EXPECT_TRUE(of("NeMo Automodel", "H100-SXM", "kernels TE + DeepEP").library_attention);
  EXPECT_FALSE(of("NeMo Automodel", "H100-SXM", "kernels TE + FlexAttn").library_attention);
  // A kernel without Hopper's instructions gains there 1.46 times of what it does on the A100.
  const double share = of("llm-foundry (FSDP)", "H100-SXM", "").attention_share.value();
  EXPECT_NEAR(share * 794.5 / (OpTimeSettings().attention_share * 271.2), 1.46, 0.01);
  EXPECT_FALSE(of("llm-foundry (FSDP)", "A100-80GB-SXM", "").attention_share);
  EXPECT_EQ(of("torchtitan", "H100-SXM", "torch.compile").extra_passes, 1);
  EXPECT_EQ(of("torchtitan", "H100-SXM", "eager").extra_passes, std::nullopt);
}

// MLPerf's submissions with NeMo, whose scripts do not differ in this but for FP4.
TEST(PublishedRun, OfMlperf) {
  const auto of = [](const std::string& precision) {
    return overrides_of(
        "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,vpp",
        "MLPerf Training v5.0,llama3.1-405b," + precision + ",512,1152,1,8192,8,8,8");
  };
  const auto exposed = Contains("comm_overlap.tp_comm_overlap=false");
  EXPECT_THAT(of("fp8"), AllOf(Contains("ddp.grad_reduce_in_fp32=false"), Not(exposed)));
  EXPECT_THAT(of("nvfp4"), exposed);
}

TEST(PublishedRun, AdaptersAreThoseOfTheCodesRecipes) {
  const auto of = [](const std::string& framework, const std::string& notes) {
    return overrides_of(
        "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,notes",
        framework + ",llama3-8b,bf16,8,32,1,4096,1,1," + notes);
  };
  EXPECT_THAT(of("NeMo (DGX Cloud Benchmarking v25.02)", "LoRA fine-tune"),
              AllOf(Contains("peft.scheme=lora"), Contains("peft.dim=8"),
                    Contains("peft.target_modules=[linear_qkv]")));
  EXPECT_THAT(of("NeMo Automodel (PyTorch DTensor)", "LoRA fine-tune"),
              AllOf(Contains("peft.dim=16"), Contains("peft.target_modules=[all-linear]")));
  EXPECT_THAT(of("NeMo 24.07", "SFT"), Not(Contains("peft.scheme=lora")));
  // Only its 70B model is recomputed, which would not fit.
  const auto recomputed = Contains("model.recompute_granularity=full");
  EXPECT_THAT(of("NeMo Automodel (PyTorch DTensor)", "LoRA fine-tune"), Not(recomputed));
  EXPECT_THAT(
      overrides_of("framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,notes",
                   "NeMo Automodel,llama3-70b,bf16,8,32,2,4096,2,1,LoRA"),
      recomputed);
}

TEST(PublishedRun, OfInternEvo) {
  const CsvTable table = parse_csv(
      "framework,hardware,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp\n"
      "InternEvo,A100-80GB-SXM,internlm-7b,bf16,8,64,4,2048,2,1\n",
      "t.csv");
  const PublishedRun run = published_run(PublishedRow(table, table.rows[0]));
  EXPECT_THAT(run.overrides, Contains("model.sequence_parallel=false"));
  EXPECT_NEAR(run.attention_share.value() * 271.2, 101, 0.1);
}

// Of a block of Llama 3 8B the products of wk, wo and w3 run twice: 2.55e9 of 7.50e9 parameters.
TEST(PublishedRun, ProductsThatTorchtitanRepeats) {
  const auto of = [](const std::string& framework, const std::string& recompute) {
    const CsvTable table = parse_csv(
        "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,fsdp,recompute\n" +
            framework + ",llama3.1-8b,bf16,8,16,2,8192,1,1,fsdp2," + recompute + "\n",
        "t.csv");
    return published_run(PublishedRow(table, table.rows[0]));
  };
  EXPECT_NEAR(of("torchtitan 2024-12", "selective").product_repeats, 1 + 2.55 / 7.50 / 3, 1e-3);
  EXPECT_THAT(of("torchtitan 2024-12", "selective").overrides,
              Contains("model.recompute_modules=[layernorm]"));
  EXPECT_EQ(of("torchtitan 2024-12", "full").product_repeats, 1);
  EXPECT_EQ(of("x", "selective").product_repeats, 1);
}

// Rows of experts that tensor ranks share cross the network once.
// cudnn-frontend issue 256: of one release, in MXFP8, of experts with biases.
TEST(PublishedRun, GradientsOfBiasesThatOneReleaseSpills) {
  const auto of = [](const std::string& release, const std::string& model_and_precision) {
    const CsvTable table = parse_csv(
        "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,ep\n"
        "Megatron-Bridge " +
            release + "," + model_and_precision + ",64,1280,4,4096,1,1,64\n",
        "t.csv");
    return published_run(PublishedRow(table, table.rows[0])).activation_gradient_delay;
  };
  // A layer of gpt-oss-20b with two rows of 8,192 tokens: 206.2 ms of 24 layers.
  EXPECT_NEAR(of("26.06.01", "gpt-oss-120b,fp8-mx") * 65536 * 2880 * 10, 206.2e-3 / 24, 1e-6);
  for (const char* other : {"26.06", "26.08", "26.04.01"})
    EXPECT_EQ(of(other, "gpt-oss-120b,fp8-mx"), 0) << other;
  EXPECT_EQ(of("26.06.01", "gpt-oss-120b,bf16"), 0);
  EXPECT_EQ(of("26.06.01", "qwen3-30b-a3b,fp8-mx"), 0);
}

// cuDNN's backward in FP8, which Transformer Engine has for sinks since then, skips no keys.
TEST(PublishedRun, AttentionInFp8GoesPastWindows) {
  const auto of = [](const std::string& release, const std::string& precision) {
    return overrides_of(
        "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,ep",
        "Megatron-Bridge " + release + ",gpt-oss-120b," + precision + ",64,1280,4,4096,1,1,64");
  };
  EXPECT_THAT(of("26.06", "bf16"), Contains("model.window_size=128"));
  EXPECT_THAT(of("26.04", "fp8-mx"), Contains("model.window_size=128"));
  EXPECT_THAT(of("26.08", "fp8-mx"), Not(Contains(HasSubstr("model.window_"))));
}

TEST(PublishedRun, RowsThatTensorRanksGatherBehindTheExchange) {
  const auto of = [](const std::string& framework, const std::string& tp, const std::string& etp) {
    return overrides_of(
        "framework,tp,etp,model,precision,n_gpus,global_batch,micro_batch,seq_len,pp,ep",
        framework + "," + tp + "," + etp + ",grok-1-314b-4L,bf16,32,1024,1,4096,1,8");
  };
  const auto flex = Contains("model.moe_token_dispatcher_type=flex");
  EXPECT_THAT(of("NeMo (DGX)", "4", ""), flex);
  EXPECT_THAT(of("NeMo (DGX)", "4", "1"), Not(flex));
  EXPECT_THAT(of("NeMo (DGX)", "1", ""), Not(flex));
  EXPECT_THAT(of("Megatron-Bridge 25.09", "4", ""), Not(flex)) << "experts are not shared";
  EXPECT_THAT(of("x", "4", ""), Not(flex));
}

// DeepEP exchanges tokens between ranks that share the experts.
TEST(PublishedRun, RanksOfExpertsThatAreNotStated) {
  const auto of = [](const std::string& rest) {
    return overrides_of(
        "framework,n_gpus,pp,ep,notes,model,precision,global_batch,micro_batch,seq_"
        "len,tp,fsdp",
        "NeMo Automodel," + rest + ",gpt-oss-20b,bf16,512,1,4096,1,yes");
  };
  EXPECT_THAT(of("8,1,,TE + DeepEP"), AllOf(Contains("model.expert_model_parallel_size=8"),
                                            Contains("model.moe_token_dispatcher_type=flex")));
  EXPECT_THAT(of("256,2,,TE + DeepEP"), Contains("model.expert_model_parallel_size=64"));
  EXPECT_THAT(of("8,1,4,TE + DeepEP"), Contains("model.expert_model_parallel_size=4"));
  for (const std::string& setting : of("8,1,,TE"))
    EXPECT_THAT(setting, Not(HasSubstr("expert_model_parallel_size")));
}

// 126 layers, embedding and loss on 16 stages: one of them a chunk, as the paper describes.
TEST(PublishedRun, ChunksOfTheLlama3Paper) {
  const std::string columns =
      "framework,model,precision,n_gpus,global_batch,seq_len,tp,pp,vpp,fsdp,notes";
  const std::string rest = ",llama3.1-405b,bf16,8192,2048,8192,8,16,";
  const auto chunks = [](int64_t count) {
    return Contains("model.virtual_pipeline_model_parallel_size=" + std::to_string(count));
  };
  EXPECT_THAT(overrides_of(columns, "Meta internal" + rest + ",yes,"),
              AllOf(chunks(8), Contains("model.account_for_loss_in_pipeline_split=true")));
  EXPECT_THAT(overrides_of(columns, "Meta internal" + rest + "4,yes,"), chunks(4));
  EXPECT_THAT(overrides_of(columns, "torchtitan" + rest + ",yes,"), Not(chunks(8)));
}

// Recipes for performance differ from those for training.
// The scripts that made these tables say what the tables do not.
TEST(PublishedRun, ProgramsInJax) {
  const std::string columns =
      "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,fsdp,recompute";
  const auto maxtext = [&](const std::string& release, const std::string& recompute) {
    return overrides_of(columns, "MaxText/JAX (DGX Cloud Benchmarking " + release +
                                     "),llama3-70b,bf16,128,256,2,8192,shard:128," + recompute);
  };
  EXPECT_THAT(maxtext("v24.11.1", ""),
              Contains("model.recompute_modules=[core_attn, layernorm, mlp]"));
  EXPECT_THAT(maxtext("v25.02", ""), Contains("model.recompute_granularity=full"));
  EXPECT_THAT(maxtext("v25.02", "none"), Not(Contains(HasSubstr("recompute_granularity"))));
  const auto paxml = [&](const std::string& model) {
    return overrides_of(columns, "Paxml/JAX (DGX Cloud Benchmarking v24.11.1)," + model +
                                     ",bf16,64,256,4,2048,yes,");
  };
  EXPECT_THAT(paxml("gpt3-5b"), AllOf(Contains("model.recompute_modules=[core_attn, layernorm]"),
                                      Contains("ddp.num_distributed_optimizer_instances=8")));
  EXPECT_THAT(paxml("gpt3-175b"), Contains("model.recompute_modules=[core_attn, layernorm, mlp]"));
}

TEST(PublishedRun, PerformanceRecipes) {
  const std::string columns =
      "framework,model,precision,n_gpus,global_batch,micro_batch,seq_len,tp,pp,vpp,cp,ep,cuda_"
      "graph,"
      "notes";
  const auto of = [&](const std::string& framework, const std::string& rest) {
    return overrides_of(columns, framework + "," + rest);
  };
  const auto narrow = Contains("ddp.grad_reduce_in_fp32=false"),
             all_blocks = Contains("mixed_precision.first_last_layers_bf16=false");
  const std::string dense = "llama3-8b,fp8-cs,8,8,1,8192,1,1,,1,,,";
  for (const char* framework : {"Megatron-Bridge 25.09", "NeMo 25.07", "NeMo (DGX)"})
    EXPECT_THAT(of(framework, dense), AllOf(narrow, all_blocks)) << framework;
  EXPECT_THAT(of("NeMo Automodel", dense), AllOf(Not(narrow), Not(all_blocks)));
  EXPECT_THAT(of("torchtitan", dense), AllOf(Not(narrow), all_blocks));
  EXPECT_THAT(of("Megatron-Bridge 26.06", "llama3-8b,bf16,8,8,1,8192,1,1,,1,,full_iteration,"),
              Contains("model.cuda_graph_impl=full_iteration"));
  EXPECT_THAT(of("Megatron-Bridge 26.02",
                 "qwen3-30b-a3b,fp8-mx,8,8,1,4096,1,1,,1,8,transformer_engine:attn+moe_router,"),
              AllOf(Contains("model.cuda_graph_impl=local"),
                    Contains("model.cuda_graph_modules=[attn, moe_router]"),
                    Not(Contains("comm_overlap.overlap_moe_expert_parallel_comm=true"))));
  // Whole steps are captured with what makes them static, whether or not a row says so.
  for (const char* graph : {"full_iteration:all", ""}) {
    EXPECT_THAT(of("Megatron-Bridge 26.08-dev",
                   std::string("qwen3-30b-a3b,fp8-mx,8,8,1,4096,1,1,,1,8,") + graph + ","),
                AllOf(Contains("model.cuda_graph_modules=[attn, moe_router, moe_preprocess]"),
                      Contains("comm_overlap.overlap_moe_expert_parallel_comm=true")));
  }
  EXPECT_THAT(of("Megatron-Bridge 26.04", "qwen3-30b-a3b,fp8-mx,8,8,1,4096,1,1,,1,8,,"),
              Not(Contains("model.cuda_graph_impl=local")));
}

TEST(PublishedRun, ExchangesOfExpertsBesideAnotherMicroBatch) {
  const auto of = [](const std::string& release, const std::string& gpu, const std::string& notes) {
    return overrides_of(
        "framework,hardware,notes,model,precision,n_gpus,global_batch,micro_batch,"
        "seq_len,tp,pp,vpp,ep",
        "Megatron-Bridge " + release + "," + gpu + "," + notes +
            ",deepseek-v3,bf16,1024,8192,1,4096,2,8,4,64");
  };
  const auto overlapped = Contains("comm_overlap.overlap_moe_expert_parallel_comm=true");
  EXPECT_THAT(of("26.04", "H100-SXM", "moe a2a overlap"), overlapped);
  EXPECT_THAT(of("26.04", "H100-SXM", "DeepEP; no a2a overlap"), Not(overlapped));
  EXPECT_THAT(of("26.04", "H100-SXM", "EP comm overlap"), overlapped);
  const auto flex = Contains("model.moe_token_dispatcher_type=flex");
  EXPECT_THAT(of("26.04", "H100-SXM", "moe a2a overlap"), Not(flex));
  EXPECT_THAT(of("26.04", "H100-SXM", "dispatcher deepep; moe a2a overlap"),
              AllOf(overlapped, flex));
  EXPECT_THAT(of("26.04", "H100-SXM", ""), Not(overlapped));
  // Its script does, which rows of this release do not say.
  EXPECT_THAT(of("25.09", "H100-SXM", "dropless"), overlapped);
  EXPECT_THAT(of("25.09", "B200", "tokendrop"), Not(overlapped));
}

}  // namespace
}  // namespace viaduct
