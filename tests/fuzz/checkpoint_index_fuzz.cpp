// Any bytes as the index.json of a checkpoint: understood or refused with an IoError. Where they
// are JSON, once more with the checksum that fits, so that the checks behind it are reached.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/checkpoint_index.h"

namespace {

void parse(std::string_view text) {
  try {
    viaduct::check_complete(viaduct::parse_checkpoint_index(text, "input"), "input");
  } catch (const viaduct::IoError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse(text);
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return 0;
  json.erase("checksum");
  json["checksum"] = fmt::format("{:016x}", viaduct::hash64(json.dump()));
  parse(json.dump());
  return 0;
}
