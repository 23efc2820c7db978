// Which layers settings of section `peft` adapt.

#include "model/adapter_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/model_folder.h"
#include "model/adapter_trained.h"
#include "model/flops.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::test_data;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

ModelConfig model_of(const std::string& name) {
  return read_model_config(resolve_model_folder(test_data("golden") / name / "model"));
}

size_t chosen(const PeftConfig& config, const std::string& model = "llama") {
  return choose_adapters(config, model_of(model)).modules.size();
}

TEST(AdapterModules, AreChosenByNamesPatternsAndMegatronsNames) {
  const auto layers = static_cast<size_t>(model_of("llama").layers);
  PeftConfig config;
  EXPECT_EQ(chosen(config), 7 * layers);
  config.target_modules = {"q_proj", "v_proj"};
  EXPECT_EQ(chosen(config), 2 * layers);
  config.target_modules = {"linear_qkv", "linear_fc2"};
  EXPECT_EQ(chosen(config), 4 * layers);
  config.target_modules = {"layers.0.mlp.*_proj"};
  EXPECT_EQ(chosen(config), 3u);
  config.target_modules = {"all-linear"};
  config.exclude_modules = {"*.1.*", "o_proj"};
  EXPECT_EQ(chosen(config), 6 * (layers - 1));
  config.exclude_modules = {};
  EXPECT_EQ(chosen(config, "gpt2"), 4 * static_cast<size_t>(model_of("gpt2").layers));
  config.target_modules = {"q_proj"};
  config.exclude_modules = {"layers.0.*", "o_proj"};
  EXPECT_THAT([&] { chosen(config); },
              ThrowsMessage<ConfigError>(HasSubstr("peft.exclude_modules: o_proj has no effect")));
}

/// T5's first form has no gate, and a name of its own for up.
TEST(AdapterModules, OfAFeedForwardWithoutGateHaveItsName) {
  const auto layers = [](const std::string& name) {
    const ModelConfig model = model_of(name);
    return static_cast<size_t>(model.layers + model.encoder.layers);
  };
  PeftConfig config;
  config.target_modules = {"wi"};
  EXPECT_EQ(chosen(config, "t5"), layers("t5"));
  EXPECT_THAT([&] { chosen(config, "t5_v1_1"); }, ThrowsMessage<ConfigError>(HasSubstr("wi")));
  config.target_modules = {"wi_1"};
  EXPECT_THAT([&] { chosen(config, "t5"); }, ThrowsMessage<ConfigError>(HasSubstr("wi_1")));
  EXPECT_EQ(chosen(config, "t5_v1_1"), layers("t5_v1_1"));
}

TEST(AdapterModules, OfImagesAreChosenWhereTheyAreNamed) {
  ModelFolder folder = resolve_model_folder(test_data("golden") / "llava_clip" / "model");
  folder.images = ImageLayers::read;
  const ModelConfig model = read_model_config(folder);  // two blocks, and two of a tower are read
  PeftConfig config;
  config.dim = 2;
  const auto names = [&](const std::vector<std::string>& targets,
                         const std::vector<std::string>& excluded = {}) {
    config.target_modules = targets;
    config.exclude_modules = excluded;
    return choose_adapters(config, model).modules.size();
  };
  EXPECT_EQ(names({"all-linear"}), 14u);
  EXPECT_EQ(names({"q_proj"}), 2u);  // the tower has such layers too
  EXPECT_EQ(names({"linear_qkv"}), 6u);
  EXPECT_EQ(names({"vision_tower"}), 12u);
  EXPECT_EQ(names({"vision_tower.*.q_proj"}), 2u);
  EXPECT_EQ(names({"model.vision_tower.encoder.layers.1.mlp.fc1"}), 1u);
  EXPECT_EQ(names({"model.language_model.layers.0.*"}), 7u);
  EXPECT_EQ(names({"fc1", "linear_1"}), 3u);
  EXPECT_EQ(names({"all-linear", "vision_tower", "multi_modal_projector"}), 28u);
  EXPECT_EQ(names({"all-linear", "vision_tower"}, {"q_proj"}), 22u);
  config.rank_pattern = parse_yaml("{'model\\.vision_tower\\..*': 1}", "test");
  config.target_modules = {"q_proj", "vision_tower.*.q_proj"};
  config.exclude_modules = {};
  const AdapterSettings settings = choose_adapters(config, model);
  EXPECT_EQ(settings.of("vision_tower.encoder.layers.0.self_attn.q_proj")->rank, 1);
  EXPECT_EQ(settings.of("model.layers.0.self_attn.q_proj")->rank, 2);
  config.target_modules = {"vision_tower.encoder.layers.2.mlp.fc1"};  // nothing reads it
  EXPECT_THAT([&] { choose_adapters(config, model); },
              ThrowsMessage<ConfigError>(
                  HasSubstr("is in a block of the vision tower that nothing reads")));
}

