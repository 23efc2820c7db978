#pragma once
// Signs and escapes of patterns that stand for whole expressions: ends of lines and words, \R.

#include <optional>

#include "data/tokenizer/regex_tree.h"

namespace viaduct {

/// "^": the begin of a line. Behind a line end that ends the text there is no line.
RegexNode line_begin();
/// "$": the end of a line.
RegexNode line_end();
/// ".", which takes line ends as well or not.
RegexNode any_character(bool takes_lines);

/// What the escape of a letter stands for: \N, \O, \R, \A, \z, \Z, \b, \B, \K. Nothing for other
/// letters.
std::optional<RegexNode> shorthand_of(char32_t letter);

}  // namespace viaduct
