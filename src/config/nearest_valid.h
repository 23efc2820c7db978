#pragma once
// "…; nearest: 4 or 8": the valid numbers on both sides of an invalid one.

#include <cstdint>
#include <string>

#include "base/function_ref.h"

namespace viaduct {

/// The largest valid number that is at most `value` and the smallest that is at least `value`,
/// between 1 and `most`, as "4 or 8", "4", or "none". `valid` is called a few million times at
/// most.
std::string nearest_valid(int64_t value, FunctionRef<bool(int64_t)> valid,
                          int64_t most = int64_t{1} << 40);

/// The nearest multiples of `step`, and the nearest divisors of `number`.
std::string nearest_multiple(int64_t value, int64_t step);
std::string nearest_divisor(int64_t value, int64_t number);

}  // namespace viaduct
