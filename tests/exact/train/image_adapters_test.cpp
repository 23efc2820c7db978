// Adapters in a model with images: nothing frozen changes or has more than its weight, and a
// resumed run has the bits of one that was not stopped.

#include <gtest/gtest.h>

#include "support/engine_on_blanks.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::EngineOnBlanks;
using test::Overrides;
using test::operator+;

Overrides run_of(const std::string& name, const std::string& scheme, const std::string& targets) {
  const auto model = test::test_data("golden") / name / "model";
  return {"checkpoint.pretrained_checkpoint=" + model.string(),
          "model.seq_length=16",
          "mixed_precision=fp32",
          "dataset.mock=true",
          "train.train_iters=4",
          "train.global_batch_size=2",
          "train.micro_batch_size=1",
          "optimizer.lr=1e-2",
          "scheduler.lr_warmup_iters=0",
          "validation.eval_iters=0",
          "peft.dim=2",
          "peft.scheme=" + scheme,
          "peft.target_modules=[" + targets + "]"};
}

struct Case {
  std::string model, scheme, targets;
};
const Case kCases[] = {{"llava_clip", "lora", "all-linear"},
                       {"llava_siglip", "dora", "all-linear,vision_tower,multi_modal_projector"},
                       {"llava_clip", "lora", "linear_2"},
                       {"gemma3_images", "lora", "vision_tower.encoder.layers.1.mlp"}};

TEST(ImageAdapterRuns, ChangeNothingFrozen) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.model + " " + c.targets);
    EngineOnBlanks run(run_of(c.model, c.scheme, c.targets));
    const auto frozen = run.weights(false), before = run.weights(true);
    int64_t trained = 0;
    for (const Parameter* parameter : run.engine.store().parameters()) {
      EXPECT_EQ(parameter->trained, parameter->adapter) << parameter->path;
      if (parameter->trained) trained += parameter->shape.elements();
    }
    run.steps(3);
    EXPECT_EQ(run.weights(false), frozen);
    size_t changed = 0;
    for (const auto& [path, bytes] : run.weights(true)) changed += bytes != before.at(path) ? 1 : 0;
    EXPECT_GT(changed, before.size() / 2);  // rows may be such that some have no gradient
    const auto padding = static_cast<int64_t>(64 * before.size() + 256);
    for (const MemoryTag tag : {MemoryTag::main_gradients, MemoryTag::master_weights})
      EXPECT_LT(run.bytes(tag), 4 * (trained + padding));
    EXPECT_LT(run.bytes(MemoryTag::moments), 2 * 4 * (trained + 256));
  }
}

TEST(ImageAdapterRuns, ResumeBitwise) {
  for (const Case& c : {kCases[0], kCases[1]}) {
    const test::TemporaryFolder folder;
    const Overrides run =
        run_of(c.model, c.scheme, c.targets) + Overrides{"peft.dropout=0.1", "peft.train=[norm]"};
    const test::RunOutcome expected = test::train_run(run);
    const std::string save = "checkpoint.save=" + (folder / "run").string();
    test::train_run(run + Overrides{"train.exit_interval=2", save});
    const test::RunOutcome resumed =
        test::train_run(run + Overrides{save, "checkpoint.load=" + (folder / "run").string()});
    EXPECT_EQ(resumed.tensors, expected.tensors);
  }
}

}  // namespace
}  // namespace viaduct
