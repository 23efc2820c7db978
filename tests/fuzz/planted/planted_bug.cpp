// A target with a bug, to test the driver itself: it trusts a length byte.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4 || data[0] != 'L' || data[1] != 'E' || data[2] != 'N') return 0;
  if (data[3] > size - 4) std::abort();
  return 0;
}
