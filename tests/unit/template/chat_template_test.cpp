// Errors with their place, limits, and what a template may not do.

#include "template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "template/template_error.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

std::string render(const std::string& text, const TemplateLimits& limits = {}) {
  TemplateVariables variables;
  variables.set("messages",
                TemplateValue::from_json(R"([{"role": "user", "content": "Hi"}])", "x"));
  return ChatTemplate::parse(text, "chat.jinja").render(variables, limits).text;
}

std::string error_of(const std::string& text, const TemplateLimits& limits = {}) {
  try {
    return "no error, but: " + render(text, limits);
  } catch (const TemplateError& error) {
    return error.what();
  }
}

TEST(ChatTemplate, ErrorsOfSyntaxHaveTheirPlace) {
  EXPECT_THAT(error_of("a\nb {% unknwn %}"),
              HasSubstr("chat.jinja, line 2, column 6: unknown tag \"unknwn\""));
  EXPECT_THAT(error_of("{% if a %}\n"),
              HasSubstr("expected {% endif %}, found the end of the template"));
  EXPECT_THAT(error_of("é {{ 'x }}"), HasSubstr("line 1, column 6: a text without its end"));
  EXPECT_THAT(error_of("{% fro x in y %}{% endfor %}"), HasSubstr("did you mean \"for\"?"));
  EXPECT_THAT(error_of("{{ (1 + }}"), HasSubstr("line 1, column 9: expected \")\""));
}

TEST(ChatTemplate, ErrorsOfRenderingHaveTheirPlace) {
  EXPECT_THAT(
      error_of("x\n{{ messages[0].content + 1 }}"),
      HasSubstr("chat.jinja, line 2, column 24: unsupported operand types for +: 'str' and 'int'"));
  EXPECT_THAT(error_of("{{ nobody.name }}"), HasSubstr("'nobody' is undefined"));
  EXPECT_THAT(error_of("{% for x in none %}{% endfor %}"), HasSubstr("'NoneType' is not iterable"));
  EXPECT_THAT(error_of("{{ 1|uper }}"),
              HasSubstr("no filter is named \"uper\"; did you mean \"upper\"?"));
  EXPECT_THAT(error_of("{{ raise_exception('only ' ~ 2) }}"),
              HasSubstr("the template refuses: only 2"));
  EXPECT_THAT(error_of("{{ strftime_now('%Y') }}"), HasSubstr("no time was given"));
  EXPECT_THAT(error_of("{{ messages.append(1) }}"), HasSubstr("'append' would change a list"));
}

TEST(ChatTemplate, TextsMayBeAsLongAsWhatTheyAreMadeOf) {
  const TemplateLimits few{.small_bytes = 1 << 10};
  const ChatTemplate twice = ChatTemplate::parse("{{ given ~ given }}{{ given|list|length }}", "x");
  TemplateVariables variables;
  variables.set("given", std::string(5000, 'a'));
  EXPECT_EQ(twice.render(variables, few).text.size(), 10'004u);
  EXPECT_THAT(error_of("{{ 'x' * 99999 }}", few), HasSubstr("a text of more than"));
}

TEST(ChatTemplate, EndsWhereATemplateWouldNotEnd) {
  const TemplateLimits few{.steps = 100'000, .output_bytes = 1 << 20};
  EXPECT_THAT(
      error_of("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", few),
      HasSubstr("more than 100000 steps"));
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("calls itself"));
  EXPECT_THAT(error_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
              HasSubstr("calls itself"));
  EXPECT_THAT(error_of("{% set n = namespace(x='ab') %}{% for i in range(60) %}"
                       "{% set n.x = n.x + n.x %}{% endfor %}"),
              HasSubstr("a text of more than 16777216 bytes"));
  EXPECT_THAT(error_of("{% set n = namespace(x=[1]) %}{% for i in range(60) %}"
                       "{% set n.x = n.x + n.x %}{% endfor %}"),
              HasSubstr("a value of more than 16777216 bytes"));
  EXPECT_THAT(error_of("{{ range(100001) }}"), HasSubstr("more than 100000 items"));
  EXPECT_THAT(error_of("{{ 'x' * 99999999999 }}"), HasSubstr("a text of more than"));
  EXPECT_THAT(error_of("{{ [1] * 99999999 * 99 }}"), HasSubstr("more than"));
  EXPECT_THAT(error_of("{{ '%999999999s' % 1 }}"), HasSubstr("a text of more than"));
  EXPECT_THAT(error_of("{% set n = namespace(x='abcdefgh') %}{% for i in range(99) %}"
                       "{% set n.x = n.x ~ n.x %}{% endfor %}",
                       few),
              HasSubstr("a text of more than"));
  EXPECT_THAT(error_of("{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] "
                       "%}{% endfor %}"),
              HasSubstr("nested deeper than 200 levels"));
  // Forty levels that share their parts would print 2^40 items.
  EXPECT_THAT(error_of("{% set n = namespace(x=[1]) %}{% for i in range(40) %}{% set n.x = [n.x, "
                       "n.x] %}{% endfor %}{{ n.x }}",
                       few),
              HasSubstr("steps"));
}

TEST(ChatTemplate, DeepSyntaxIsRefusedAndNotFollowed) {
  EXPECT_THAT(error_of("{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}"),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of("{{ " + std::string(100'000, '-') + "1 }}"), HasSubstr("nested too deeply"));
  std::string ifs;
  for (int i = 0; i < 10'000; ++i) ifs += "{% if 1 %}";
  EXPECT_THAT(error_of(ifs), HasSubstr("nested too deeply"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 100'000; ++i) sum += " + 1";
  EXPECT_THAT(error_of(sum + " }}"), HasSubstr("deep"));
}

TEST(ChatTemplate, CircularNamespacesAndMacrosAreFreed) {
  EXPECT_EQ(
      render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
             "{% macro m() %}{{ m is defined }}{% endmacro %}{% set a.m = m %}{{ a.b.a.m() }}"),
      "True");
}

TEST(ChatTemplate, KnowsItsNames) {
  const auto parsed = ChatTemplate::parse(
      "{% for m in messages %}{% generation %}{{ m.x }}{% endgeneration %}{% endfor %}", "t");
  EXPECT_TRUE(parsed.has_generation());
  EXPECT_TRUE(parsed.reads("messages"));
  EXPECT_FALSE(parsed.reads("tools"));
  EXPECT_FALSE(ChatTemplate::parse("{{ 1 }}", "t").has_generation());
}

TEST(TemplateValue, JsonKeepsItsOrderAndTypes) {
  TemplateVariables variables;
  variables.set("v",
                TemplateValue::from_json(R"({"z": 1, "a": [1.0, true, null, "é"], "m": {}})", "x"));
  EXPECT_EQ(
      ChatTemplate::parse("{{ v }}{{ v|tojson }}", "t").render(variables).text,
      R"({'z': 1, 'a': [1.0, True, None, 'é'], 'm': {}}{"z": 1, "a": [1.0, true, null, "é"], "m": {}})");
  EXPECT_THROW(TemplateValue::from_json("{", "x"), IoError);
}

}  // namespace
}  // namespace viaduct
