#pragma once
// Tables of Unicode as Python has them, made by tools/unicode/make_template_ranges.py.

#include <cstddef>
#include <cstdint>

namespace viaduct::jinja {

/// Begin and end (one past the last) of ranges in turn.
extern const uint32_t kUnprintable[];
extern const size_t kUnprintableSize;
extern const uint32_t kAlphabetic[];
extern const size_t kAlphabeticSize;
extern const uint32_t kDecimal[];
extern const size_t kDecimalSize;
/// First, last, step and what is added.
extern const int32_t kLowerRuns[];
extern const size_t kLowerRunsSize;
extern const int32_t kUpperRuns[];
extern const size_t kUpperRunsSize;
/// A character, 1 for its title case and 0 for upper case, and three characters (0: none).
extern const uint32_t kLongUpper[];
extern const size_t kLongUpperSize;

}  // namespace viaduct::jinja