TEST(AdapterModules, LinearLayersThatStayFrozenAreSaid) {
  const ModelConfig model = model_of("t5");
  PeftConfig config;
  config.scheme = AdapterScheme::lora;
  config.target_modules = {"decoder.*", "encoder.block.0.layer.0.SelfAttention.q"};
  config.train = {"encoder.*"};
  const AdapterSettings settings = choose_adapters(config, model);
  EXPECT_THAT(frozen_matches(config.train, model, settings),
              AllOf(HasSubstr("peft.train: encoder.* also matches"),
                    HasSubstr(" linear layers of the blocks (encoder.block.0.layer.0."
                              "SelfAttention.k, …), which stay frozen")));
  EXPECT_EQ(frozen_matches({"encoder.*.layer_norm", "shared"}, model, settings), "");
}

TEST(AdapterModules, AProjectorTrainsWholeUnderTheNameOfItsAdapters) {
  ModelFolder folder = resolve_model_folder(test_data("golden") / "llava_clip" / "model");
  folder.images = ImageLayers::read;
  const ModelConfig model = read_model_config(folder);
  PeftConfig config;
  config.dim = 2;
  config.train = {"multi_modal_projector"};
  EXPECT_EQ(
      choose_adapters(config, model).trained,
      (std::set<std::string>{"multi_modal_projector.linear_1", "multi_modal_projector.linear_2"}));
  const auto refused = [&](const std::string& pattern, const std::string& what) {
    config.train = {pattern};
    EXPECT_THAT([&] { choose_adapters(config, model); },
                ThrowsMessage<ConfigError>(HasSubstr(what)));
  };
  refused("multi_modal_projecter", "nearest: multi_modal_projector");
  refused("vision_tower", "vision_tower has linear layers, whose adapters train");
}

TEST(AdapterModules, PatternsGiveRanksAndScales) {
  PeftConfig config;
  config.dim = 8, config.alpha = 16, config.rslora = true;
  config.rank_pattern = parse_yaml("{'layers\\.0\\..*q_proj': 4, q_proj: 2}", "test");
  config.alpha_pattern = parse_yaml("{down_proj: 3}", "test");
  const AdapterSettings settings = choose_adapters(config, model_of("llama"));
  EXPECT_EQ(settings.of("model.layers.0.self_attn.q_proj")->rank, 4);
  EXPECT_EQ(settings.of("model.layers.1.self_attn.q_proj")->rank, 2);
  EXPECT_EQ(settings.of("model.layers.1.self_attn.k_proj")->rank, 8);
  EXPECT_DOUBLE_EQ(settings.of("model.layers.0.mlp.down_proj")->scale(), 3 / std::sqrt(8.0));
  EXPECT_EQ(settings.of("lm_head"), nullptr);
}

TEST(AdapterModules, ExpertsHaveTheirOwnAndRoutersWhereTheyAreNamed) {
  const ModelConfig mixtral = model_of("mixtral");
  const auto layers = static_cast<size_t>(mixtral.layers),
             experts = static_cast<size_t>(mixtral.moe.experts);
  PeftConfig config;
  config.dim = 4;
  EXPECT_EQ(chosen(config, "mixtral"), layers * (4 + 3 * experts));
  config.target_modules = {"linear_fc1"};
  EXPECT_EQ(chosen(config, "mixtral"), layers * 2 * experts);
  config.target_modules = {"gate_up_proj", "block_sparse_moe.gate"};
  EXPECT_EQ(chosen(config, "mixtral"), layers * (experts + 1));
  config.target_modules = {"layers.0.block_sparse_moe.*"};
  EXPECT_EQ(chosen(config, "mixtral"), 3 * experts);
  config.dim = 1;  // the gate has one row
  config.target_modules = {"shared_expert.*", "shared_expert_gate"};
  EXPECT_EQ(chosen(config, "qwen2_moe") % 4, 0u);
}

