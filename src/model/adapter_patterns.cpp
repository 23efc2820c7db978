#include "model/adapter_patterns.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "model/adapter_modules.h"

namespace viaduct {

void check_patterns_act(const std::vector<std::pair<std::string, double>>& patterns,
                        const std::vector<std::string>& modules, const std::string& field) {
  for (const auto& pattern : patterns) {
    std::string hidden_by;  // the pattern whose number a module takes instead
    bool acts = false;
    for (const std::string& module : modules) {
      if (pattern_number({pattern}, module, field) == nullptr) continue;
      const double* taken = pattern_number(patterns, module, field);
      const auto by =
          std::ranges::find_if(patterns, [&](const auto& p) { return &p.second == taken; });
      acts = acts || by->first == pattern.first;
      if (hidden_by.empty() && by->first != pattern.first) hidden_by = by->first;
    }
    if (acts) continue;
    VIADUCT_CHECK(ConfigError, hidden_by.empty(),
                  "{}: {} has no effect: {} stands before it and matches the same layers; put the "
                  "narrower one first",
                  field, pattern.first, hidden_by);
    const std::vector<std::string> ends = last_parts(modules);
    const auto near = nearest_name(last_part(pattern.first), ends);
    fail<ConfigError>("{}: {} matches no layer that has an adapter{} (layers: {})", field,
                      pattern.first, near ? fmt::format("; nearest: {}", *near) : "",
                      fmt::join(ends, ", "));
  }
}

}  // namespace viaduct
