// Any bytes as a safetensors file: opened and read to the last byte, or refused with an IoError.

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/safetensors_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file = viaduct::SafetensorsFile::from_memory(
        std::string(reinterpret_cast<const char*>(data), size), "input");
    viaduct::Hasher64 hasher;
    for (const auto& info : file.tensors()) {
      const viaduct::Tensor tensor = file.tensor(info.name);
      hasher.update(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    }
    static_cast<void>(hasher.digest());
  } catch (const viaduct::IoError&) {
  }
  return 0;
}