TEST(AdapterModules, RoutersHaveTheirNamesInPeftToo) {
  PeftConfig config;
  config.dim = 2;
  for (const char* name : {"router", "layer", "router.layer", "block_sparse_moe.router"}) {
    config.target_modules = {name};
    EXPECT_EQ(chosen(config, "granitemoe"), 2u) << name;
  }
  for (const char* name : {"mlp.gate", "block_sparse_moe.gate", "layers.*.mlp.gate"}) {
    config.target_modules = {name};
    EXPECT_EQ(chosen(config, "mixtral"), 4u) << name;
  }
  config.target_modules = {"gate"};
  config.rank_pattern =
      parse_yaml("{'layers\\.0\\.mlp\\.gate': 4, block_sparse_moe.gate: 3}", "test");
  const AdapterSettings settings = choose_adapters(config, model_of("mixtral"));
  EXPECT_EQ(settings.of("model.layers.0.block_sparse_moe.gate")->rank, 4);
  EXPECT_EQ(settings.of("model.layers.1.block_sparse_moe.gate")->rank, 3);
}

TEST(AdapterModules, RanksThatALayerCannotHaveNameTheSettingForItAlone) {
  PeftConfig config;
  config.dim = 16;
  config.target_modules = {"gate"};
  EXPECT_THAT(([&] { chosen(config, "mixtral"); }),
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("peft.dim: a rank of 16"),
                                               HasSubstr("peft.rank_pattern={gate: 4}"))));
  config.rank_pattern = parse_yaml("{gate: 5}", "test");
  EXPECT_THAT(([&] { chosen(config, "mixtral"); }),
              ThrowsMessage<ConfigError>(HasSubstr("peft.rank_pattern: a rank of 5")));
}

TEST(AdapterModules, LatentAttentionHasItsProjections) {
  PeftConfig config;
  config.dim = 4;
  config.target_modules = {"linear_qkv"};
  const AdapterSettings settings = choose_adapters(config, model_of("deepseek_v2"));
  for (const char* name : {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"})
    EXPECT_NE(settings.of(std::string("model.layers.0.self_attn.") + name), nullptr) << name;
}

TEST(AdapterModules, PatternsThatMatchNothingAreErrors) {
  PeftConfig config;
  config.target_modules = {"q_prj"};
  EXPECT_THAT([&] { chosen(config); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("q_prj"), HasSubstr("nearest: q_proj"))));
  config.target_modules = {"q_proj"};
  config.exclude_modules = {"q_proj"};
  EXPECT_THAT([&] { chosen(config); }, ThrowsMessage<ConfigError>(HasSubstr("leaves no layer")));
  config.exclude_modules = {};
  config.dim = 1000;
  EXPECT_THAT([&] { chosen(config); }, ThrowsMessage<ConfigError>(HasSubstr("expected 1 to 64")));
}

TEST(AdapterModules, TablesAndHeadsAreSaid) {
  PeftConfig config;
  const auto refused = [&](const char* pattern, const std::string& model, const char* what) {
    config.target_modules = {"q_proj", pattern};
    if (model == "gpt2") config.target_modules = {pattern};
    EXPECT_THAT([&] { chosen(config, model); }, ThrowsMessage<ConfigError>(HasSubstr(what)));
  };
  refused("embed_tokens", "llama",
          "embed_tokens (model.embed_tokens), an embedding, has no adapter");
  refused("embed_tokens", "llama", "peft.train=[embed_tokens] trains it whole");
  refused("lm_head", "llama", "peft.train=[lm_head] trains it whole");
  refused("lm_head", "gpt2", "peft.train=[wte] trains it whole");  // tied
  refused("wpe", "gpt2", "peft.train=[wpe]");
}

TEST(AdapterModules, LayersOfMultiTokenPredictionHaveThemWhereTheyAreNamed) {
  ModelConfig further = model_of("llama");
  further.mtp_layers = 1;
  PeftConfig config;
  config.dim = 4;
  const size_t of_model = chosen(config);
  const auto count = [&](const std::vector<std::string>& targets) {
    config.target_modules = targets;
    return choose_adapters(config, further).modules.size();
  };
  const std::string number = std::to_string(further.layers);
  EXPECT_EQ(count({"all-linear"}), of_model);
  EXPECT_EQ(count({"linear_qkv", "down_proj"}), 4 * static_cast<size_t>(further.layers));
  EXPECT_EQ(count({"mtp"}), 8u);
  EXPECT_EQ(count({"all-linear", "mtp"}), of_model + 8);
  EXPECT_EQ(count({"layers." + number + ".*_proj"}), 8u);
  EXPECT_EQ(count({"layers." + number + ".eh_proj"}), 1u);
  config.exclude_modules = {"eh_proj"};
  EXPECT_EQ(count({"mtp"}), 7u);
  config.exclude_modules = {};
  EXPECT_THAT([&] { count({"eh_proj"}); }, ThrowsMessage<ConfigError>(HasSubstr("mtp)")));
  config.scheme = AdapterScheme::dora;
  EXPECT_THAT([&] { count({"mtp"}); }, ThrowsMessage<ConfigError>(HasSubstr("[eh_proj]")));
  config.scheme = AdapterScheme::lora;
  count({"all-linear"});
  config.train = {"norm"};
  EXPECT_EQ(choose_adapters(config, further).trained, (std::set<std::string>{"model.norm"}));
}

TEST(AdapterModules, PatternsOfRanksAndScalesAct) {
  PeftConfig config;
  config.target_modules = {"q_proj", "v_proj"};
  config.rank_pattern = parse_yaml("{q_prj: 4}", "test");
  EXPECT_THAT([&] { chosen(config); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("peft.rank_pattern: q_prj matches no"),
                                               HasSubstr("nearest: q_proj"))));
  config.rank_pattern = {};
  config.alpha_pattern = parse_yaml("{down_proj: 4}", "test");  // a layer without an adapter
  EXPECT_THAT([&] { chosen(config); },
              ThrowsMessage<ConfigError>(HasSubstr("peft.alpha_pattern: down_proj matches no")));
  config.alpha_pattern = parse_yaml("{q_proj: 4, 'layers\\.0\\..*q_proj': 2}", "test");
  EXPECT_THAT([&] { chosen(config); },
              ThrowsMessage<ConfigError>(HasSubstr("q_proj stands before it")));
  config.alpha_pattern = parse_yaml("{'layers\\.0\\..*q_proj': 2, q_proj: 4}", "test");
  EXPECT_GT(chosen(config), 0u);
}

