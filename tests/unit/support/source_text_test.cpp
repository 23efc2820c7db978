// Tests the source reader that the structure tests use.
#include "support/source_text.h"

#include <gmock/gmock.h>

namespace viaduct::test {
namespace {

TEST(SourceText, BlanksCommentsAndLiteralsAndKeepsLines) {
  EXPECT_EQ(without_comments_and_literals("a; // exit(1)\nb"), "a;           \nb");
  EXPECT_EQ(without_comments_and_literals("a /* x\ny */ b"), "a     \n     b");
  EXPECT_EQ(without_comments_and_literals(R"(f("a\"//b", '"', 1'000); g)"),
            R"(f("      ", ' ', 1'000); g)");
  EXPECT_EQ(without_comments_and_literals("R\"x(a\")x\"; b"), "R\"      \"; b");
}

TEST(SourceText, FindsIncludes) {
  EXPECT_THAT(
      included_names(
          "#pragma once\n#include <vector>\n  # include \"base/error.h\"  // why\nint include;\n"),
      testing::ElementsAre("<vector>", "\"base/error.h\""));
}

TEST(SourceText, FindsWordsAtTheirBeginning) {
  EXPECT_TRUE(contains_word("std::exit(1)", "exit("));
  EXPECT_FALSE(contains_word("at_exit(1)", "exit("));
  EXPECT_FALSE(contains_word("fprintf(stderr)", "printf("));
}

TEST(SourceText, ThisRepositoryIsThere) {
  EXPECT_THAT(files_below("src", {".h"}), testing::Not(testing::IsEmpty()));
}

}  // namespace
}  // namespace viaduct::test
