#pragma once
// Text inside HTML and SVG.

#include <string>
#include <string_view>

namespace viaduct {

/// The text with the characters that markup gives a meaning (& < > " ') as references, and control
/// characters, which no document may have, as U+FFFD.
std::string escaped_markup(std::string_view text);

}  // namespace viaduct
