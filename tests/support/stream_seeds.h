#pragma once
// In how many orders tests of streams run the same work.

#include <cstdint>

namespace viaduct::test {

/// The number that VIADUCT_STREAM_SEEDS says, or `usual`. std::invalid_argument if it is no whole
/// number from 1 to 10,000.
uint64_t stream_seeds(uint64_t usual);

}  // namespace viaduct::test
