#pragma once
// "…; nearest: 4 or 8": the valid numbers on both sides of one that is not.

#include <cstdint>
#include <string>

#include "base/function_ref.h"

namespace viaduct {

/// The valid number at most `value` and the one at least `value`, at least 1 and at most `most`, as
/// "4 or 8", "4", or "none". `valid` is asked for at most a few million numbers.
std::string nearest_valid(int64_t value, FunctionRef<bool(int64_t)> valid,
                          int64_t most = int64_t{1} << 40);

/// The nearest multiples of `step`, and the nearest divisors of `number`.
std::string nearest_multiple(int64_t value, int64_t step);
std::string nearest_divisor(int64_t value, int64_t number);

}  // namespace viaduct