TEST(AdapterModules, ModulesThatTrainBesideAreNamed) {
  PeftConfig config;
  config.train = {"norm", "layers.0.*layernorm", "lm_head"};
  const std::set<std::string> chosen = choose_adapters(config, model_of("llama")).trained;
  EXPECT_EQ(chosen,
            (std::set<std::string>{"lm_head", "model.layers.0.input_layernorm",
                                   "model.layers.0.post_attention_layernorm", "model.norm"}));
  const auto refused = [&](const std::string& pattern, const std::string& model,
                           const std::string& what) {
    config.train = {pattern};
    EXPECT_THAT([&] { choose_adapters(config, model_of(model)); },
                ThrowsMessage<ConfigError>(HasSubstr(what)));
  };
  refused("nrm", "llama", "nearest: norm");
  refused("q_proj", "llama", "peft.target_modules");
  refused("lm_head", "gpt2", "name transformer.wte");  // tied
  config.train = {"wte", "wpe", "ln_f"};
  EXPECT_EQ(choose_adapters(config, model_of("gpt2")).trained.size(), 3u);
}

TEST(AdapterModules, MagnitudesAreOfLayersThatTensorRanksCut) {
  PeftConfig config;
  config.scheme = AdapterScheme::dora, config.dim = 4;
  const auto refused = [&](const std::string& model, const std::string& what) {
    EXPECT_THAT([&] { choose_adapters(config, model_of(model)); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr("peft.scheme: dora"), HasSubstr(what))));
  };
  refused("mixtral", "peft.exclude_modules=[\"*.experts.*\"]");
  refused("deepseek_v2", "q_a_proj, kv_a_proj_with_mqa, \"*.experts.*\"]");
  config.exclude_modules = {"q_a_proj", "kv_a_proj_with_mqa", "*.experts.*"};
  EXPECT_TRUE(choose_adapters(config, model_of("deepseek_v2")).magnitudes);
  config.target_modules = {"q_proj", "gate"}, config.exclude_modules = {};
  refused("mixtral", "peft.exclude_modules=[gate]");
}

TEST(AdapterModules, FrozenWeightsHaveTwoThirdsOfTheProducts) {
  const ModelConfig model = model_of("llama");
  PeftConfig config;
  config.target_modules = {"q_proj"};
  config.dim = 2;
  const FlopCount all = training_flops(flop_sizes(model), 1, 10),
                  some = training_flops(flop_sizes(model, choose_adapters(config, model)), 1, 10);
  const double adapters = 10.0 * 6 * 2 * static_cast<double>(2 * model.hidden * model.layers);
  EXPECT_DOUBLE_EQ(some.token_part, all.token_part * 2 / 3 + adapters);
  EXPECT_EQ(some.attention_part, all.attention_part);
  config.train = {"lm_head"};
  EXPECT_DOUBLE_EQ(
      training_flops(flop_sizes(model, choose_adapters(config, model)), 1, 10).token_part,
      some.token_part + 10.0 * 2 * static_cast<double>(model.vocabulary * model.hidden));
}

}  // namespace
}  // namespace viaduct
