// Regular expressions over names of modules.

#include "base/name_pattern.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

using Of = NamePattern::Of;

const std::string kName = "model.layers.10.mlp.up_proj";

bool matches(const std::string& text, Of of) {
  return NamePattern::read(text, of).value().matches(kName);
}

TEST(NamePattern, IsOfTheWholeNameOrOfItsLastParts) {
  for (const char* text : {"model.layers.10.mlp.up_proj", "model\\.layers\\.[0-9]+\\.mlp\\..*"}) {
    EXPECT_TRUE(matches(text, Of::whole)) << text;
    EXPECT_TRUE(matches(text, Of::end)) << text;
  }
  for (const char* text : {"up_proj", "mlp.up_proj", "mlp.up.proj", "10\\.mlp\\.(up|down)_proj"}) {
    EXPECT_FALSE(matches(text, Of::whole)) << text;
    EXPECT_TRUE(matches(text, Of::end)) << text;
  }
  for (const char* text : {"proj", "p.up_proj", "0.mlp.up_proj", "down_proj", "0\\.mlp\\.up_proj",
                           "", "a.model.layers.10.mlp.up_proj"})
    EXPECT_FALSE(matches(text, Of::end)) << text;
}

TEST(NamePattern, LastGroup) {
  const auto group = [](const char* text) {
    return NamePattern::read(text, Of::whole).value().last_group(kName);
  };
  EXPECT_EQ(group(".*\\.(layers|h)\\.([0-9]+)\\..*"), "10");
  EXPECT_EQ(group(".*up_proj|(x)"), std::nullopt);  // the group takes no part
  EXPECT_EQ(group("(x)"), std::nullopt);
  EXPECT_EQ(group(".*"), std::nullopt);
}

// The first takes for ever where a match goes back, the second overflows the stack.
TEST(NamePattern, HostileOnesAreBounded) {
  EXPECT_FALSE(matches("(.*)*x", Of::whole));
  const std::string deep(90000, '(');
  EXPECT_FALSE(NamePattern::read(deep + std::string(90000, ')'), Of::whole));
  EXPECT_FALSE(NamePattern::read("(.{0,900}){900}", Of::whole));
  EXPECT_FALSE(NamePattern::read("(", Of::end));
}

}  // namespace
}  // namespace viaduct
