// What one rendering tells about the texts of the first messages is what rendering them gives.

#include <gmock/gmock.h>

#include "template/chat_template.h"
#include "template/template_error.h"

namespace viaduct {
namespace {

const char* const kMessages = R"([
  {"role": "system", "content": "S"}, {"role": "user", "content": "a"},
  {"role": "assistant", "content": "b", "thinking": "t"}, {"role": "user", "content": "c"},
  {"role": "tool", "content": "d"}, {"role": "assistant", "content": "e"}])";

struct Case {
  const char* text;
  bool known;  // whether any prefix is
};

const Case kCases[] = {
    {"{{ b }}{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}{% if "
     "add_generation_prompt %}<assistant>{% endif %}!",
     true},
    {"{% set all = messages %}{% for m in all %}{% if loop.first and all[0].role == 'system' "
     "%}*{% endif %}{{ loop.index }}{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% "
     "endif %}",
     true},
    {"{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{{ "
     "messages[0]['content'] }}{% else %}{% set rest = messages %}{% endif %}{% for m in rest "
     "%}{{ m.content }}{% endfor %}{{ messages[-1].role }}{% if add_generation_prompt %}>{% "
     "endif %}",
     true},
    {"{% set ns = namespace(n=0, last='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if "
     "loop.index0 > 0 and messages[loop.index0 - 1].role == 'user' %}~{% endif %}{{ ns.n }}{{ "
     "m.content }}{% set ns.last = m.role %}{% endfor %}{{ ns.n }}{{ ns.last }}{% if "
     "add_generation_prompt %}>{% endif %}",
     true},
    {"{% if add_generation_prompt is not defined %}{% set add_generation_prompt = true %}{% endif "
     "%}{% macro end() %}{% if add_generation_prompt %}>{% endif %}{{ messages|length }}{% "
     "endmacro %}{% for m in messages %}{{ m.content }}{% endfor %}{{ end() }}",
     true},
    {"{% for m in messages %}{% if m.thinking and not loop.last %}-{% endif %}{{ m.content }}{% "
     "endfor %}",
     true},  // up to the thought
    {"{% for m in messages %}{{ m.content }}{% if m.role == 'user' %}{% break %}{% endif %}{% "
     "endfor %}.",
     true},
    {"{% for m in messages %}{{ m.content }}{% else %}none{% endfor %}.", true},
    {"{% for m in messages[2:] %}{{ m.content }}{% endfor %}{% for m in messages %}{{ m.role }}{% "
     "endfor %}.",
     true},
    {"{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}", false},
    {"{% for m in messages %}{{ m.content }}{% if loop.last and add_generation_prompt %}>{% endif "
     "%}{% endfor %}",
     true},  // of no messages
    {"{% for m in messages[::-1] %}{{ m.content }}{% endfor %}", false},
    {"{% for m in messages|list %}{{ m.content }}{% endfor %}", false},
    {"{% for m in messages if m.role != 'tool' %}{{ m.content }}{% endfor %}", false},
    {"{% for m in messages %}{% if messages[loop.index0 + 1] is defined and messages[loop.index0 "
     "+ 1].role == 'tool' %}T{% endif %}{{ m.content }}{% endfor %}",
     true},  // of no messages
    {"{% set ns = namespace(x=1) %}{% for m in messages %}{{ m.content }}{{ ns.x }}{% endfor %}{% "
     "set ns.x = 2 %}{{ ns.x }}",
     false},
    {"{% set g = 'ab'|map('upper') %}{% for m in messages %}{{ m.content }}{% endfor %}{{ "
     "g|join('-') }}",
     false},
    {"{% set add_generation_prompt = true %}{% for m in messages %}{{ m.content }}{% endfor %}{% "
     "if add_generation_prompt %}>{% endif %}",
     false},
    {"{% for m in messages %}{{ m.content }}{{ loop.previtem.role if not loop.first }}{{ "
     "loop.changed(m.role) }}{% endfor %}",
     true},
    {"{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}{% "
     "generation %}x{% endgeneration %}",
     true},
};

TemplateVariables variables_of(size_t count, bool add_generation_prompt) {
  const TemplateValue all = TemplateValue::from_json(kMessages, "messages");
  const auto& items = all.as_list().items;
  TemplateVariables variables;
  variables.set("b", "B");
  variables.set("messages",
                TemplateValue::list({items.begin(), items.begin() + static_cast<long>(count)}));
  variables.set("add_generation_prompt", add_generation_prompt);
  return variables;
}

TEST(RenderedPrefixes, AreWhatTheFirstMessagesGive) {
  constexpr size_t kCount = 6;
  for (const auto& [text, known] : kCases) {
    const ChatTemplate parsed = ChatTemplate::parse(text, "x");
    const RenderedPrefixes rendered = parsed.render_prefixes(variables_of(kCount, false));
    const RenderedTemplate whole = parsed.render(variables_of(kCount, false));
    EXPECT_EQ(rendered.whole.text, whole.text) << text;
    EXPECT_EQ(rendered.whole.generations, whole.generations) << text;
    EXPECT_EQ(!rendered.prefixes.empty(), known) << text;
    for (const auto& [count, prefix] : rendered.prefixes) {
      const std::string shared = whole.text.substr(0, prefix.shared);
      EXPECT_EQ(shared + prefix.plain, parsed.render(variables_of(count, false)).text)
          << count << " of " << text;
      EXPECT_EQ(shared + prefix.prompt, parsed.render(variables_of(count, true)).text)
          << count << " of " << text;
    }
  }
}

TEST(RenderedPrefixes, OfAPlainLoopAreAllKnown) {
  const RenderedPrefixes rendered =
      ChatTemplate::parse(kCases[0].text, "x").render_prefixes(variables_of(6, false));
  EXPECT_EQ(rendered.prefixes.size(), 7u);
}

TEST(RenderedPrefixes, KeepErrorsAndTheirPlaces) {
  const auto error_of = [](const char* text) {
    try {
      ChatTemplate::parse(text, "x").render_prefixes(variables_of(6, false));
    } catch (const TemplateError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(error_of("{% for m in messages %}\n{{ m.content + 1 }}{% endfor %}"),
              testing::HasSubstr("line 2"));
  // Only with a prompt, which the whole text has not.
  EXPECT_EQ(error_of("{% for m in messages %}{{ m.content }}{% endfor %}{% if "
                     "add_generation_prompt %}{{ raise_exception('no') }}{% endif %}"),
            "none");
}

}  // namespace
}  // namespace viaduct
