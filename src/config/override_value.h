#pragma once
// The meaning of the text after `section.field=`.
//
// A field of type string takes the text literally, without YAML's quotes: `#`, `&`, `!`, `:`,
// spaces and line breaks are ordinary characters. Exceptions, in this order:
// - `null`, `None`, `~` or the empty text is null if the field takes null, `auto` if it takes auto;
// - a text that begins with `[` is a list in YAML's flow style if the field takes a list;
// - a text that is one whole quoted YAML string, "…" or '…', is the string inside: so "null" in
//   quotes is a name, and "
// " a line break.
// All other fields take YAML's flow style on one line. Anchors, tags and comments are refused: YAML
// would drop them silently.

#include <string>

#include "config/field.h"

namespace viaduct {

/// The value that `text` gives to `field` (null: the field is unknown, or the name is a section).
/// `origin` names the override in messages. ConfigError for bad YAML.
Value value_of_override(const Field* field, const std::string& text, const std::string& origin);

}  // namespace viaduct
