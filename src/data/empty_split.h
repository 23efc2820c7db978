#pragma once
// What to do about a split that has no data.

#include <cstdint>
#include <string>

#include "data/split.h"

namespace viaduct {

/// The end of a message about a split without tokens, `range` of the `count` sequences of a data
/// set: "; expected larger parts (dataset.split=90,10,0), …". "" where the range is all of it.
std::string empty_split_advice(Split split, DocumentRange range, int64_t count);

}  // namespace viaduct
