#include "model/config_form.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "model/family.h"
#include "model/text_half.h"
#include "model/vision_config.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kParameters = "rope_parameters", *kScaling = "rope_scaling",
                     *kBase = "rope_theta", *kPart = "partial_rotary_factor",
                     *kWindowBase = "rope_local_base_freq", *kFull = "full_attention",
                     *kSliding = "sliding_attention", *kText = "text_config";

std::string model_type_of(const std::string& config) {
  return parse_json<Json>(config, "config.json").at("model_type");
}

bool is_object(const Json& json, const char* name) {
  return json.contains(name) && json.at(name).is_object();
}

/// Whether version 5 has an object for each kind of the family's layers.
bool has_kinds(const ModelFamily& family) {
  return family.model_type == "gemma3_text" || family.model_type == "olmo3";
}

void move_member(const char* name, Json& from, Json& to) {
  if (from.contains(name)) to[name] = from[name];
  from.erase(name);
}

/// To a name that may be the family's own; empty: it has none.
void rename_member(const std::string& from, const std::string& to, Json& json) {
  if (from.empty() || to.empty() || !json.contains(from)) return;
  json[to] = json[from];
  json.erase(from);
}

void name_format(const char* name, const char* other, Json& json) {
  if (json.contains(other) && !json.contains(name)) json[name] = json[other];
  json.erase(other);
}

void to_version5(const ModelFamily& family, Json& json) {
  name_format("dtype", "torch_dtype", json);
  rename_member(family.older_rotary_base, kBase, json);
  rename_member(family.older_rotary_part, kPart, json);
  const bool rotates = json.contains(kBase) || is_object(json, kScaling);
  if (is_object(json, kParameters)) {
    if (json[kParameters].contains("rope_type")) json.erase(kBase), json.erase(kScaling);
    return;
  }
  if (!rotates) return;
  Json positions = is_object(json, kScaling) ? json[kScaling] : Json::object();
  if (positions.contains("type") && !positions.contains("rope_type"))
    positions["rope_type"] = positions["type"];
  positions.erase("type");
  if (!positions.contains("rope_type")) positions["rope_type"] = "default";
  json.erase(kScaling);
  move_member(kBase, json, positions);
  move_member(kPart, json, positions);
  if (!has_kinds(family)) {
    json[kParameters] = positions;
    return;
  }
  Json sliding{{"rope_type", "default"}};
  if (positions.contains(kBase)) sliding[kBase] = positions[kBase];
  if (json.contains(kWindowBase)) sliding[kBase] = json[kWindowBase];
  json.erase(kWindowBase);
  json[kParameters] = {{kFull, positions}, {kSliding, sliding}};
}

void to_version4(const ModelFamily& family, Json& json) {
  name_format("torch_dtype", "dtype", json);
  if (!is_object(json, kParameters)) return;
  Json positions = json[kParameters];
  json.erase(kParameters);
  if (is_object(positions, kSliding) && family.model_type == "gemma3_text") {
    const Json& sliding = positions[kSliding];
    if (sliding.contains(kBase)) json[kWindowBase] = sliding[kBase];
  }
  if (is_object(positions, kFull)) positions = Json(positions[kFull]);
  move_member(kBase, positions, json);
  move_member(kPart, positions, json);
  const bool plain = !positions.contains("rope_type") || positions["rope_type"] == "default";
  json[kScaling] = plain ? Json() : positions;
  rename_member(kBase, family.older_rotary_base, json);
  rename_member(kPart, family.older_rotary_part, json);
}

}  // namespace

std::string in_config_form(const std::string& config, ConfigForm form) {
  const std::string where = "config.json";
  const auto before = parse_json<Json>(config, where);
  const auto model_of = [&](const std::string& text) {  // of one with images its text model
    return write_hf_config(read_hf_config(text, where));
  };
  const std::string model = model_of(config);
  Json json = before;
  const bool images = read_vision_config(config, where).has_value();
  const std::string type = model_type_of(images ? text_half(config, where)->config : config);
  const ModelFamily& family = model_family(type);
  const bool five = form == ConfigForm::version5;
  VIADUCT_CHECK(ConfigError, five || !family.since_version5,
                "{}: transformers 4 has no models of family {}; expected 5", where, type);
  const auto change = five ? to_version5 : to_version4;
  if (images) {
    name_format(five ? "dtype" : "torch_dtype", five ? "torch_dtype" : "dtype", json);
    if (is_object(json, kText)) change(family, json[kText]);
  } else {
    change(family, json);
  }
  if (json == before) return config;
  std::string text = json.dump(2) + "\n";
  VIADUCT_CHECK(ConfigError, model_of(text) == model,
                "{}: transformers {} has no spelling of what it says about rotary positions", where,
                five ? 5 : 4);
  return text;
}

}  // namespace viaduct
