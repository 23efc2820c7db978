#pragma once
// Numbers and quoted texts in a template, as Python writes them.

#include <string>

#include "template/template_value.h"

namespace viaduct::jinja {

/// The integer or float that begins at `at`, which moves behind it. TemplateFault beyond 64 bits.
TemplateValue read_number(const std::string& text, size_t& at);
/// The text whose quote is at `at`, without quotes and escapes. TemplateFault without an end.
std::string read_quoted_text(const std::string& text, size_t& at);

}  // namespace viaduct::jinja
