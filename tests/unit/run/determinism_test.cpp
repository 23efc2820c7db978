// model.deterministic_mode: what NCCL is told, and which variables contradict.

#include "run/determinism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The process has these variables of NCCL alone.
class Determinism : public testing::Test {
 protected:
  Determinism() { clear(); }
  ~Determinism() override { clear(); }
  static void clear() {
    for (const char* name : {"NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_ALGO"})
      ::unsetenv(name);
  }
  static std::vector<std::string> problems_with(const char* name, const char* value) {
    clear();
    ::setenv(name, value, 1);
    Problems problems;
    set_deterministic(problems);
    return problems.all();
  }
};

TEST_F(Determinism, SetsWhatIsNotSet) {
  ::setenv("NCCL_ALGO", "Ring", 1);
  Problems problems;
  EXPECT_THAT(set_deterministic(problems),
              ElementsAre("NCCL_NVLS_ENABLE=0 is set for this run (model.deterministic_mode)",
                          "NCCL_COLLNET_ENABLE=0 is set for this run (model.deterministic_mode)"));
  EXPECT_TRUE(problems.empty());
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Ring");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  clear();
  set_deterministic(problems);
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "^NVLS,NVLSTree");
  EXPECT_THAT(set_deterministic(problems), IsEmpty()) << "all are set";
  EXPECT_TRUE(problems.empty());
}

TEST_F(Determinism, RefusesWhatContradicts) {
  EXPECT_THAT(problems_with("NCCL_NVLS_ENABLE", "2"),
              ElementsAre(HasSubstr("NCCL_NVLS_ENABLE=2 (of the environment or env_vars)")));
  EXPECT_THAT(problems_with("NCCL_COLLNET_ENABLE", "1"), ElementsAre(HasSubstr("expected 0")));
  EXPECT_THAT(problems_with("NCCL_ALGO", "NVLSTree"),
              ElementsAre(HasSubstr("expected ^NVLS,NVLSTree")));
  EXPECT_THAT(problems_with("NCCL_ALGO", "^NVLS"), IsEmpty());
}

TEST_F(Determinism, AlgorithmsOfSwitches) {
  for (const char* with : {"NVLS", "ring,nvls", "CollnetDirect", "Tree,CollNetChain",
                           "allreduce:tree,NVLSTree;broadcast:ring", "broadcast:ring;nvls"})
    EXPECT_TRUE(sums_in_switches(with)) << with;
  for (const char* without : {"", "Ring", "Tree,Ring,PAT", "^NVLS", "^NVLS,NVLSTree",
                              "^CollnetChain", "allreduce:tree;reducescatter:^nvls"})
    EXPECT_FALSE(sums_in_switches(without)) << without;
}

}  // namespace
}  // namespace viaduct
