#include "model/text_half.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits{.bytes = size_t{16} << 20, .depth = 32};

/// A model_type with images, and the one of its text model where `text_config` does not say it.
struct Kind {
  std::string_view type, text;
};
constexpr Kind kKinds[] = {{"gemma3", "gemma3_text"},     {"gemma4", "gemma4_text"},
                           {"internvl", "qwen2"},         {"llava", "llama"},
                           {"llava_next", "llama"},       {"llava_onevision", "qwen2"},
                           {"mistral3", "mistral"},       {"qwen2_5_vl", "qwen2_vl_text"},
                           {"qwen2_vl", "qwen2_vl_text"}, {"qwen3_vl", "qwen3_vl_text"}};

/// Types of text models that are a family under another name: with text alone the three sections of
/// their rotary positions (mrope) count alike, which is the plain rotation.
constexpr Kind kFamilies[] = {
    {"qwen2_5_vl_text", "qwen2"}, {"qwen2_vl_text", "qwen2"}, {"qwen3_vl_text", "qwen3"}};

/// Defaults of the configuration classes of transformers 4 and 5 for what a family's own files
/// always say.
Json class_defaults(std::string_view type) {
  const auto sizes = [](int64_t vocabulary, int64_t hidden, int64_t feed_forward, int64_t layers,
                        int64_t heads, int64_t positions) {
    return Json{{"vocab_size", vocabulary},          {"hidden_size", hidden},
                {"intermediate_size", feed_forward}, {"num_hidden_layers", layers},
                {"num_attention_heads", heads},      {"max_position_embeddings", positions}};
  };
  const auto with = [](Json json, const Json& more) {
    json.update(more);
    return json;
  };
  if (type == "llama") return sizes(32000, 4096, 11008, 32, 32, 2048);
  if (type == "mistral")
    return with(sizes(32000, 4096, 14336, 32, 32, 131072), {{"num_key_value_heads", 8}});
  if (type == "ministral3")
    return with(sizes(131072, 4096, 14336, 34, 32, 262144), {{"num_key_value_heads", 8}});
  if (type == "qwen2") return sizes(151936, 4096, 22016, 32, 32, 32768);
  if (type == "gemma3_text")
    return with(sizes(262208, 2304, 9216, 26, 8, 131072), {{"num_key_value_heads", 4}});
  if (type == "gemma4_text")
    return with(sizes(262144, 2304, 9216, 30, 8, 131072), {{"num_key_value_heads", 4}});
  if (type == "qwen2_vl_text" || type == "qwen2_5_vl_text")
    return with(sizes(152064, 8192, 29568, 80, 64, 32768), {{"num_key_value_heads", 8},
                                                            {"rms_norm_eps", 1e-5},
                                                            {"rope_theta", 1e6},
                                                            {"max_window_layers", 80}});
  if (type == "qwen3_vl_text")
    return with(sizes(151936, 4096, 22016, 32, 32, 128000),
                {{"head_dim", 128}, {"rope_theta", 5e5}});
  return Json::object();
}

/// Of images and videos, which text does not use; `architectures` is of the whole model.
constexpr std::string_view kNotText[] = {
    "architectures", "image_token_id",      "image_token_index", "video_token_id",
    "vision_config", "vision_end_token_id", "vision_token_id",   "vision_start_token_id"};

/// What the outer file says for the text model too, if that says nothing itself.
constexpr std::string_view kShared[] = {"bos_token_id", "dtype",
                                        "eos_token_id", "quantization_config",
                                        "torch_dtype",  "transformers_version"};

const Kind* find_kind(std::string_view type, const Kind* begin, const Kind* end) {
  const Kind* at = std::find_if(begin, end, [&](const Kind& kind) { return kind.type == type; });
  return at == end ? nullptr : at;
}

