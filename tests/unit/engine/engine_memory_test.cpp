// The memory of an engine in addition to the weights depends on its purpose.

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

struct Held {
  int64_t weights = 0, gradients = 0, masters = 0, moments = 0;
};

Held held_for(EnginePurpose purpose) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("bf16_mixed");
  run.positions = 8;
  run.purpose = purpose;
  Engine engine(*device, ops, test::small_llama(), run);
  EXPECT_EQ(engine.optimizer() != nullptr, purpose == EnginePurpose::train);
  const auto bytes = [&](MemoryTag tag) {
    return device->memory().bytes_by_tag[static_cast<size_t>(tag)];
  };
  return {bytes(MemoryTag::weights), bytes(MemoryTag::main_gradients),
          bytes(MemoryTag::master_weights), bytes(MemoryTag::moments)};
}

TEST(EngineMemory, OnlyWhatThePurposeNeeds) {
  const Held train = held_for(EnginePurpose::train);
  EXPECT_EQ(train.gradients, 2 * train.weights) << "FP32 beside BF16";
  EXPECT_EQ(train.masters, 2 * train.weights);
  EXPECT_GT(train.moments, 3 * train.weights) << "two in FP32, without the padding of buckets";
  const Held gradients = held_for(EnginePurpose::gradients);
  EXPECT_EQ(gradients.weights, train.weights);
  EXPECT_EQ(gradients.gradients, train.gradients);
  EXPECT_EQ(gradients.masters, 0);
  EXPECT_EQ(gradients.moments, 0);
  const Held evaluate = held_for(EnginePurpose::evaluate);
  EXPECT_EQ(evaluate.weights, train.weights);
  EXPECT_EQ(evaluate.gradients, 0);
  EXPECT_EQ(evaluate.masters, 0);
  EXPECT_EQ(evaluate.moments, 0);
}

}  // namespace
}  // namespace viaduct
