#pragma once
// Selection of parameters by name patterns.

#include <string>
#include <vector>

#include "nn/parameter.h"

namespace viaduct {

/// Whether the glob `pattern` (`*`, `?`, `[…]`; `*` also matches dots) matches the path of a
/// parameter or the Hugging Face name of one of its parts; `all` matches every parameter.
bool name_fits(const std::string& pattern, const Parameter& parameter);
bool any_fits(const std::vector<std::string>& patterns, const Parameter& parameter);

}  // namespace viaduct
