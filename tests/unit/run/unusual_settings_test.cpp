#include "run/unusual_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/training.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace test;

std::vector<std::string> said(const Overrides& overrides) {
  return setup_of(tiny_run() + overrides).warnings;
}

TEST(UnusualSettings, AreSaidAndUsualOnesAreNot) {
  EXPECT_THAT(said({"scheduler.lr_warmup_iters=0"}), IsEmpty());
  EXPECT_THAT(
      said({"scheduler.lr_warmup_iters=0", "optimizer.lr=2"}),
      ElementsAre(HasSubstr("optimizer.lr = 2: adam moves each weight by about this much")));
  EXPECT_THAT(said({"scheduler.lr_warmup_iters=0", "optimizer.optimizer=sgd", "optimizer.lr=0.5"}),
              IsEmpty());
  EXPECT_THAT(said({"scheduler.lr_warmup_iters=0", "optimizer.optimizer=sgd", "optimizer.lr=2"}),
              ElementsAre(HasSubstr("optimizer.lr = 2: a step this long")));
  EXPECT_THAT(
      said({"scheduler.lr_warmup_iters=0", "optimizer.lr=0.01", "optimizer.weight_decay=100"}),
      ElementsAre(HasSubstr("optimizer.weight_decay = 100")));
}

TEST(UnusualSettings, TheRateOfAdaptersIsCalledWhatItCameFrom) {
  EXPECT_THAT(said({"scheduler.lr_warmup_iters=0", "peft.scheme=lora", "peft.dim=2",
                    "optimizer.lr=0.05", "peft.lora_plus_ratio=16"}),
              ElementsAre(HasSubstr("random weights"),
                          HasSubstr("peft.lora_plus_ratio · optimizer.lr = 0.8: adam moves")));
}

}  // namespace
}  // namespace viaduct
