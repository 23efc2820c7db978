#pragma once
// What the text behind `section.field=` means.
//
// A field of type string takes the text to the letter, with no need for YAML's quotes: `#`, `&`,
// `!`, `:`, spaces and line breaks are characters like others. Exceptions, in this order:
//  - `null`, `None`, `~` or nothing is null where the field takes null, `auto` where it takes auto;
//  - a text that begins with `[` is a list in YAML's flow style where the field takes a list;
//  - a text that is as a whole one string in YAML's quotes, "…" or '…', is what stands inside
//    them: so "null" in quotes is a name, and "\n" a line break.
// All other fields take YAML's flow style on one line, without anchors, tags and comments: those
// would vanish without a word.

#include <string>

#include "config/field.h"

namespace viaduct {

/// The value that `text` gives to `field` (null: the field is unknown, or a section is meant).
/// `origin` names the override in messages. ConfigError for bad YAML.
Value value_of_override(const Field* field, const std::string& text, const std::string& origin);

}  // namespace viaduct
