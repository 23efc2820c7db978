#pragma once
// What to do about a split that has no data.

#include <cstdint>
#include <string>

#include "data/split.h"

namespace viaduct {

/// The end of a message about a split without tokens, `range` of the `count` sequences of a data
/// set: "; expected a larger part of dataset.split, …". "" where the range is all of the data set.
std::string empty_split_advice(Split split, DocumentRange range, int64_t count);

}  // namespace viaduct
