// The unchanged config.json of published models: each is read, describes a model of the published
// size, and is the same model after writing and reading.

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "base/file.h"
#include "device/device.h"
#include "model/family.h"
#include "model/model.h"
#include "model/text_half.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

// Numbers of parameters from model cards and from the sums of published weights, a tied head
// counted once.
const std::map<std::string, int64_t>& published() {
  static const std::map<std::string, int64_t> parameters{
      {"AFM-4.5B", 4'619'184'640},
      {"Apertus-8B-2509", 8'053'338'176},
      {"DeepSeek-R1-Distill-Qwen-1.5B", 1'777'088'000},
      {"DeepSeek-V2-Lite", 15'706'484'224},
      {"DeepSeek-V3", 682'636'487'424},  // with its layer of multi-token prediction
      {"DialoGPT-small", 124'439'808},
      {"ERNIE-4.5-0.3B-PT", 360'748'032},
      {"ERNIE-4.5-21B-A3B-PT", 21'825'437'888},
      {"EXAONE-4.0-1.2B", 1'279'391'488},
      {"EXAONE-4.0-32B", 32'003'216'384},
      {"GLM-4-9B-0414", 9'400'279'040},
      {"GLM-4.5", 356'785'898'816},  // with its layer of multi-token prediction, as the next one
      {"GLM-4.5-Air", 109'227'310'848},
      {"GLM-4.7-Flash", 30'587'100'096},  // as above
      {"Hunyuan-0.5B-Instruct", 539'010'048},
      {"Hunyuan-A13B-Instruct", 80'393'183'232},
      {"Kimi-K2-Instruct", 1'026'408'232'448},
      {"Llama-2-13b-hf", 13'015'864'320},
      {"Llama-2-70b-hf", 68'976'648'192},
      {"Llama-2-7b-hf", 6'738'415'616},
      {"Llama-3.1-8B", 8'030'261'248},
      {"Llama-3.2-1B", 1'235'814'400},
      {"Llama-3.2-3B-Instruct", 3'212'749'824},
      {"Llama-4-Maverick-17B-128E", 400'711'848'960},  // without its vision model
      {"Llama-4-Scout-17B-16E", 107'769'861'120},      // as above
      {"Meta-Llama-3-8B", 8'030'261'248},
      {"MiniMax-M2", 228'689'764'864},
      {"Ministral-3-8B-Base-2512", 8'489'553'920},  // of its text model
      {"Minitron-4B-Base", 4'190'509'056},
      {"Ministral-8B-Instruct-2410", 8'019'808'256},
      {"Mistral-7B-Instruct-v0.2", 7'241'732'096},
      {"Mistral-7B-v0.1", 7'241'732'096},
      {"Mistral-7B-v0.3", 7'248'023'552},
      {"Mistral-Nemo-Base-2407", 12'247'782'400},
      {"Mistral-Small-24B-Base-2501", 23'572'403'200},
      {"Mistral-Small-3.1-24B-Base-2503", 23'572'403'200},  // of its text model
      {"Mixtral-8x7B-v0.1", 46'702'792'704},
      // Published are 15,960,111,936: 64 a layer more than config.json accounts for. These are its
      // parameters, and the biases of the experts' choice.
      {"Moonlight-16B-A3B-Instruct", 15'960'110'208},
      {"OLMo-1B-hf", 1'176'764'416},
      {"OLMo-2-0425-1B", 1'484'916'736},
      {"OLMo-7B-hf", 6'888'095'744},
      {"OLMoE-1B-7B-0924", 6'919'161'856},
      {"Olmo-3-1025-7B", 7'298'011'136},
      {"Phi-3-mini-4k-instruct", 3'821'079'552},
      {"Phi-3.5-MoE-instruct", 41'873'153'344},
      {"Phi-4-mini-instruct", 3'836'021'760},
      {"Qwen1.5-110B", 111'209'914'368},
      {"Qwen1.5-MoE-A2.7B", 14'315'784'192},
      {"Qwen2-72B", 72'706'203'648},
      {"Qwen2-7B", 7'615'616'512},
      {"Qwen2-VL-2B-Instruct", 1'543'714'304},  // of its text model
      {"Qwen2.5-0.5B", 494'032'768},
      {"Qwen2.5-1.5B", 1'543'714'304},
      {"Qwen2.5-VL-3B-Instruct", 3'085'938'688},  // of its text model
      {"Qwen3-0.6B", 596'049'920},
      {"Qwen3-1.7B-Base", 1'720'574'976},
      {"Qwen3-30B-A3B", 30'532'122'624},
      {"Qwen3-4B-Instruct-2507", 4'022'468'096},
      {"Qwen3-8B", 8'190'735'360},
      {"RedPajama-INCITE-Base-3B-v1", 2'775'864'320},
      {"Seed-OSS-36B-Instruct", 36'151'104'512},
      {"SmolLM2-1.7B", 1'711'376'384},
      {"SmolLM2-135M", 134'515'008},
      {"SmolLM2-360M-Instruct", 361'821'120},
      {"SmolLM3-3B", 3'075'098'624},
      {"Solar-Open-100B", 102'651'799'552},
      {"TinyLlama-1.1B-Chat-v1.0", 1'100'048'384},
      {"Yi-1.5-6B", 6'061'035'520},
      {"bloom-560m", 559'214'592},
      {"bloom-7b1", 7'069'016'064},
      {"c4ai-command-r-v01", 34'980'831'232},
      {"c4ai-command-r7b-12-2024", 8'028'033'024},
      {"cwm", 32'581'097'472},
      {"deepseek-llm-7b-base", 6'910'365'696},
      {"distilgpt2", 81'912'576},
      {"dots.llm1.inst", 142'774'381'696},
      {"falcon-40b", 41'303'293'952},
      {"falcon-7b", 6'921'720'704},
      {"falcon-rw-1b", 1'311'625'216},
      {"flan-t5-base", 247'577'856},
      {"gemma-2-27b", 27'227'128'320},
      {"gemma-2-2b", 2'614'341'888},
      {"gemma-2-9b", 9'241'705'984},
      {"gemma-2b", 2'506'172'416},
      {"gemma-3-1b-it", 999'885'952},
      {"gemma-4-31B-it", 30'697'345'340},  // of its text model
      {"gemma-3-4b-it", 3'880'263'168},    // of its text model
      {"gemma-7b-it", 8'537'680'896},
      {"glm-4-9b-chat-hf", 9'399'951'360},
      {"gpt-j-6b", 6'050'882'784},
      {"gpt-neo-1.3B", 1'315'575'808},
      {"gpt-neo-125m", 125'198'592},
      {"gpt-neox-20b", 20'554'567'680},
      {"gpt-oss-20b", 20'914'757'184},
      {"gpt2", 124'439'808},
      {"gpt2-large", 774'030'080},
      {"gpt2-medium", 354'823'168},
      {"gpt2-xl", 1'557'611'200},
      {"granite-3.1-1b-a400m-base", 1'334'628'352},
      {"granite-3.1-2b-base", 2'533'531'648},
      {"granite-3.1-3b-a800m-instruct", 3'298'793'472},
      {"helium-1-preview-2b", 2'172'643'840},
      {"llava-1.5-7b-hf", 6'738'939'904},  // of its text model
      // From what is said of it (7B, of which a token uses 1B): its own number is not published.
      {"moe-7b-1b-active-shared-experts", 6'370'887'168},
      {"mpt-30b", 29'957'200'896},
      {"mpt-7b", 6'649'286'656},
      {"opt-1.3b", 1'315'758'080},
      {"opt-125m", 125'239'296},
      {"opt-6.7b", 6'658'473'984},
      {"phi-1_5", 1'418'270'720},
      {"phi-2", 2'779'683'840},
      {"phi-4", 14'659'507'200},
      {"pythia-160m", 162'322'944},
      {"pythia-2.8b", 2'775'208'960},
      {"stablelm-2-1_6b", 1'644'515'328},
      {"starcoder", 15'517'456'384},
      {"starcoder2-3b", 3'030'371'328},
      {"starcoderbase-1b", 1'137'207'296},
      {"t5-small", 60'506'624},
      {"t5-v1_1-small", 76'961'152},
      {"vaultgemma-1b", 1'038'741'120},
      {"zephyr-7b-beta", 7'241'732'096},
  };
  return parameters;
}

std::string text_of(const std::string& name) {
  return read_file(test::test_data("published/" + name + ".json"));
}

int64_t parameters_of(const ModelConfig& config) {
  const auto device = make_sim_device();  // only the structure: no memory
  const auto model = build_model(*device, config, {.precision = precision_recipe("fp32")}, 1);
  std::set<std::string> seen;
  int64_t count = 0;
  for (const Parameter* parameter : model->parameters()) {
    for (const Part& part : parameter->parts)
      if (seen.insert(part.name).second) count += part.logical_shape.elements();
  }
  return count;
}

class PublishedConfig : public testing::TestWithParam<std::string> {};

TEST_P(PublishedConfig, LoadsAsItIs) {
  const std::string text = text_of(GetParam());
  const ModelConfig config = read_hf_config(text, GetParam());
  const bool takes_images = text_half(text, GetParam()).has_value();
  EXPECT_EQ(config.notes.size(), takes_images ? 1u : 0u)
      << (config.notes.empty() ? "" : config.notes.back());
  EXPECT_EQ(parameters_of(config), published().at(GetParam()));
  const std::string written = write_hf_config(config);
  EXPECT_EQ(write_hf_config(read_hf_config(written, "again")), written);
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& [name, parameters] : published()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedConfig, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST(PublishedConfigs, EveryFileHasItsTestAndEveryFamilyItsFiles) {
  std::set<std::string> families;
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data("published"))) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const std::string name = entry.path().stem().string();
    EXPECT_TRUE(published().contains(name)) << name;
    families.insert(read_hf_config(text_of(name), name).family);
  }
  EXPECT_GE(files, 25u);
  EXPECT_EQ(families.size(), model_families().size());
}

TEST(PublishedConfigs, ThePageSaysWhereEveryFileCameFrom) {
  const std::string page = read_file(test::test_data("published") / "README.md");
  for (const auto& [name, parameters] : published())
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
}

TEST(PublishedConfigs, EveryFamilyStandsInThePagesLists) {
  for (const char* page : {"README.md", "docs/getting-started.md"}) {
    const std::string text = read_file(test::source_folder() / page);
    std::vector<std::string> types = types_with_text_halves();
    for (const ModelFamily& family : model_families()) types.push_back(family.model_type);
    for (const std::string& type : types)
      EXPECT_TRUE(std::regex_search(text, std::regex("\\b" + type + "\\b")))
          << page << ": " << type;
  }
}

TEST(PublishedConfigs, SayWhatMattersBesideTheSizes) {
  const auto read = [](const std::string& name) { return read_hf_config(text_of(name), name); };
  EXPECT_EQ(read("Llama-3.2-1B").rotary.scaling, RopeScalingKind::llama3);
  EXPECT_EQ(read("Llama-3.2-1B").rotary.factor, 32);
  EXPECT_EQ(read("Llama-3.2-3B-Instruct").end_tokens,
            (std::vector<int64_t>{128001, 128008, 128009}));
  EXPECT_EQ(read("Mistral-7B-v0.1").windows, std::vector<int64_t>(32, 4096));
  EXPECT_EQ(read("Mistral-7B-v0.3").windows, std::vector<int64_t>(32, 0));
  EXPECT_EQ(read("Qwen2-7B").windows, std::vector<int64_t>(28, 0));
  EXPECT_EQ(read("cwm").windows[4], 0);
  EXPECT_EQ(read("cwm").windows[5], 8192);
  EXPECT_EQ(read("cwm").rotary.scaling, RopeScalingKind::llama3);
  EXPECT_EQ(read("Ministral-8B-Instruct-2410").windows[35], 32768);
  EXPECT_EQ(read("gpt-neo-125m").windows[1], 256);
  EXPECT_EQ(read("gpt-neo-125m").attention_scale, 1);
  EXPECT_EQ(read("starcoder").kv_heads, 1);
  EXPECT_EQ(read("Solar-Open-100B").rotary.factor, 2);
  EXPECT_TRUE(read("Solar-Open-100B").moe.routes(0));
  EXPECT_EQ(read("moe-7b-1b-active-shared-experts").moe.shared_feed_forward, 1024);
  EXPECT_TRUE(read("Qwen2.5-0.5B").qkv_bias);
  EXPECT_TRUE(read("Qwen3-0.6B").qk_norm);
  EXPECT_EQ(read("gemma-2b").activation, ActivationKind::gelu_tanh);
  EXPECT_DOUBLE_EQ(read("gemma-2-27b").attention_scale, 1 / 12.0);
  EXPECT_EQ(read("gemma-2-9b").windows[0], 4096);
  EXPECT_EQ(read("gemma-2-9b").windows[1], 0);
  EXPECT_EQ(read("SmolLM2-135M").rotary.base, 100000);
  EXPECT_FALSE(read("OLMoE-1B-7B-0924").qk_norm_per_head);
  EXPECT_TRUE(read("OLMoE-1B-7B-0924").moe.routing.pre_softmax);
  EXPECT_EQ(read("gpt-oss-20b").windows[0], 128);
  EXPECT_EQ(read("gpt-oss-20b").windows[1], 0);
  EXPECT_FALSE(read("gpt-oss-20b").rotary.truncate);
  const ModelConfig lite = read("DeepSeek-V2-Lite");
  EXPECT_EQ(
      lite.latent,
      (LatentSizes{
          .q_rank = 0, .kv_rank = 512, .plain_dim = 128, .rotary_dim = 64, .value_dim = 128}));
  EXPECT_FALSE(lite.moe.routes(0));
  EXPECT_TRUE(lite.moe.routes(1));
  EXPECT_EQ(lite.moe.shared_feed_forward, 2816);
  // DeepSeek's code: 192^(−1/2) · (0.1 · 0.707 · ln 40 + 1)².
  EXPECT_NEAR(lite.attention_scale, 0.114721387, 1e-8);
  const ModelConfig gemma = read("gemma-3-1b-it");
  EXPECT_EQ(gemma.windows[4], 512);
  EXPECT_EQ(gemma.windows[5], 0);
  EXPECT_EQ(gemma.rotary.base, 1e6);
  EXPECT_EQ(gemma.window_rotary_base, 10000);
  EXPECT_FALSE(read("SmolLM3-3B").rotates(3));
  EXPECT_TRUE(read("SmolLM3-3B").rotates(4));
  EXPECT_FALSE(read("OLMo-2-0425-1B").input_norms);
  EXPECT_EQ(read("Olmo-3-1025-7B").rotary.scaling, RopeScalingKind::yarn);
  EXPECT_EQ(read("Olmo-3-1025-7B").window_rotary_base, 500000);
  EXPECT_EQ(read("GLM-4-9B-0414").rotary.width, 64);
  EXPECT_TRUE(read("GLM-4-9B-0414").rotary.interleaved);
  EXPECT_EQ(read("granite-3.1-2b-base").logit_scale, 1 / 8.0);
  EXPECT_EQ(read("granite-3.1-2b-base").attention_scale, 1 / 64.0);
  EXPECT_FALSE(read("AFM-4.5B").gated);
  EXPECT_EQ(read("stablelm-2-1_6b").rotary.width, 16);
  EXPECT_TRUE(read("EXAONE-4.0-1.2B").rotates(3));
  EXPECT_FALSE(read("EXAONE-4.0-32B").rotates(3));
  EXPECT_TRUE(read("Apertus-8B-2509").xielu);
  EXPECT_EQ(read("Minitron-4B-Base").rotary.width, 64);
  EXPECT_EQ(read("Minitron-4B-Base").norm_weight_offset, 1);
  EXPECT_TRUE(read("helium-1-preview-2b").rotary.interleaved);
  EXPECT_FALSE(read("vaultgemma-1b").output_norms);
  EXPECT_TRUE(read("Hunyuan-0.5B-Instruct").qk_norm_after_rotary);
  EXPECT_EQ(read("Hunyuan-0.5B-Instruct").rotary.alpha, 1000);
  EXPECT_EQ(read("Hunyuan-A13B-Instruct").moe.routing.topk, 8);
  EXPECT_EQ(read("Hunyuan-A13B-Instruct").moe.shared_feed_forward, 3072);
  EXPECT_EQ(read("Phi-3.5-MoE-instruct").moe.routing.margin, 0.02);
  EXPECT_EQ(read("Phi-4-mini-instruct").rotary.width, 96);
  EXPECT_TRUE(read("falcon-rw-1b").linear_bias_scaled);
  EXPECT_EQ(read("Mistral-Small-24B-Base-2501").head_dim, 128);
  EXPECT_EQ(read("Ministral-3-8B-Base-2512").temperature, (AttentionTemperature{0.1, 16384}));
  EXPECT_EQ(read("gemma-3-4b-it").family, "gemma3_text");
  EXPECT_EQ(read("gemma-3-4b-it").rotary.factor, 8);
  EXPECT_EQ(read("gemma-3-4b-it").end_tokens, (std::vector<int64_t>{1, 106}));
  EXPECT_EQ(read("llava-1.5-7b-hf").layers, 32);
  EXPECT_EQ(read("Qwen2-VL-2B-Instruct").rotary.scaling, RopeScalingKind::none);
  EXPECT_TRUE(read("Qwen2.5-VL-3B-Instruct").tied_embeddings);
  const ModelConfig scout = read("Llama-4-Scout-17B-16E");
  EXPECT_TRUE(scout.qk_l2_norm);
  EXPECT_EQ(scout.chunk_of(2), 8192);
  EXPECT_EQ(scout.chunk_of(3), 0);
  EXPECT_FALSE(scout.rotates(3));
  EXPECT_TRUE(scout.moe.weighs_input);
  const ModelConfig maverick = read("Llama-4-Maverick-17B-128E");
  EXPECT_FALSE(maverick.qk_l2_norm);
  EXPECT_FALSE(maverick.moe.routes(0));
  EXPECT_TRUE(maverick.moe.routes(1));
  const ModelConfig third = read("DeepSeek-V3");
  EXPECT_EQ(third.moe.routing.score, ScoreFunction::sigmoid);
  EXPECT_EQ(third.moe.routing.groups, 8);
  EXPECT_EQ(third.moe.routing.group_topk, 4);
  EXPECT_EQ(third.moe.routing.best_of_group(), 2);
  EXPECT_EQ(read("Moonlight-16B-A3B-Instruct").latent.q_rank, 0);
  EXPECT_EQ(read("Moonlight-16B-A3B-Instruct").latent.norm_eps, 1e-6);
  EXPECT_EQ(read("Kimi-K2-Instruct").moe.routing.groups, 1);
  EXPECT_EQ(read("GLM-4.5-Air").rotary.width, 64);
  EXPECT_FALSE(read("GLM-4.5-Air").qk_norm);
  EXPECT_TRUE(read("GLM-4.5").qk_norm);
  EXPECT_EQ(read("GLM-4.5").mtp_layers, 1);
  EXPECT_EQ(read("MiniMax-M2").rotary.width, 64);
  EXPECT_FALSE(read("MiniMax-M2").qk_norm_per_head);
  const ModelConfig ernie = read("ERNIE-4.5-21B-A3B-PT");
  EXPECT_TRUE(ernie.moe.routing.choose_probabilities);
  EXPECT_FALSE(ernie.moe.routes(0));
  EXPECT_TRUE(ernie.moe.routes(27));
  EXPECT_FALSE(third.moe.routes(2));
  EXPECT_TRUE(third.moe.routes(3));
}

}  // namespace
}  // namespace viaduct
