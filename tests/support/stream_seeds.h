#pragma once
// The number of orders in which stream tests run the same work.

#include <cstdint>

namespace viaduct::test {

/// The value of VIADUCT_STREAM_SEEDS, or `usual`. Throws std::invalid_argument unless it is a whole
/// number from 1 to 10,000.
uint64_t stream_seeds(uint64_t usual);

}  // namespace viaduct::test
