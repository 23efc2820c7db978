#pragma once
// The number of orders in which stream tests run the same work.

#include <cstdint>
#include <string_view>
#include <vector>

namespace viaduct::test {

/// The value of VIADUCT_STREAM_SEEDS, or `usual`. Throws std::invalid_argument unless it is a whole
/// number from 1 to 10,000.
uint64_t stream_seeds(uint64_t usual);

/// The seeds of the orders of one case of many: `usual` that follow a number drawn from the case's
/// name, so that the cases together see many orders; with VIADUCT_STREAM_SEEDS, 1 to its value.
/// None is 0. Throws as `stream_seeds`.
std::vector<uint64_t> case_seeds(std::string_view name, uint64_t usual);

}  // namespace viaduct::test
