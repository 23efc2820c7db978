#include "config/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

std::string message_of(const std::string& yaml) {
  try {
    parse_yaml(yaml, "a.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ParseYaml, KeepsKindsQuotesAndLines) {
  const Value root = parse_yaml("a: 1\nb: '1'\nc: [x, null, {d: ~}]\n", "a.yaml");
  EXPECT_TRUE(root.find("a")->is_plain("1"));
  EXPECT_FALSE(root.find("b")->is_plain("1"));
  EXPECT_EQ(root.find("c")->items.size(), 3u);
  EXPECT_TRUE(root.find("c")->items[1].is_null());
  EXPECT_EQ(root.find("c")->source.text(), "a.yaml:3");
  EXPECT_TRUE(parse_yaml("", "a.yaml").is_null());
}

TEST(ParseYaml, FlowTextReadsBackToTheSameValue) {
  for (const char* text :
       {"null", "1", "\"1\"", "[1, 2.5, [a/b, -3]]", "{a: {b: [true, \"x: y\"]}}", "\"\"",
        "\"tab\\tquote\\\"\"", "\"null\"", "[]", "{}", "\"[x]\"", "\"- x\""}) {
    const Value value = parse_yaml(text, "a");
    const Value again = parse_yaml(to_flow_yaml(value), "b");
    EXPECT_TRUE(same_value(value, again)) << text << " became " << to_flow_yaml(value);
    EXPECT_EQ(value.quoted && value.scalar == "1", again.quoted && again.scalar == "1") << text;
  }
}

TEST(ParseYaml, AliasesAreCopied) {
  const Value root = parse_yaml("a: &x [1, 2]\nb: *x\n", "a.yaml");
  EXPECT_TRUE(same_value(*root.find("a"), *root.find("b")));
}

TEST(ParseYaml, HostileTextIsRefusedWithItsPlace) {
  EXPECT_THAT(message_of("a: 1\na: 2\n"), HasSubstr("a.yaml:2: the key 'a' is given twice"));
  EXPECT_THAT(message_of("a: [1\nb: }"), HasSubstr("a.yaml:"));
  EXPECT_THAT(message_of("? [1]\n: 2\n"), HasSubstr("plain name"));
  EXPECT_THAT(message_of("a: 1\n---\nb: 2\n"), HasSubstr("more than one YAML document"));
  EXPECT_THAT(message_of(std::string(40, '[') + std::string(40, ']')), HasSubstr("deeper than"));
  EXPECT_THAT(message_of(std::string(100000, '[')), HasSubstr("a.yaml"));
  EXPECT_THAT(message_of(std::string(kMaxYamlBytes + 1, 'x')), HasSubstr("bytes of YAML"));
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &a{0} [*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1}]\n", i,
                        i - 1);
  }
  EXPECT_THAT(message_of(bomb), HasSubstr("YAML nodes"));
  std::string long_texts = "a: &a " + std::string(500000, 'x') + "\nb: [";
  for (int i = 0; i < 1000; ++i) long_texts += "*a,";
  EXPECT_THAT(message_of(long_texts + "]"), HasSubstr("YAML nodes"));
  std::string deep =
      "a0: &a0 [[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]\na1: [[[[[[[[[[[[[[[[[*a0]]]]]]]]]]]]]]]]]\n";
  EXPECT_THAT(message_of(deep), HasSubstr("deeper than"));
}

}  // namespace
}  // namespace viaduct
