#pragma once
// The result of a search in words: what a layout's step and memory are used for, what other layouts
// lose against the best, and which ones narrowly do not fit.

#include <string>
#include <vector>

#include "plan/search.h"

namespace viaduct {

/// The parts of a step in seconds, means over the stages: "compute", "optimizer", "bubble", "host",
/// and "exposed GROUP" for each group. They add up to the step.
std::vector<std::pair<std::string, double>> step_parts(const Prediction& prediction);

/// Sentences about candidate `index`: for the best one what limits it, for the others what they
/// lose against it.
std::vector<std::string> reasons_of(const SearchResult& result, size_t index,
                                    const SearchSettings& settings);

/// A layout that does not fit although it might be the fastest.
struct NearMiss {
  Rejected rejected;
  double excess_bytes = 0;
};
/// Those with the least excess, at most `most`. Without candidates: of all that do not fit.
std::vector<NearMiss> near_misses(const SearchResult& result, size_t most = 3);

/// One sentence.
std::string text_of(const NearMiss& miss);

}  // namespace viaduct
