#pragma once
// "Did you mean …": the known name nearest to a misspelt one.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// The candidate with the smallest Damerau–Levenshtein distance (adjacent transpositions count one;
/// case ignored), if it is near enough to be a likely misspelling (at most a third of the longer
/// name, at least 1).
std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& candidates);

}  // namespace viaduct
