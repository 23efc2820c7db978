// What stands for a picture in the texts of a model, by its config.json.

#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "conversation/image_places.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr int64_t kMostTokens = 1 << 20;  // of a picture

/// The member of either name as a count; `otherwise` where there is none.
int64_t count_of(const json& object, std::initializer_list<const char*> names,
                 const std::string& where, std::optional<int64_t> otherwise = std::nullopt) {
  for (const char* name : names) {
    const json* value = find_member(object, name);
    if (value == nullptr) continue;
    const auto count = json_count(*value);
    VIADUCT_CHECK(ConfigError, count && *count <= std::numeric_limits<int32_t>::max(),
                  "{}: {}={}, expected a count", where, name, shown_name(value->dump()));
    return *count;
  }
  VIADUCT_CHECK(ConfigError, otherwise.has_value(), "{}: {} is missing", where, *names.begin());
  return *otherwise;
}

const std::string& text_of(const AddedTokens& added, int64_t id, const char* name,
                           const std::string& where) {
  const AddedToken* token = added.find(static_cast<int32_t>(id));
  VIADUCT_CHECK(ConfigError, token != nullptr,
                "{}: {}={} is not one of the added tokens of the tokenizer beside it", where, name,
                id);
  return token->content;
}

int64_t llava_tokens(const json& config, const json& vision, int64_t side,
                     const std::string& where) {
  const std::string tower = string_member(vision, "model_type", where);
  const bool clip = tower == "clip_vision_model";
  VIADUCT_CHECK(ConfigError, clip || tower == "siglip_vision_model",
                "{}: vision_config.model_type {} is not built; expected clip_vision_model or "
                "siglip_vision_model",
                where, shown_name(tower));
  const int64_t patch = count_of(vision, {"patch_size"}, where);
  VIADUCT_CHECK(ConfigError, patch >= 1 && patch <= side,
                "{}: vision_config.patch_size={}, expected 1 to {} (image_size)", where, patch,
                side);
  const std::string strategy =
      string_member(config, "vision_feature_select_strategy", where, "default");
  VIADUCT_CHECK(ConfigError, strategy == "default" || strategy == "full",
                "{}: vision_feature_select_strategy={}, expected default or full", where,
                shown_name(strategy));
  return (side / patch) * (side / patch) + (clip ? 1 : 0) - (strategy == "default" ? 1 : 0);
}

}  // namespace

std::optional<ImageTokens> image_tokens(const json& config, const std::string& where,
                                        const AddedTokens& added) {
  const json* vision = find_member(config, "vision_config");
  const std::string type = string_member(config, "model_type", where);
  if (vision == nullptr || (type != "llava" && type != "gemma3")) return std::nullopt;
  ImageTokens tokens;
  tokens.side = count_of(*vision, {"image_size"}, where);
  const bool llava = type == "llava";
  const int64_t id =
      count_of(config, {"image_token_id", "image_token_index"}, where, llava ? 32000 : 262144);
  tokens.id = static_cast<int32_t>(id);
  tokens.token = text_of(added, id, "image_token_index", where);
  tokens.shown = tokens.token;
  tokens.count = llava ? llava_tokens(config, *vision, tokens.side, where)
                       : count_of(config, {"mm_tokens_per_image"}, where, 256);
  VIADUCT_CHECK(ConfigError, tokens.count >= 1 && tokens.count <= kMostTokens,
                "{}: {} tokens for a picture, expected 1 to {}", where, tokens.count, kMostTokens);
  if (llava) return tokens;
  // Behind the marks the processor of Gemma 3 puts line breaks.
  tokens.shown =
      text_of(added, count_of(config, {"boi_token_id", "boi_token_index"}, where, 255999),
              "boi_token_index", where);
  tokens.before = "\n\n" + tokens.shown;
  tokens.after =
      text_of(added, count_of(config, {"eoi_token_id", "eoi_token_index"}, where, 256000),
              "eoi_token_index", where) +
      "\n\n";
  return tokens;
}

}  // namespace viaduct
