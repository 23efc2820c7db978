#pragma once
// Copies between any two layouts and dtypes, for cases that the vector kernel of `copy` does not
// support.

#include "ops/elementwise.h"

namespace viaduct::cpu {

void copy_strided(ThreadPool& pool, const CopyArgs& args);

}  // namespace viaduct::cpu
