// Any bytes as a chat template: refused, or rendered within small limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "template/chat_template.h"
#include "template/template_error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  static const TemplateVariables kVariables = [] {
    TemplateVariables variables;
    for (const char* name : {"messages", "tools"}) {
      variables.set(name, TemplateValue::from_json(
                              R"([{"role": "user", "content": "a \u00e9 b"},
                                  {"role": "assistant", "content": [{"type": "text", "text": "x"}],
                                   "tool_calls": [{"function": {"name": "f", "arguments": {"n": 1.5}}}]}])",
                              "messages"));
    }
    variables.set("bos_token", "<s>");
    variables.set("add_generation_prompt", true);
    variables.clock = TemplateClock{2026, 2, 3, 4, 5, 6, 7};
    return variables;
  }();
  const TemplateLimits limits{.steps = 20'000, .made_bytes = 1 << 24, .output_bytes = 1 << 20};
  try {
    ChatTemplate::parse(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz")
        .render(kVariables, limits);
  } catch (const TemplateError&) {
    // Refused with a message, as expected.
  }
  return 0;
}
