// The choices that `viaduct plan --vary` gives the search.

#include "plan/variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::vector<std::string>& texts) {
  try {
    variants_of(texts);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(Variants, AreAllCombinationsOfTheValues) {
  const auto all = variants_of({"a.x=1|2", "b.y=[p, q]|null"});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[0]->overrides, ElementsAre("a.x=1", "b.y=[p, q]"));
  EXPECT_THAT(all[1]->overrides, ElementsAre("a.x=1", "b.y=null"));
  EXPECT_THAT(all[3]->overrides, ElementsAre("a.x=2", "b.y=null"));
  EXPECT_EQ(all[3]->name, "a.x=2, b.y=null");
  EXPECT_TRUE(variants_of({}).empty());
}

TEST(Variants, SetsBeginWithTheConfigurationAsItIs) {
  for (const char* set : {"states", "units", "offload"}) {
    const auto all = variants_of({set});
    ASSERT_GT(all.size(), 1u) << set;
    EXPECT_TRUE(all.front()->overrides.empty());
    EXPECT_EQ(all.front()->name, "nothing varied");
    EXPECT_FALSE(all.back()->overrides.empty());
  }
}

TEST(Variants, WhatCannotBeIsAnError) {
  EXPECT_THAT(error_of({"sates"}), HasSubstr("nearest: states"));
  EXPECT_THAT(error_of({"a.x="}), HasSubstr("a value is empty"));
  EXPECT_THAT(error_of({"a.x=1||2"}), HasSubstr("a value is empty"));
  EXPECT_THAT(error_of({"a.x=1|2", "a.x=3"}), HasSubstr("a.x is also varied by another"));
  EXPECT_THAT(error_of({"a.x=1|2|3|4|5|6|7|8|9", "a.y=1|2|3|4|5|6|7|8"}),
              HasSubstr("9 × 8 combinations"));
}

}  // namespace
}  // namespace viaduct
