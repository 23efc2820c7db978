#pragma once
// Copies between any two layouts and dtypes: what the vector kernel of `copy` does not take.

#include "ops/elementwise.h"

namespace viaduct::cpu {

void copy_strided(ThreadPool& pool, const CopyArgs& args);

}  // namespace viaduct::cpu
