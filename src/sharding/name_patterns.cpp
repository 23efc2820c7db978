#include "sharding/name_patterns.h"

#include <fnmatch.h>

#include <algorithm>

namespace viaduct {

bool name_fits(const std::string& pattern, const Parameter& parameter) {
  const auto fits = [&](const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  };
  return pattern == "all" || fits(parameter.path) ||
         std::any_of(parameter.parts.begin(), parameter.parts.end(),
                     [&](const Part& part) { return fits(part.name); });
}

bool any_fits(const std::vector<std::string>& patterns, const Parameter& parameter) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return name_fits(pattern, parameter); });
}

}  // namespace viaduct
