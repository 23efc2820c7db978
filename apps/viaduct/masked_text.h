#pragma once
// Rows of conversations for people: their text, with what is learned in colour, or in brackets
// where the output is no terminal.

#include <cstdint>
#include <span>
#include <string>

#include "data/tokenizer/tokenizer.h"

namespace viaduct::cli {

/// Whether a standard stream, by its descriptor, shows colours: a terminal, unless NO_COLOR is set.
bool shows_colours(int descriptor);

/// The text of `ids`; `mask` has 1 for each that is learned. Control characters that would move the
/// cursor are shown as U+FFFD. `shortened`: some 40 lines or 2,000 characters of it, then "…".
std::string masked_text(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                        std::span<const uint8_t> mask, bool colours, bool shortened = false);

}  // namespace viaduct::cli
