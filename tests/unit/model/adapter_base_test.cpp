// Formats of frozen weights that do not fit a model or a layout are refused.

#include "model/adapter_base.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/model_folder.h"
#include "config/choice.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

ModelConfig model_of(const std::string& name) {
  return read_model_config(resolve_model_folder(test::test_data("golden") / name / "model"));
}

TEST(AdapterBase, IsWhatTheFieldSays) {
  EXPECT_EQ(choice_of<BaseFormat>("nf4"), BaseFormat::nf4);
  EXPECT_EQ(choice_of<BaseFormat>("fp8"), BaseFormat::fp8);
  EXPECT_EQ(choice_of<BaseFormat>("bf16"), BaseFormat::bf16);
  EXPECT_EQ(choice_of<BaseFormat>("blocks"), BaseFormat::blocks);
}

TEST(AdapterBase, BlocksAreThoseOfTheirTypes) {
  const ModelConfig llama = model_of("llama");  // 64 wide
  const std::string o = "model.layers.0.self_attn.o_proj.weight";
  const auto check = [&](const BlockTypes& types, int ranks) {
    check_base_format(BaseFormat::blocks, llama, ranks, types);
  };
  check({}, 4);  // nothing is stored so
  check({{o, GgufTensorType::q8_0}}, 2);
  EXPECT_THAT(
      [&] {
        check({{o, GgufTensorType::q8_0}}, 4);
      },
      ThrowsMessage<ConfigError>(
          AllOf(HasSubstr("16 of the 64 input features of model.layers.0.self_attn.o_proj"),
                HasSubstr("nearest degree that works: 2"))));
  // Rows of outputs are cut anywhere.
  check({{"model.layers.0.self_attn.q_proj.weight", GgufTensorType::q4_k}}, 4);
}

TEST(AdapterBase, RefusesDegreesThatCutBlocks) {
  const ModelConfig llama = model_of("llama");  // 64 wide, 176 features
  for (const BaseFormat format : {BaseFormat::bf16, BaseFormat::fp8, BaseFormat::nf4})
    check_base_format(format, llama, 1);
  check_base_format(BaseFormat::bf16, llama, 2);
  EXPECT_THAT([&] { check_base_format(BaseFormat::nf4, llama, 2); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("peft.base_format with model.tensor_model_parallel_size = 2"),
                        HasSubstr("32 of the 64 input features of model.layers.0.self_attn.o_proj"),
                        HasSubstr("nearest degree that works: 1"))));
  EXPECT_THAT([&] { check_base_format(BaseFormat::fp8, llama, 4); },
              ThrowsMessage<ConfigError>(HasSubstr("nearest degree that works: 1")));
  ModelConfig wide = llama;
  wide.hidden = 512, wide.head_dim = 128, wide.feed_forward = 512;
  check_base_format(BaseFormat::nf4, wide, 4);
  check_base_format(BaseFormat::fp8, wide, 4);
  wide.feed_forward = 192;
  EXPECT_THAT([&] { check_base_format(BaseFormat::nf4, wide, 4); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("48 of the 192 input features"),
                                               HasSubstr("nearest degree that works: 1"))));
  wide.hidden = 511;
  EXPECT_THAT([&] { check_base_format(BaseFormat::nf4, wide, 1); },
              ThrowsMessage<ConfigError>(HasSubstr("expected bf16, fp8 or null")));
}

TEST(AdapterBase, ExpertsAreCutByTheRanksThatShareThem) {
  const ModelConfig mixtral = model_of("mixtral");  // 64 wide, experts of 64 features
  check_base_format(BaseFormat::nf4, mixtral, 1);
  EXPECT_THAT([&] { check_base_format(BaseFormat::nf4, mixtral, 1, {}, 2); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("peft.base_format with model.expert_tensor_parallel_size = 2"),
                        HasSubstr("32 of the 64 input features of "
                                  "model.layers.0.block_sparse_moe.experts.0.w2"),
                        HasSubstr("nearest degree that works: 1"))));
  ModelConfig wide = mixtral;
  wide.moe.feed_forward = 128;
  check_base_format(BaseFormat::nf4, wide, 1, {}, 2);
  EXPECT_THAT([&] { check_base_format(BaseFormat::nf4, wide, 1, {}, 4); },
              ThrowsMessage<ConfigError>(HasSubstr("nearest degree that works: 2")));
  EXPECT_THAT([&] { check_base_format(BaseFormat::blocks, mixtral, 1); },
              ThrowsMessage<ConfigError>(HasSubstr("do not stay for models with experts")));
}

TEST(AdapterBase, LatentAttentionIsCutByHeads) {
  ModelConfig latent = model_of("deepseek_v3");  // queries of 4 heads of 10 from 10 compressed ones
  check_base_format(BaseFormat::fp8, latent, 1);
  EXPECT_THAT([&] { check_base_format(BaseFormat::nf4, latent, 1); },
              ThrowsMessage<ConfigError>(HasSubstr("q_b_proj of 40 × 10 elements")));
  latent.hidden = latent.feed_forward = latent.moe.feed_forward = 64;
  latent.latent.q_rank = 16;
  check_base_format(BaseFormat::nf4, latent, 1);
  EXPECT_THAT([&] { check_base_format(BaseFormat::nf4, latent, 2); },
              ThrowsMessage<ConfigError>(HasSubstr("kv_b_proj of 28 × 8 elements")));
}

}  // namespace
}  // namespace viaduct
