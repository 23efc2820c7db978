// Every recipe of configs/finetune trains, on a tiny model: two steps on made-up rows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/command.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

TEST(FinetuneRecipes, EachTrainsATinyModel) {
  int recipes = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_folder() / "configs/finetune")) {
    const test::TemporaryFolder folder;
    const auto result = test::run_viaduct(
        "train " + entry.path().string() +
        " checkpoint.pretrained_checkpoint=" + test::test_data("golden/llama/model").string() +
        " checkpoint.save=" + (folder / "run").string() +
        " dataset.mock=true model.seq_length=32 dataset.packed_sequence_size=null "
        "train.train_iters=2 scheduler.lr_warmup_iters=1 validation.eval_iters=0 "
        "dist.threads_per_rank=1");
    EXPECT_EQ(result.status, 0) << entry.path() << "\n" << result.err;
    const bool adapters = entry.path().stem() != "short_answers";
    EXPECT_EQ(std::filesystem::exists(folder / "run/step_00000002/adapter_config.json"), adapters)
        << entry.path();
    ++recipes;
  }
  EXPECT_GE(recipes, 4);
}

}  // namespace
}  // namespace viaduct
