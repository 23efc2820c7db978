// Any bytes as the index of a checkpoint, as one text, as index.json, and as lines of pieces.jsonl:
// parsed or refused with an IoError. JSON inputs run again with a matching checksum, so that the
// checks after it are reached.

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_index.h"

namespace {

void read(viaduct::FunctionRef<void()> reader) {
  try {
    reader();
  } catch (const viaduct::IoError&) {
  }
}

void parse(std::string_view text) {
  using namespace viaduct;
  read([&] { check_complete(parse_checkpoint_index(text, "input"), "input"); });
  read([&] {
    const CheckpointDirectory directory = parse_directory(text, "input");
    // Lines are checked against the length of pieces.jsonl; here it is shorter.
    for (const auto& [name, tensor] : directory.tensors)
      read([&] { checked_line(text, tensor.line, name); });
  });
}

void parse_lines(std::string_view text) {
  using namespace viaduct;
  read([&] { parse_shards_line(text, "input"); });
  for (const Shape& shape : {Shape{30000}, Shape{300, 100}})
    read([&] { parse_tensor_line(text, {DType::f32, shape, {}}, 4, "input"); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse(text);
  parse_lines(text);
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return 0;
  json.erase("checksum");
  json["checksum"] = fmt::format("{:016x}", viaduct::hash64(json.dump()));
  parse(json.dump());
  return 0;
}
