#pragma once
// Text of unknown origin for a terminal.

#include <string>
#include <string_view>

namespace viaduct {

/// `text` (UTF-8, whole characters) without what a terminal would obey: control characters other
/// than line breaks and tabs become ^X (escape: ^[), those of the second set (U+0080 to U+009F)
/// U+FFFD. A carriage return is left out.
std::string terminal_text(std::string_view text);

}  // namespace viaduct
