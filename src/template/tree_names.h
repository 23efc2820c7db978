#pragma once
// Which names a body reads.

#include <string_view>

#include "template/syntax_tree.h"

namespace viaduct::jinja {

/// Whether any expression of the body reads the name.
bool body_uses(const Body& body, std::string_view name);

}  // namespace viaduct::jinja
