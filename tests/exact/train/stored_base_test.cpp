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

class StoredBase : public testing::TestWithParam<const char*> {};

TEST_P(StoredBase, TrainsAsOnTheMatricesThatItStandsFor) {
  const std::string format = std::string("peft.base_format=") + GetParam();
  const std::pair<const char*, const char*> cases[] = {
      {"fp32", "lora"}, {"bf16_mixed", "lora"}, {"bf16_mixed", "dora"}};
  for (const auto& [recipe, scheme] : cases) {
    SCOPED_TRACE(std::string(recipe) + " " + scheme);
    const Overrides of = run_of(recipe) + Overrides{std::string("peft.scheme=") + scheme};
    EngineOnBlanks coded(of + Overrides{format}), plain(of);
    int stored = 0;
    for (const Parameter* parameter : coded.engine.store().parameters()) {
      stored += parameter->stored ? 1 : 0;
      EXPECT_TRUE(!parameter->stored || !parameter->trained) << parameter->path;
      if (parameter->vocabulary) {
        EXPECT_FALSE(parameter->stored) << parameter->path;
      }
    }
    const bool same = std::string(GetParam()) == "bf16" && std::string(recipe) == "bf16_mixed";
    EXPECT_EQ(stored, same ? 0 : 2 * 4);  // of two blocks
    for (const ShardRun& run : plain.engine.store().frozen_runs()) {
      for (const Parameter* parameter : coded.engine.store().parameters()) {
        if (parameter->path != run.parameter->path || !parameter->stored) continue;
        const AcquiredWeight weight(coded.engine.store(), *parameter, WeightUse::forward);
        const Tensor& matrix = weight.tensor();
        ASSERT_EQ(matrix.bytes(), run.master.bytes());
        std::copy_n(static_cast<const std::byte*>(matrix.raw()), matrix.bytes(),
                    static_cast<std::byte*>(run.master.raw()));
      }
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
