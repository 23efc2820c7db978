// Any bytes as a GGUF file: read as a model to the last byte, whole and in parts, or refused.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

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
    // A part that begins and ends inside rows and blocks is that of the whole.
    const int64_t elements = tensor.elements(), size = viaduct::dtype_bytes(info.dtype);
    const viaduct::Piece part{viaduct::whole_box(info.shape), elements / 3,
                              elements - elements / 4};
    std::vector<std::byte> bytes(static_cast<size_t>(part.elements() * size));
    source.read_into(info.name, part, bytes.data());
    if (std::memcmp(bytes.data(), static_cast<const std::byte*>(tensor.raw()) + part.begin * size,
                    bytes.size()) != 0)
      std::abort();
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