std::string text_member(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

bool says(const Json& json, const char* name, bool value) {
  const auto at = json.find(name);
  return at != json.end() && at->is_boolean() && at->get<bool>() == value;
}

/// Tied where either place says so, as in transformers 5.
void set_ties(const Json& outer, Json& text) {
  constexpr const char* kTies = "tie_word_embeddings";
  if (says(outer, kTies, true) || says(text, kTies, true)) {
    text[kTies] = true;
  } else if (says(outer, kTies, false)) {
    text[kTies] = false;
  }
}

/// In Qwen 2 and 2.5 the sections cut the pairs of a head; Hugging Face's code fails otherwise.
void check_sections(const Json& text, std::string_view type, const std::string& where) {
  if (type != "qwen2_vl_text" && type != "qwen2_5_vl_text") return;
  const auto integer = [&](const char* name) {
    const auto at = text.find(name);
    return at != text.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
  };
  const int64_t heads = integer("num_attention_heads");
  if (heads <= 0) return;  // refused where it is read
  const int64_t head = integer("head_dim");
  const int64_t pairs = (head > 0 ? head : integer("hidden_size") / heads) / 2;
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const auto at = text.find(field);
    if (at == text.end() || !at->is_object() || !at->contains("mrope_section")) continue;
    const Json& sections = at->at("mrope_section");
    int64_t sum = 0;
    bool whole = sections.is_array();
    for (const Json& one : sections) {
      const int64_t size = one.is_number_integer() ? one.get<int64_t>() : -1;
      whole = whole && size >= 0 && size <= pairs;
      if (whole) sum += size;
    }
    VIADUCT_CHECK(ConfigError, whole && sum == pairs,
                  "{}: {}: mrope_section is {}, expected a list of integers whose sum is {}, the "
                  "pairs of a head that rotate",
                  where, field,
                  sections.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60),
                  pairs);
  }
}

/// Without the sections of rotary positions.
void join_sections(Json& text) {
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const auto at = text.find(field);
    if (at == text.end() || !at->is_object()) continue;
    at->erase("mrope_section");
    at->erase("mrope_interleaved");
    for (const char* type : {"type", "rope_type"})
      if (text_member(*at, type) == "mrope") (*at)[type] = "default";
  }
}

bool names_base(const Json& text) {
  if (text.contains("rope_theta")) return true;
  const auto at = text.find("rope_parameters");
  return at != text.end() && at->is_object() && at->contains("rope_theta");
}

}  // namespace

std::vector<std::string> types_with_text_halves() {
  std::vector<std::string> types;
  for (const Kind& kind : kKinds) types.emplace_back(kind.type);
  return types;
}

std::optional<TextHalf> text_half(std::string_view text, const std::string& where) {
  const auto outer = parse_json<Json>(text, where, kLimits);
  if (!outer.is_object()) return std::nullopt;
  const std::string type = text_member(outer, "model_type");
  VIADUCT_CHECK(ConfigError, type != "paligemma",
                "{}: model_type paligemma is not supported: its text model attends to the prompt "
                "in both directions, and text models here attend backwards",
                where);
  const Kind* kind = find_kind(type, std::begin(kKinds), std::end(kKinds));
  if (kind == nullptr) return std::nullopt;
  const auto inner = outer.find("text_config");
  const bool nested = inner != outer.end() && !inner->is_null();
  VIADUCT_CHECK(ConfigError, nested ? inner->is_object() : outer.contains("hidden_size"),
                "{}: text_config, the fields of the text model of a {}, is {}, expected an object",
                where, type, nested ? inner->type_name() : "missing");
  Json half = nested ? Json(*inner) : outer;
  std::string text_type = nested ? text_member(half, "model_type") : "";
  if (text_type.empty()) text_type = kind->text;
  const Kind* family = find_kind(text_type, std::begin(kFamilies), std::end(kFamilies));
  half["model_type"] = family != nullptr ? std::string(family->text) : text_type;
  for (const std::string_view field : kNotText) half.erase(std::string(field));
  if (nested) {
    for (const std::string_view name : kShared) {
      const std::string field(name);
      if (outer.contains(field) && !half.contains(field)) half[field] = outer[field];
    }
    set_ties(outer, half);
  }
  const bool base = names_base(half);
  const Json defaults = class_defaults(text_type);
  for (const auto& [field, value] : defaults.items()) {
    if (field == "rope_theta" ? !base : !half.contains(field)) half[field] = value;
  }
  check_sections(half, text_type, where);
  join_sections(half);
  return TextHalf{
      half.dump(2) + "\n",
      fmt::format("{}: a {} model, whose text model ({}) is read alone: its images, and "
                  "the weights for them, are left out, and what is written is a text "
                  "model",
                  where, type, half["model_type"].get<std::string>())};
}

std::optional<std::string> text_half_name(std::string_view name) {
  constexpr std::string_view kVision[] = {
      "audio_tower.",           "embed_audio.",  "embed_vision.", "image_newline",
      "multi_modal_projector.", "vision_model.", "vision_tower.", "visual."};
  const std::string_view inner = name.starts_with("model.") ? name.substr(6) : name;
  for (const std::string_view prefix : kVision)
    if (inner.starts_with(prefix)) return std::nullopt;
  for (const std::string_view prefix : {"language_model.model.", "model.language_model."})
    if (name.starts_with(prefix)) return "model." + std::string(name.substr(prefix.size()));
  constexpr std::string_view kHead = "language_model.lm_head.";
  if (name.starts_with(kHead)) return "lm_head." + std::string(name.substr(kHead.size()));
  return std::string(name);
}

}  // namespace viaduct
