// Adapters on a GGUF file whose blocks stay as they are: a step has the bits of one on the matrices
// that they stand for, and memory is what the dry run says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "run/grown_vocabulary.h"
#include "support/engine_on_blanks.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::EngineOnBlanks;
using test::Overrides;
using test::operator+;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class GgufBase : public testing::TestWithParam<ExportFormat> {
 protected:
  GgufBase() {
    const ModelFolder from = resolve_model_folder(test::test_data("golden/llama/model"));
    write_gguf(file_, "name", read_model_config(from), *open_weights(from), {}, GetParam());
  }
  Overrides run_of(const Overrides& more) const {
    return Overrides{"checkpoint.pretrained_checkpoint=" + file_.string(),
                     "dataset.mock=true",
                     "model.seq_length=32",
                     "train.global_batch_size=2",
                     "train.micro_batch_size=2",
                     "train.train_iters=3",
                     "dist.threads_per_rank=1",
                     "mixed_precision=bf16_mixed",
                     "peft.scheme=lora",
                     "peft.dim=4"} +
           more;
  }
  static void load(EngineOnBlanks& run) {
    OpContext context = run.engine.context(false, false).ops;
    load_parameters(context, run.engine.store(), *open_pretrained(run.setup), run.setup.model);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "m.gguf";
};

TEST_P(GgufBase, TrainsAsOnTheMatricesThatItStandsFor) {
  EngineOnBlanks blocks(run_of({})), plain(run_of({"peft.base_format=bf16"}));
  load(blocks), load(plain);
  EXPECT_THAT(blocks.setup.notes, Contains(HasSubstr("stay in the blocks of " + file_.string())));
  int stored = 0;
  for (const Parameter* parameter : blocks.engine.store().parameters())
    stored += parameter->stored == BaseFormat::blocks ? 1 : 0;
  EXPECT_EQ(stored, 4 * 3);  // down has 176 input features: no whole blocks
  EXPECT_LT(blocks.bytes(MemoryTag::weights), plain.bytes(MemoryTag::weights));
  const auto before = blocks.weights(true);
  blocks.steps(3), plain.steps(3);
  EXPECT_EQ(blocks.weights(true), plain.weights(true));
  EXPECT_NE(blocks.weights(true), before);
  EXPECT_EQ(dry_run(blocks.setup).peak.bytes, blocks.rank.device->memory().peak_bytes);
}

TEST_P(GgufBase, LayersBesideGrownTablesKeepTheirBlocks) {
  const Overrides grown{"model.vocab_size=530"};  // of 512
  EngineOnBlanks blocks(run_of(grown)), plain(run_of(grown + Overrides{"peft.base_format=bf16"}));
  load(blocks), load(plain);
  EXPECT_THAT(blocks.setup.notes, Contains(HasSubstr("18 new rows")));
  EXPECT_THAT(blocks.setup.notes, Contains(HasSubstr("not in the file's blocks")));
  EXPECT_THAT(plain.setup.notes, Not(Contains(HasSubstr("not in the file's blocks"))));
  EXPECT_LT(blocks.bytes(MemoryTag::weights), plain.bytes(MemoryTag::weights));
  blocks.steps(2), plain.steps(2);
  EXPECT_EQ(blocks.weights(true), plain.weights(true));
}

TEST_P(GgufBase, WhatCannotStaySaysWhy) {
  // Half a head's features of o are no whole blocks.
  const Overrides four{"dist.ranks=4", "model.tensor_model_parallel_size=4",
                       "model.sequence_parallel=false"};
  EXPECT_THAT(test::setup_of(run_of(four)).notes,
              Contains(HasSubstr("are expanded to the recipe's format")));
  EXPECT_THAT([&] { test::setup_of(run_of(four + Overrides{"peft.base_format=blocks"})); },
              ThrowsMessage<ConfigError>(HasSubstr("nearest degree that works: 2")));
  const std::string folder = test::test_data("golden/llama/model").string();
  EXPECT_THAT(
      [&] {
        test::setup_of(
            run_of({"checkpoint.pretrained_checkpoint=" + folder, "peft.base_format=blocks"}));
      },
      ThrowsMessage<ConfigError>(HasSubstr("blocks are those of a quantized GGUF file")));
  // Forwards alone are faster without.
  EXPECT_THAT(test::setup_of(run_of({"train.skip_train=true"})).notes,
              Not(Contains(HasSubstr("stay in the blocks"))));
}

INSTANTIATE_TEST_SUITE_P(Formats, GgufBase, testing::Values(ExportFormat::q8_0, ExportFormat::q4_0),
                         [](const auto& info) {
                           return std::string(export_format_name(info.param));
                         });

}  // namespace
}  // namespace viaduct
