#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "model/families/families.h"
#include "model/family.h"
#include "model/further_fields.h"
#include "model/missing_parts.h"
#include "model/state_layers.h"
#include "model/text_half.h"

namespace viaduct {

const std::vector<ModelFamily>& model_families() {
#define VIADUCT_CALL_FAMILY(name) families::name(),
  static const std::vector<ModelFamily> families{VIADUCT_MODEL_FAMILIES(VIADUCT_CALL_FAMILY)};
#undef VIADUCT_CALL_FAMILY
  return families;
}

const ModelFamily& model_family(std::string_view model_type) {
  std::vector<std::string> names;
  std::string list;
  for (const ModelFamily& family : model_families()) {
    if (family.model_type == model_type) return family;
    names.push_back(family.model_type);
    list += (list.empty() ? "" : ", ") + family.model_type;
  }
  const auto near = nearest_name(model_type, names);
  fail<ConfigError>("model family \"{}\" is not supported{}; supported are {}", model_type,
                    near ? fmt::format(" (did you mean {}?)", *near) : "", list);
}

namespace {

/// The class of the same weights without a head: "LlamaModel", "GPT2Model". A missing untied head
/// is detected when weights are read.
std::string body_architecture(const ModelFamily& family) {
  std::string name = family.architecture;
  for (const std::string_view end : {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel"}) {
    if (name.ends_with(end)) name.resize(name.size() - end.size());
  }
  return name + "Model";
}

/// What Hugging Face's fields say, and the further ones, which may change it.
struct FamilyModel {
  ModelConfig config;
  std::string further;
};

/// Checks what further fields do not change. A router with one expert a token may get another score
/// function from them.
void check_before_further_fields(ModelConfig config) {
  RoutingRule& routing = config.moe.routing;
  if (routing.topk == 1 && routing.score == ScoreFunction::softmax) routing.pre_softmax = true;
  check_model_config(config);
}

FamilyModel read_family_model(HfConfig reader) {
  const std::string& where = reader.where();
  const std::string_view states = state_layers_of(reader.text("model_type"));
  VIADUCT_CHECK(ConfigError, states.empty(),
                "{}: model_type {} is not supported: its layers of {} pass a state along the row, "
                "which no layer here does",
                where, reader.text("model_type"), states);
  const std::string_view part = missing_part_of(reader.text("model_type"));
  VIADUCT_CHECK(ConfigError, part.empty(),
                "{}: model_type {} is not supported: its models have {}, which is not implemented",
                where, reader.text("model_type"), part);
  const ModelFamily& family = [&]() -> const ModelFamily& {
    try {
      return model_family(reader.text("model_type"));
    } catch (const ConfigError& error) {
      fail<ConfigError>("{}: {}", where, error.what());
    }
  }();
  for (const std::string& architecture : reader.texts("architectures")) {
    VIADUCT_CHECK(ConfigError,
                  architecture == family.architecture ||
                      architecture == body_architecture(family) ||
                      (architecture == family.publishers_architecture && !architecture.empty()),
                  "{}: architecture {} is not supported (supported: {}, {})", where, architecture,
                  family.architecture, body_architecture(family));
  }
  ModelConfig config = family.read(reader);
  config.family = family.model_type;
  config.end_tokens = reader.integers("eos_token_id");
  const auto begin = reader.integers("bos_token_id");
  config.begin_token = begin.empty() ? -1 : begin.front();
  config.init_std = reader.number("initializer_range", config.init_std);
  if (config.windows.empty())
    config.windows.assign(
        static_cast<size_t>(std::max<int64_t>(0, std::min<int64_t>(config.layers, 1 << 20))), 0);
  const std::string further = reader.text(kFurtherFields, "");
  if (const auto unknown = reader.finish(); !unknown.empty()) {
    config.notes.push_back(
        fmt::format("{}: unknown fields were ignored: {}", where, fmt::join(unknown, ", ")));
  }
  check_before_further_fields(config);
  return {std::move(config), further};
}

}  // namespace

ModelConfig read_hf_config(std::string_view text, const std::string& where, ImageLayers images) {
  if (const auto half = text_half(text, where)) {
    ModelConfig config = read_hf_config(half->config, where);
    auto vision = images == ImageLayers::read ? read_vision_config(text, where) : std::nullopt;
    if (!vision) {
      config.notes.insert(config.notes.begin(), half->note);
      return config;
    }
    config.vision = *std::move(vision);
    if (const auto& unknown = config.vision.unknown_fields; !unknown.empty())
      config.notes.push_back(fmt::format("{}: vision_config: unknown fields were ignored: {}",
                                         where, fmt::join(unknown, ", ")));
    check_model_config(config);
    return config;
  }
  const FamilyModel model = read_family_model(HfConfig(text, where));
  if (!model.further.empty()) return with_further_fields(model.config, model.further, where);
  check_model_config(model.config);
  return model.config;
}

std::string write_hf_config(const ModelConfig& config) {
  if (config.vision.any()) {
    ModelConfig text = config;
    text.vision = {};
    return with_vision_config(config, write_hf_config(text));
  }
  const ModelFamily& family = model_family(config.family);
  nlohmann::ordered_json json = family.write(config);
  json["architectures"] = {family.architecture};
  json["model_type"] = family.model_type;
  json["initializer_range"] = config.init_std;
  json["tie_word_embeddings"] = config.tied_embeddings;
  json["vocab_size"] = config.vocabulary;
  if (config.end_tokens.size() == 1) json["eos_token_id"] = config.end_tokens.front();
  if (config.end_tokens.size() > 1) json["eos_token_id"] = config.end_tokens;
  if (config.begin_token >= 0) json["bos_token_id"] = config.begin_token;
  json["pad_token_id"] = nullptr;  // explicit: families differ in the default
  if (config.padding_token >= 0) json["pad_token_id"] = config.padding_token;
  if (config.encoder.any()) json["pad_token_id"] = config.encoder.padding_token;
  const std::string further =
      further_fields(config, read_family_model(HfConfig::of_json(json, "config.json")).config);
  if (!further.empty()) json[kFurtherFields] = further;
  return json.dump(2) + "\n";
}

}  // namespace viaduct
