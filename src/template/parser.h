#pragma once
// Tokens to a tree, with the grammar of Jinja 3.1 and the tags of transformers (loop controls,
// generation).

#include <string>
#include <string_view>

#include "template/syntax_tree.h"

namespace viaduct::jinja {

/// TemplateError that starts with `where` for broken syntax and unknown tags.
Tree parse_template(std::string_view source, const std::string& where);

}  // namespace viaduct::jinja
