// Any bytes as a compressed file: read to the end within a bound, or refused with an IoError.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/byte_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  const int file = ::memfd_create("input", MFD_CLOEXEC);
  if (file < 0) return 0;
  if (::write(file, data, size) == static_cast<ssize_t>(size)) {
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    try {
      const auto stream = open_stream(path);
      std::vector<char> block(5000);
      for (int blocks = 0; blocks < 1000; ++blocks)  // a small file may decompress to very much
        if (stream->read(block) < block.size()) break;
    } catch (const IoError&) {
    }
  }
  ::close(file);
  return 0;
}
