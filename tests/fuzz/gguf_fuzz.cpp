// Any bytes as a GGUF file: read as a model to the last byte, or refused.

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_model.h"

namespace {

template <class Source>
void read_all(const Source& source) {
  viaduct::Hasher64 hasher;
  for (const auto& info : source.tensors()) {
    const viaduct::Tensor tensor = source.tensor(info.name);
    hasher.update(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  }
  static_cast<void>(hasher.digest());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    read_all(viaduct::GgufFile::from_memory(bytes, "input"));
    read_all(*viaduct::read_gguf(viaduct::GgufFile::from_memory(bytes, "input")).weights);
  } catch (const viaduct::IoError&) {
  } catch (const viaduct::ConfigError&) {
  }
  return 0;
}
