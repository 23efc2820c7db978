// Weights as tiles: the meaning of `auto`, and refusals of `true`.

#include "run/packed_weights.h"

#include <gmock/gmock.h>

#include "config/load.h"
#include "run/parallel_settings.h"
#include "run/validate.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Overrides = std::vector<std::string>;

RunConfig config_of(Overrides settings) {
  RunConfig config;
  settings.insert(settings.begin(), {"model.seq_length=256", "train.global_batch_size=16"});
  const Schema schema = run_schema(config);
  Problems problems;
  read_config(schema, {{}, settings}, problems);
  EXPECT_THAT(problems.all(), IsEmpty()) << "the settings themselves";
  return config;
}

bool automatic(const Overrides& settings) {
  RunConfig config = config_of(settings);
  resolve_parallel(config);
  resolve_packed_weights(config);
  return config.packing.packed_weights.value();
}

std::vector<std::string> problems_of(const Overrides& settings) {
  Problems problems;
  validate_packed_weights(config_of(settings), problems);
  return problems.all();
}

const std::string kTiles = "dist.cpu_isa=avx512_bf16", kBf16 = "mixed_precision=bf16_mixed";
std::string rows(int n) {
  return "train.micro_batch_size=" + std::to_string(n);
}

TEST(PackedWeights, AutoIsOnForSeveralShortMicroBatches) {
  EXPECT_TRUE(automatic({kTiles, kBf16, rows(2)}));
  EXPECT_TRUE(automatic({kTiles, kBf16, rows(4)}));
  EXPECT_FALSE(automatic({kTiles, kBf16, rows(8)})) << "2048 tokens";
  EXPECT_TRUE(automatic({kTiles, kBf16, rows(8), "dist.ranks=2", "model.context_parallel_size=2"}))
      << "1024 of them on a rank";
  EXPECT_TRUE(automatic({"dist.cpu_isa=amx", kBf16, rows(8)}));
  EXPECT_FALSE(automatic({"dist.cpu_isa=amx", kBf16, rows(16)})) << "one micro-batch";
  EXPECT_FALSE(automatic({kTiles, kBf16, rows(2), "train.global_batch_size=2"}));
  EXPECT_FALSE(automatic({kTiles, "mixed_precision=fp32", rows(2)}));
  EXPECT_FALSE(automatic({"dist.cpu_isa=avx512", kBf16, rows(2)}));
  EXPECT_FALSE(automatic({kTiles, kBf16, rows(2), "model.packed_weights=false"}));
  EXPECT_TRUE(automatic({kTiles, kBf16, rows(16), "model.packed_weights=true"}));
}

TEST(PackedWeights, AutoIsOnBesideAdaptersOfASmallModel) {
  const auto adapted = [](int layers, Overrides settings) {
    settings.insert(
        settings.begin(),
        {kTiles, kBf16, "peft.scheme=lora", rows(4), "model.hidden_size=1024",
         "model.ffn_hidden_size=4096", "model.num_attention_heads=16", "model.kv_channels=64",
         "model.vocab_size=1024", "model.num_layers=" + std::to_string(layers)});
    return automatic(settings);
  };
  // A layer has at most 16Mi parameters, the head 1Mi.
  EXPECT_TRUE(adapted(31, {}));
  EXPECT_FALSE(adapted(32, {})) << "513Mi parameters";
  EXPECT_TRUE(adapted(15, {"dist.ranks=2"}));
  EXPECT_FALSE(adapted(31, {"dist.ranks=2"})) << "two copies";
  EXPECT_TRUE(adapted(31, {"dist.ranks=2", "model.tensor_model_parallel_size=2"}));
  EXPECT_FALSE(adapted(15, {"model.num_moe_experts=8"})) << "16Mi + 7 · 12Mi a layer";
  EXPECT_FALSE(adapted(31, {"peft.base_format=nf4"}));
  EXPECT_TRUE(adapted(31, {"peft.base_format=bf16"})) << "as without it";
  EXPECT_FALSE(adapted(32, {"train.global_batch_size=256"})) << "several micro-batches";
  EXPECT_FALSE(adapted(31, {"ddp.data_parallel_sharding_strategy=optim_grads_params"}));
  EXPECT_FALSE(adapted(31, {"mixed_precision=fp32"}));
  EXPECT_FALSE(adapted(31, {"model.packed_weights=false"}));
}

TEST(PackedWeights, TrueNeedsProductsThatReadTiles) {
  const std::string on = "model.packed_weights=true";
  EXPECT_THAT(problems_of({kTiles, kBf16, on}), IsEmpty());
  EXPECT_THAT(problems_of({"dist.cpu_isa=avx2", kBf16, on}),
              ElementsAre(HasSubstr("found avx2 and bf16_mixed; auto leaves it off")));
  EXPECT_THAT(problems_of({kTiles, "mixed_precision=fp16_mixed", on}),
              ElementsAre(HasSubstr("found avx512_bf16 and fp16_mixed")));
  EXPECT_THAT(problems_of({"dist.cpu_isa=avx2", kBf16}), IsEmpty());
}

}  // namespace
}  // namespace viaduct
