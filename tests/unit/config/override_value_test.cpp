// How the text of an override is interpreted.

#include "config/override_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

Value given(const std::string& type, const std::string& text) {
  Field field;
  field.type = type;
  return value_of_override(&field, text, "override");
}

std::string error_of(const std::string& type, const std::string& text) {
  try {
    const Value value = given(type, text);
    return "no error, but " + to_flow_yaml(value);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(OverrideValue, StringsAreTakenToTheLetter) {
  for (const std::string text :
       {"run #1", "&a",    "!t",   "*a",  "a\nb", " a ",     "a: b", "{x}",   "[x", "- a",
        "% x",    "@x",    "`x`",  "# x", "a, b", "\"a\" b", "it's", "'a'b'", "\"", "|",
        ">",      "x # y", "true", "12",  "\t",   "\"a\\\"", "---",  "? a"}) {
    for (const char* type : {"string", "string or null", "string or auto"}) {
      const Value value = given(type, text);
      EXPECT_EQ(value.kind, Value::Kind::scalar) << type << " " << text;
      EXPECT_EQ(value.scalar, text) << type;
    }
  }
}

TEST(OverrideValue, QuotesAroundTheWholeAreTakenOff) {
  EXPECT_EQ(given("string", "\"a b\"").scalar, "a b");
  EXPECT_EQ(given("string", "'it''s'").scalar, "it's");
  EXPECT_EQ(given("string", R"("a\nb \"c\" \\")").scalar, "a\nb \"c\" \\");
  EXPECT_EQ(given("string or null", "\"null\"").scalar, "null");
  EXPECT_EQ(given("string or null", "\"\"").kind, Value::Kind::scalar);
  EXPECT_THAT(error_of("string", "\"a\nb\""), HasSubstr("a line break"));
}

TEST(OverrideValue, NullAndAutoWhereTheFieldTakesThem) {
  for (const char* text : {"", "null", "None", "~"}) {
    EXPECT_TRUE(given("string or null", text).is_null()) << text;
    EXPECT_EQ(given("string", text).scalar, text);
  }
  EXPECT_TRUE(given("string or auto", "auto").is_plain("auto"));
}

TEST(OverrideValue, ListsOfStringsAreYaml) {
  const Value list = given("string or list of string", "[a, \"b c\"]");
  ASSERT_TRUE(list.is_list());
  EXPECT_EQ(list.items.back().scalar, "b c");
  EXPECT_EQ(given("string or list of string", "a, b #c").scalar, "a, b #c");
  EXPECT_TRUE(given("list of string", "[a, b]").is_list());
}

TEST(OverrideValue, WhatYamlWouldDropIsRefused) {
  for (const char* text : {"&a", "!t", "*a", "#5", "10 # 20", "!!int 3"})
    EXPECT_THAT(error_of("int or null", text), HasSubstr("would be lost")) << text;
  for (const char* text : {"[&a x, *a]", "!t [x]", "[!t]", "[x] # y", "[a #1]", "[{a: !t}]"})
    EXPECT_THAT(error_of("list of string", text), HasSubstr("would be lost")) << text;
  EXPECT_THAT(error_of("list of string", "[a\nb]"), HasSubstr("a line break"));
  EXPECT_EQ(given("list of string", "[\"a #1\", b#2]").items.back().scalar, "b#2");
}

}  // namespace
}  // namespace viaduct
