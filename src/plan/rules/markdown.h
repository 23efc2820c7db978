#pragma once
// The page docs/guide-rules.md.

#include <string>

namespace viaduct::rules {

std::string rules_markdown();

/// "plan", "plan, run" …
std::string when_text(unsigned when);

}  // namespace viaduct::rules
