#include "data/numpy_random.h"

#include <bit>

namespace viaduct {

uint64_t NumpyRandomState::interval(uint64_t max) {
  if (max == 0) return 0;
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
  uint64_t value = 0;
  do {
    if (max <= 0xFFFFFFFFu) {
      value = generator_() & mask;
    } else {
      const uint64_t high = generator_();
      value = (high << 32 | generator_()) & mask;
    }
  } while (value > max);
  return value;
}

}  // namespace viaduct
