// Rules about the format of frozen weights (peft.base_format).

#include <gmock/gmock.h>

#include "base/error.h"
#include "run/run_config.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::setup_of;
using test::tiny_run;
using test::operator+;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

const Overrides kNf4{"peft.scheme=lora", "peft.dim=4", "peft.base_format=nf4"};

TEST(BaseFormatRules, WhatIsNotBuiltIsRefusedByName) {
  EXPECT_THAT(
      [] {
        setup_of(tiny_run() + kNf4 +
                 Overrides{"ddp.data_parallel_sharding_strategy=optim_grads_params"});
      },
      ThrowsMessage<ConfigError>(
          AllOf(HasSubstr("optim_grads_params"), HasSubstr("peft.base_format"))));
  EXPECT_THAT([] { setup_of(tiny_run() + kNf4 + Overrides{"peft.base_format=int4"}); },
              ThrowsMessage<ConfigError>(HasSubstr("nf4")));
}

/// A plan and a dry run for a GPU say what the run would be refused for.
TEST(BaseFormatRules, PlansForGpusRefuseWhatNoKernelExpands) {
  RunConfig gpu;
  gpu.cuda_target = CudaTarget::sm_90a;
  const auto load = [&](const Overrides& more) {
    return load_run_config({}, tiny_run() + kNf4 + more, gpu);
  };
  EXPECT_THAT([&] { load({}); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("peft.base_format: nf4, on GPUs"),
                                               HasSubstr("no kernel expands its codes"))));
  EXPECT_THAT([&] { load({"peft.base_format=blocks"}); },
              ThrowsMessage<ConfigError>(HasSubstr("peft.base_format: blocks, on GPUs")));
  for (const char* other : {"fp8", "bf16", "null"})
    EXPECT_NO_THROW(load({std::string("peft.base_format=") + other})) << other;
}

TEST(BaseFormatRules, DegreesThatCutBlocksAreRefused) {
  const Overrides two{"dist.ranks=2", "model.tensor_model_parallel_size=2"};
  EXPECT_THAT([&] { setup_of(tiny_run() + kNf4 + two); },
              ThrowsMessage<ConfigError>(HasSubstr("nearest degree that works: 1")));
  setup_of(tiny_run() + kNf4 + two +
           Overrides{"model.hidden_size=128", "model.ffn_hidden_size=128"});
}

TEST(BaseFormatRules, WithoutEffectIsSaid) {
  const auto notes = [](const Overrides& overrides) {
    return setup_of(tiny_run() + overrides).notes;
  };
  const Overrides bf16{"peft.scheme=lora", "peft.dim=4", "peft.base_format=bf16"};
  EXPECT_THAT(notes(bf16 + Overrides{"mixed_precision=bf16_mixed"}),
              Contains(HasSubstr("the recipe's weights are in BF16")));
  EXPECT_THAT(notes(bf16), Not(Contains(HasSubstr("peft.base_format"))));
}

}  // namespace
}  // namespace viaduct
