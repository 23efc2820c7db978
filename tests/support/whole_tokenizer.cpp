#include "support/whole_tokenizer.h"

#include "base/json.h"

namespace viaduct::test {
namespace {

using nlohmann::json;

void fill_steps(json& value) {
  if (value.is_object() && value.contains("type") && value["type"] == "ByteLevel") {
    for (const char* name : {"add_prefix_space", "trim_offsets"})
      if (!value.contains(name)) value[name] = true;
  }
  if (value.is_structured())
    for (json& part : value) fill_steps(part);
}

}  // namespace

json whole_tokenizer(json document) {
  for (const char* part : {"pre_tokenizer", "post_processor", "decoder"})
    if (document.contains(part)) fill_steps(document[part]);
  if (!document.contains("added_tokens") || !document["added_tokens"].is_array()) return document;
  for (json& token : document["added_tokens"]) {
    if (!token.is_object()) continue;
    for (const char* name : {"single_word", "lstrip", "rstrip", "special"})
      if (!token.contains(name)) token[name] = false;
    if (!token.contains("normalized")) token["normalized"] = token["special"] == false;
  }
  return document;
}

}  // namespace viaduct::test
