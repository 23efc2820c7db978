// Adapters on frozen weights in another format: a step has the bits of one on the matrices that
// these codes stand for, the codes never change, and memory is what the dry run says.

#include <gtest/gtest.h>

#include <algorithm>

#include "model/initialize_magnitudes.h"
#include "support/engine_on_blanks.h"

namespace viaduct {
namespace {

using test::EngineOnBlanks;
using test::Overrides;
using test::tiny_run;
using test::operator+;

Overrides run_of(const std::string& recipe) {
  return tiny_run() + Overrides{"peft.scheme=lora",          "peft.dim=4",
                                "optimizer.lr=1e-2",         "model.hidden_size=128",
                                "model.ffn_hidden_size=128", "scheduler.lr_warmup_iters=0",
                                "mixed_precision=" + recipe};
}

/// The matrices of a block that are stored so, with the shape of run_of().
struct StoredModel {
  Overrides model;
  int stored;  // of the two blocks
};

const std::vector<StoredModel>& stored_models() {
  static const std::vector<StoredModel> models{
      {{}, 2 * 4},
      // Experts have two matrices for all, and a router, which is not stored so.
      {{"model.family=qwen3_moe", "model.num_moe_experts=4", "model.moe_router_topk=2",
        "model.moe_ffn_hidden_size=64"},
       2 * 4},
      // Queries without a down-projection; the one of keys and values is not stored so.
      {{"model.family=deepseek_v2", "model.kv_lora_rank=64", "model.qk_head_dim=32",
        "model.qk_pos_emb_head_dim=32", "model.v_head_dim=32", "model.num_moe_experts=4",
        "model.moe_router_topk=2", "model.moe_ffn_hidden_size=64", "model.moe_layer_freq=1",
        "model.moe_shared_expert_intermediate_size=64"},
       2 * 7}};
  return models;
}

/// Five steps on `stored` matrices in a format have the bits of those on a model of these matrices.
void expect_as_on_the_matrices(const Overrides& of, const std::string& format, int stored) {
  EngineOnBlanks coded(of + Overrides{"peft.base_format=" + format}), plain(of);
  std::map<std::string, const Parameter*> parameters;
  for (const Parameter* parameter : coded.engine.store().parameters()) {
    if (!parameter->stored) continue;
    parameters[parameter->path] = parameter;
    EXPECT_FALSE(parameter->trained || parameter->vocabulary) << parameter->path;
  }
  EXPECT_EQ(parameters.size(), static_cast<size_t>(stored));
  for (const ShardRun& run : plain.engine.store().frozen_runs()) {
    const auto found = parameters.find(run.parameter->path);
    if (found == parameters.end()) continue;
    const AcquiredWeight weight(coded.engine.store(), *found->second, WeightUse::forward);
    const Tensor& matrix = weight.tensor();
    ASSERT_EQ(matrix.bytes(), run.master.bytes());
    std::copy_n(static_cast<const std::byte*>(matrix.raw()), matrix.bytes(),
                static_cast<std::byte*>(run.master.raw()));
  }
  OpContext context = plain.engine.context(false, false).ops;
  plain.engine.store().publish_masters(context);
  RankContext rank = plain.engine.context(false, false);
  initialize_magnitudes(rank, plain.engine.store());
  const auto frozen = coded.weights(false), before = coded.weights(true);
  coded.steps(5), plain.steps(5);
  EXPECT_EQ(coded.weights(false), frozen);
  EXPECT_EQ(coded.weights(true), plain.weights(true));
  EXPECT_NE(coded.weights(true), before);
  EXPECT_EQ(dry_run(coded.setup).peak.bytes, coded.rank.device->memory().peak_bytes);
}

class StoredBase : public testing::TestWithParam<const char*> {};

TEST_P(StoredBase, TrainsAsOnTheMatricesThatItStandsFor) {
  const std::string format = GetParam();
  const std::pair<const char*, const char*> cases[] = {
      {"fp32", "lora"}, {"bf16_mixed", "lora"}, {"bf16_mixed", "dora"}};
  for (const auto& [recipe, scheme] : cases) {
    for (const StoredModel& model : stored_models()) {
      if (std::string(scheme) == "dora" && !model.model.empty()) continue;  // not of experts
      SCOPED_TRACE(std::string(recipe) + " " + scheme + testing::PrintToString(model.model));
      const bool same = format == "bf16" && std::string(recipe) == "bf16_mixed";
      expect_as_on_the_matrices(
          run_of(recipe) + Overrides{std::string("peft.scheme=") + scheme} + model.model, format,
          same ? 0 : model.stored);
    }
  }
}

TEST_P(StoredBase, HasTheBytesOfTheDryRun) {
  const Overrides overrides =
      run_of("fp32") + Overrides{std::string("peft.base_format=") + GetParam()};
  EngineOnBlanks coded(overrides), plain(run_of("fp32"));
  const int64_t elements = 2 * (4 * 128 * 128 + 3 * 128 * 128);  // of the linear layers
  const double bits = std::string(GetParam()) == "nf4"   ? 4.13
                      : std::string(GetParam()) == "fp8" ? 8.25
                                                         : 16;
  const auto saved =
      static_cast<double>(plain.bytes(MemoryTag::weights) - coded.bytes(MemoryTag::weights));
  EXPECT_NEAR(saved, elements * (32 - bits) / 8, 4096);
  coded.steps(2);
  EXPECT_EQ(dry_run(coded.setup).peak.bytes, coded.rank.device->memory().peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(Formats, StoredBase, testing::Values("bf16", "fp8", "nf4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace viaduct
