// Any bytes as the beginning of a .npy file: a shape whose size can be counted, or an IoError.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "data/index_array.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  try {
    size_t header_bytes = 0;
    const std::string_view file(reinterpret_cast<const char*>(data), size);
    const IndexShape shape = parse_npy_header(file, "input", header_bytes);
    if (header_bytes > size || shape.rows < 0 || shape.columns < 0 || shape.bytes() < 0)
      std::abort();
    // A written header can be read back.
    if (parse_npy_header(npy_header(shape), "again", header_bytes) != shape) std::abort();
  } catch (const IoError&) {
  }
  return 0;
}
