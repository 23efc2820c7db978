#include "data/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "data/tokenizer/regex_tree.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> pieces_of(const PreTokenizer& pre_tokenizer, std::string_view text) {
  RegexScratch scratch;
  std::vector<std::string> pieces;
  pre_tokenizer.split(text, {.at_start = true}, scratch,
                      [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::vector<std::string> split_at_space(SplitBehavior behavior, bool invert) {
  PreTokenizer made;
  made.add({Regex(R"(\s)"), behavior, invert});
  return pieces_of(made, "the  sea\n ate  it");
}

// The expected pieces are those of Hugging Face's tokenizers 0.23.3.
TEST(PreTokenizer, SplitsAsEachBehaviorSays) {
  using enum SplitBehavior;
  EXPECT_THAT(split_at_space(removed, false), ElementsAre("the", "sea", "ate", "it"));
  EXPECT_THAT(split_at_space(removed, true), ElementsAre(" ", " ", "\n", " ", " ", " "));
  for (const bool invert : {false, true}) {
    EXPECT_THAT(split_at_space(isolated, invert),
                ElementsAre("the", " ", " ", "sea", "\n", " ", "ate", " ", " ", "it"));
    EXPECT_THAT(split_at_space(contiguous, invert),
                ElementsAre("the", "  ", "sea", "\n ", "ate", "  ", "it"));
  }
  EXPECT_THAT(split_at_space(merged_with_previous, false),
              ElementsAre("the ", " ", "sea\n", " ", "ate ", " ", "it"));
  EXPECT_THAT(split_at_space(merged_with_previous, true),
              ElementsAre("the", " ", " sea", "\n", " ate", " ", " it"));
  EXPECT_THAT(split_at_space(merged_with_next, false),
              ElementsAre("the", " ", " sea", "\n", " ate", " ", " it"));
  EXPECT_THAT(split_at_space(merged_with_next, true),
              ElementsAre("the ", " ", "sea\n", " ", "ate ", " ", "it"));
}

TEST(PreTokenizer, AppliesStepsToThePiecesOfTheStepBefore) {
  PreTokenizer made;
  made.add({Regex("b"), SplitBehavior::removed});
  made.add_prefix_space();
  made.add({Regex(gpt2_pattern())});
  EXPECT_THAT(pieces_of(made, "x1b y"), ElementsAre(" x", "1", " y"));
  EXPECT_THAT(pieces_of(made, ""), IsEmpty());
}

TEST(PreTokenizer, GoesOnAfterEmptyMatches) {
  PreTokenizer made;
  made.add({Regex("x*")});
  EXPECT_THAT(pieces_of(made, "\u00e9xx\u00e9"), ElementsAre("\u00e9", "xx", "\u00e9"));
}

TEST(PreTokenizer, TakesNoMoreStepsThanItCanNest) {
  PreTokenizer made;
  for (int i = 0; i < 32; ++i) made.add({Regex("a")});
  EXPECT_THROW(made.add({Regex("a")}), ConfigError);
}

TEST(Regex, ClassesFollowUnicode) {
  RegexScratch scratch;
  const Regex space(R"(^\s$)"), no_space(R"(^[^\s]$)"), word(R"(^\w+$)"), not_space(R"(^[\S]$)");
  for (const char* text : {" ", "\n", "\u0085", "\u00a0", "\u2003", "\u3000"}) {
    EXPECT_TRUE(space.find(text, 0, scratch)) << text;
    EXPECT_FALSE(no_space.find(text, 0, scratch)) << text;
    EXPECT_FALSE(not_space.find(text, 0, scratch)) << text;
  }
  for (const char* text : {"x", "\u180e", "\u200b", "\u4f60", "\U0001F600"}) {
    EXPECT_FALSE(space.find(text, 0, scratch)) << text;
    EXPECT_TRUE(not_space.find(text, 0, scratch)) << text;
  }
  EXPECT_TRUE(word.find("e\u0301_\u4f60\u0664", 0, scratch));
  EXPECT_FALSE(word.find("a-b", 0, scratch));
}

TEST(Regex, LiteralsMatchThemselves) {
  RegexScratch scratch;
  const auto match = Regex::from_literal("a.[b\\ \u00e9]").find("xa.[b\\ \u00e9]", 0, scratch);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->begin, 1u);
  EXPECT_EQ(match->end, 10u);
  EXPECT_FALSE(Regex::from_literal("a.c").find("abc", 0, scratch));
}

TEST(Regex, RefusesWhatItCannotCompile) {
  EXPECT_THROW(Regex("("), ConfigError);
  EXPECT_THROW(Regex(R"(\C)"), ConfigError);
  EXPECT_THROW(Regex("\xff"), ConfigError);
  EXPECT_THROW(Regex(std::string(1 << 17, 'a')), ConfigError);
}

/// What is said of a pattern; "" if it is taken.
std::string refusal(const std::string& pattern) {
  try {
    parse_regex(pattern);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// As the `tokenizers` package, whose patterns Oniguruma reads.
TEST(Regex, TakesAndRefusesWhatOnigurumaDoes) {
  for (const char* pattern : {"^*",
                              "^?a",
                              "^{0}a",
                              "$*",
                              R"(\b+a)",
                              R"(\A{2})",
                              R"(\z*)",
                              R"(\Z?)",
                              R"(\K*)",
                              "(?=a)*",
                              "(?!a){2}b",
                              "(?<!a)?b",
                              "(?:$|a)*",
                              "(?:a|(?=b))*",
                              "(?:(?:^))*",
                              "(?:(?:a|^)|b)*",
                              "(?i)^*",
                              "^(?#c)*",
                              "(?x)^ *",
                              "(?<=a(?=b))b",
                              "(?<!a(?!c))b",
                              "(?<=(?<!a)b)c",
                              "(?<!(?<=(?<!a)b)c)d",
                              R"((?<=a\z)b)",
                              R"((?<!\Z)b)",
                              "(?<!(a))b",
                              "(?<!(?<n>a))b",
                              "(?<!(?<=(a)b)c)d",
                              "(?=(?<!(?=a)b)c)c",
                              "(?<1>a)",
                              "(?'0'a)",
                              "(?<-a>a)",
                              "(?< a>a)",
                              "(?<a)b>a)",
                              "(?#a\\)b",
                              "(?i)(?#c)*"})
    EXPECT_NE(refusal(pattern), "") << pattern;
  for (const char* pattern : {"(?:^a|b)*",
                              "(^)+a",
                              "(?:(?=b)c)*",
                              "(?>$|a)*",
                              "(?<n>^|a)+",
                              "(?i:^)*",
                              "(?:)*",
                              "(|a)*",
                              "a(?#c)*",
                              "(?i)a(?#c)*",
                              "(?ix)a *",
                              "((?:a|^)|b)*",
                              "(?:^^)*",
                              "(?:(?i)^|a)*",
                              "a**",
                              "(?<=(?<=a)b)c",
                              R"((?<=^a\b)b)",
                              "(?<!(?<!a)b)c",
                              "(?<!(?<=(?<=a)b)c)d",
                              "(?<=(a))b",
                              "(?<!(?>a))b",
                              "(?<n>x)(?<!(a))b",
                              "(?<!(a))(?<n>b)",
                              "(?=(?<=a)b)c",
                              "(?<a-b>a)",
                              "(?<_>a)",
                              "(?<\u5b571>a)",
                              "(?<\u00b2>a)",
                              R"((?#a\)b)c)"})
    EXPECT_EQ(refusal(pattern), "");
  EXPECT_THAT(refusal("ab^*c"), testing::HasSubstr("\"^*\" at character 3 repeats an anchor"));
  EXPECT_THAT(refusal("(?<=a(?=b))b"),
              testing::HasSubstr("\"(?=\" at character 6 looks ahead inside a look-behind"));
  EXPECT_THAT(refusal(R"(\x{41 42})"), testing::HasSubstr("lists characters"));
}

TEST(Regex, GivesUpInsteadOfRunningForEver) {
  RegexScratch scratch;
  EXPECT_THROW(Regex("(a|aa|a?)+$").find(std::string(64, 'a') + "b", 0, scratch), Error);
}

}  // namespace
}  // namespace viaduct
