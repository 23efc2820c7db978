// Every parameter that settings ask for has a name, of its own family's or of Viaduct's own, and a
// config.json with which it is read back.

#include "checkpoint/own_names.h"

#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "checkpoint/parameter_io.h"
#include "model/family.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Those that make parameters.
const Overrides kSettings{
    "model.softmax_type=learnable",
    "model.post_sublayer_norm=true",
    "model.pre_sublayer_norm=true",
    "model.post_sublayer_norm=true model.pre_sublayer_norm=false",
    "model.qk_layernorm=true",
    "model.qk_layernorm=true model.qk_layernorm_per_head=false",
    "model.position_embedding_type=learned_absolute",
    "model.add_bias_linear=true",
    "model.add_qkv_bias=true",
    "model.add_mlp_bias=true",
    "model.normalization=LayerNorm",
    "model.normalization=LayerNorm model.layernorm_bias=false",
    "model.parallel_block=true",
    "model.parallel_block=true model.parallel_block_shared_norm=true",
    "model.parallel_block=false",
    "model.add_head_bias=true",
    "model.gated_linear_unit=true",
    "model.activation_func=xielu model.gated_linear_unit=false",
    "model.share_embeddings_and_output_weights=false",
    "model.mtp_num_layers=1",
    "model.moe_router_linear_bias=true",
    "model.moe_router_enable_expert_bias=true model.moe_router_score_function=sigmoid",
    "model.moe_shared_expert_intermediate_size=32",
    "model.moe_shared_expert_intermediate_size=32 model.moe_shared_expert_gate=true",
    "model.num_moe_experts=4 model.moe_router_topk=2",
    "model.multi_latent_attention=true model.kv_lora_rank=16"};

Overrides with(const std::string& family, const std::string& words) {
  Overrides list = tiny_run(family);
  for (size_t begin = 0, end = 0; begin < words.size(); begin = end + 1) {
    end = std::min(words.find(' ', begin), words.size());
    list.push_back(words.substr(begin, end - begin));
  }
  return list;
}

TEST(OwnNames, EverySettingOfEveryFamilyNamesItsParametersOrIsRefused) {
  int built = 0;
  for (const ModelFamily& one : model_families()) {
    const std::string& family = one.model_type;
    for (const std::string& setting : kSettings) {
      SCOPED_TRACE(family + " " + setting);
      std::vector<std::string> names;
      ModelConfig model;
      try {
        model = setup_of(with(family, setting)).model;
        names = logical_names(model);
      } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), HasSubstr("model"));
        continue;
      }
      ++built;
      const std::set<std::string> different(names.begin(), names.end());
      EXPECT_EQ(different.size(), names.size());
      for (const std::string& name : names) {
        EXPECT_FALSE(name.empty());
        EXPECT_NE(name.front(), '.') << name;
        EXPECT_EQ(name.find("{}"), std::string::npos) << name;
      }
      EXPECT_EQ(logical_names(read_hf_config(write_hf_config(model), "config.json")), names);
    }
  }
  EXPECT_GT(built, 80);
}

TEST(OwnNames, AreThoseThatTheFamilysConfigDoesNotAskFor) {
  const auto own = [](const std::string& family, const std::string& setting) {
    const RunSetup setup = setup_of(with(family, setting));
    return own_names(setup.model, setup.hf_config);
  };
  EXPECT_THAT(own("llama", "model.softmax_type=learnable"),
              ElementsAre("model.layers.0.self_attn.sinks", "model.layers.1.self_attn.sinks"));
  EXPECT_THAT(
      own("gpt2", "model.qk_layernorm=true model.num_layers=1"),
      ElementsAre("transformer.h.0.attn.q_norm.weight", "transformer.h.0.attn.k_norm.weight"));
  EXPECT_THAT(own("gemma2", ""), IsEmpty());
  const RunSetup norms = setup_of(with("llama", "model.post_sublayer_norm=true"));
  EXPECT_EQ(own_names_text(norms.model, norms.hf_config),
            ", without 4 tensors under names of Viaduct's own "
            "(model.layers.0.post_self_attn_layernorm.weight, "
            "model.layers.0.post_mlp_layernorm.weight, "
            "model.layers.1.post_self_attn_layernorm.weight, …)");
}

}  // namespace
}  // namespace viaduct
