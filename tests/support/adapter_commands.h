#pragma once
// Commands on a small golden model and an adapter of PEFT's for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/command.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct::test {

class AdapterCommands : public testing::Test {
 protected:
  using Result = CommandResult;
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  static std::string model() { return test_data("golden/llama/model").string(); }
  static std::string adapter() { return test_data("golden/lora_llama/adapter").string(); }
  Result train(const std::string& arguments) {
    return run_viaduct("train checkpoint.pretrained_checkpoint=" + model() +
                       " dataset.mock=true model.seq_length=32 train.global_batch_size=2 "
                       "train.micro_batch_size=2 optimizer.lr=1e-2 scheduler.lr_warmup_iters=0 "
                       "dist.threads_per_rank=1 validation.eval_iters=0 " +
                       arguments);
  }
  static void expect_refused(const Result& result, const std::string& text) {
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr(text));
  }

  TemporaryFolder folder_;
};

}  // namespace viaduct::test
