#pragma once
// Ranks and scales of single layers (peft.rank_pattern, alpha_pattern): whether each pattern acts.

#include <string>
#include <utility>
#include <vector>

namespace viaduct {

/// ConfigError for a pattern that no adapted module takes its number from: one that matches none,
/// with the nearest names, or only modules that an earlier pattern matches, with the first of
/// these. `field`: "peft.rank_pattern"; `modules`: names of the adapted modules.
void check_patterns_act(const std::vector<std::pair<std::string, double>>& patterns,
                        const std::vector<std::string>& modules, const std::string& field);

}  // namespace viaduct
