// Any bytes as a model's config.json: a configuration that can be written and read again, or an
// error.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/family.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const auto images : {viaduct::ImageLayers::left_out, viaduct::ImageLayers::read}) {
    viaduct::ModelConfig config;
    try {
      config = viaduct::read_hf_config({reinterpret_cast<const char*>(data), size}, "config.json",
                                       images);
    } catch (const viaduct::Error&) {
      continue;
    }
    viaduct::read_hf_config(viaduct::write_hf_config(config), "again", images);  // must not throw
  }
  return 0;
}
