#include "checkpoint/heed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "checkpoint/parameter_io.h"
#include "model/family.h"
#include "model/parameter_maker.h"
#include "model/vision_names.h"

namespace viaduct {
namespace {

const std::string kWeight = ".weight";
constexpr const char* kTies = "tie_word_embeddings";
constexpr const char* kFurtherLayers = "num_nextn_predict_layers";

/// Whether both tensors are there and hold other values. A tensor of another format or shape is
/// another one. Where files are mapped, both are only compared, not copied.
bool differ(const TensorSource& weights, const std::string& a, const std::string& b) {
  const TensorInfo *first = weights.find(a), *second = weights.find(b);
  if (first == nullptr || second == nullptr) return false;
  if (first->dtype != second->dtype || !(first->shape == second->shape)) return true;
  const Tensor left = weights.tensor(a), right = weights.tensor(b);
  const bool other = std::memcmp(left.raw(), right.raw(), static_cast<size_t>(left.bytes())) != 0;
  weights.check_read();
  return other;
}

void heed_head(ModelConfig& config, const TensorSource& weights, const TensorNames& names,
               const std::string& where) {
  if (!config.tied_embeddings) return;
  const std::string head = stored_name(weights, names.head + kWeight, names);
  const std::string table = stored_name(weights, names.token_embedding + kWeight, names);
  if (!differ(weights, head, table)) return;
  config.tied_embeddings = false;
  config.notes.push_back(fmt::format(
      "{}: {} is true, but {} differs from {}: the model is read with a head of its own", where,
      kTies, head, table));
}

/// T5's files without a head of their own are tied, whatever config.json says: before transformers
/// 5 a field that is false meant that the head is not scaled.
void heed_missing_head(ModelConfig& config, const TensorSource& weights, const TensorNames& names) {
  if (!config.encoder.any() || config.tied_embeddings) return;
  if (!weights.contains(names.head + kWeight)) config.tied_embeddings = true;
}

/// A copy of the token table that another implementation may read as a table of its own:
/// ConfigError.
void check_table_copies(const TensorSource& weights, const TensorNames& names,
                        const std::string& where) {
  const std::string table = names.token_embedding + kWeight;
  for (const std::string& copy : names.token_embedding_copies) {
    VIADUCT_CHECK(ConfigError, !differ(weights, copy + kWeight, table),
                  "{}: {} differs from {} in {}: the model has one token table for both stacks; "
                  "expected a copy of it, or no such tensor",
                  where, copy + kWeight, table, weights.where());
  }
}

/// Layers of multi-token prediction that follow the model's in the file.
int64_t further_layers(const TensorSource& weights, const TensorNames& names, int64_t layers) {
  int64_t found = 0;
  const auto has = [&](int64_t layer) {
    const std::string name = ParameterMaker::at(names.mtp_projection, layer) + kWeight;
    return weights.contains(stored_name(weights, name, names));
  };
  while (!names.mtp_projection.empty() && has(layers + found)) ++found;
  return found;
}

void heed_further_layers(ModelConfig& config, const TensorSource& weights, const TensorNames& names,
                         const std::string& where) {
  const int64_t found = further_layers(weights, names, config.layers);
  if (config.mtp_layers > 0 && found == 0) {
    // What transformers saves lacks them, whatever its config.json says.
    config.notes.push_back(
        fmt::format("{}: {} {}: the folder has no weights of multi-token prediction layers; the "
                    "model is read without them",
                    where, kFurtherLayers, config.mtp_layers));
    config.mtp_layers = 0;
  } else if (found > config.mtp_layers) {
    config.notes.push_back(
        fmt::format("{}: {} {}: the folder has weights of {} of multi-token prediction; "
                    "those of the others are not read",
                    where, kFurtherLayers, config.mtp_layers, counted(found, "layer")));
  }
  const std::string head = config.tied_embeddings ? names.token_embedding : names.head;
  for (int64_t layer = config.layers; layer < config.layers + config.mtp_layers; ++layer) {
    for (const auto& [copy, of] : {std::pair{names.mtp_token_embedding, names.token_embedding},
                                   std::pair{names.mtp_head, head}}) {
      const std::string one =
          stored_name(weights, ParameterMaker::at(copy, layer) + kWeight, names);
      const std::string table = stored_name(weights, of + kWeight, names);
      if (differ(weights, one, table))
        config.notes.push_back(
            fmt::format("{}: {} differs from {}, which takes its place: {} is "
                        "not read",
                        where, one, table, one));
    }
  }
}

void heed_unread(ModelConfig& config, const TensorSource& weights, const TensorNames& names,
                 const std::string& where) {
  const auto& infos = weights.tensors();
  const auto unread = [&](const TensorInfo& info) { return is_unread(info.name, names); };
  const auto first = std::ranges::find_if(infos, unread);
  if (first == infos.end()) return;
  config.notes.push_back(fmt::format(
      "{}: the folder has weights of layers for multi-token prediction ({} of them, as {}) in the "
      "publisher's own form; they are not read",
      where, std::ranges::count_if(infos, unread), shown_name(first->name)));
}

/// Frequencies in the buffers that older files have, compared with those that config.json gives.
void heed_frequencies(ModelConfig& config, const TensorSource& weights, const std::string& where) {
  if (config.positions != PositionKind::rotary) return;
  const auto& infos = weights.tensors();
  const auto at = std::find_if(infos.begin(), infos.end(), [](const TensorInfo& info) {
    return info.name.ends_with(".rotary_emb.inv_freq");
  });
  if (at == infos.end() || at->dtype != DType::f32) return;
  const std::vector<float> expected = rotary_frequencies(config.rotary);
  bool same = at->shape.elements() == static_cast<int64_t>(expected.size());
  if (same) {
    const Tensor stored = weights.tensor(at->name);
    for (size_t i = 0; i < expected.size(); ++i)
      same = same && std::fabs(stored.data<float>()[i] - expected[i]) <= 1e-3f * expected[i];
    weights.check_read();
  }
  if (same) return;
  config.notes.push_back(
      fmt::format("{}: {} in the weights holds other frequencies of rotary positions than the "
                  "fields of config.json give; those of the fields are used",
                  where, at->name));
}

/// A number beside the weights that another model has: ConfigError.
void check_constants(const ModelConfig& config, const TensorSource& weights,
                     const TensorNames& names, const std::string& where) {
  for (const auto& [pattern, value] : names.constants) {
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      const std::string name = stored_name(weights, ParameterMaker::at(pattern, layer), names);
      const TensorInfo* info = weights.find(name);
      if (info == nullptr || !is_floating(info->dtype) || info->shape.elements() != 1) continue;
      double found = 0, rounded = 0;  // as stored, and as its format has the expected one
      const Tensor stored = weights.tensor(name);
      dispatch_floating(info->dtype, [&](auto zero) {
        using Stored = decltype(zero);
        found = static_cast<float>(*stored.data<Stored>());
        rounded = static_cast<float>(static_cast<Stored>(static_cast<float>(value)));
      });
      weights.check_read();
      VIADUCT_CHECK(ConfigError,
                    found == rounded || std::fabs(found - value) <= 0.01 * std::fabs(value),
                    "{}: {} is {} in the weights, which is not supported (supported: {})", where,
                    name, found, value);
    }
  }
}

}  // namespace

void heed_weights(ModelConfig& config, const TensorSource& weights, const std::string& where) {
  const TensorNames& names = model_family(config.family).names;
  heed_head(config, weights, names, where);
  heed_missing_head(config, weights, names);
  check_table_copies(weights, names, where);
  heed_further_layers(config, weights, names, where);
  heed_unread(config, weights, names, where);
  heed_frequencies(config, weights, where);
  check_constants(config, weights, names, where);
}

std::string with_heeded_fields(const std::string& text, const ModelConfig& config) {
  auto json = parse_json<nlohmann::ordered_json>(text, "config.json");
  const bool images = config.vision.any();
  const ModelConfig said =
      read_hf_config(text, "config.json", images ? ImageLayers::read : ImageLayers::left_out);
  const bool same_names = said.vision.tower_prefix == config.vision.tower_prefix;
  if (said.tied_embeddings == config.tied_embeddings && said.mtp_layers == config.mtp_layers &&
      same_names)
    return text;
  if (!same_names) json[kTowerPrefixField] = config.vision.tower_prefix;
  if (said.tied_embeddings != config.tied_embeddings) {
    json[kTies] = config.tied_embeddings;
    if (images) json["text_config"][kTies] = config.tied_embeddings;
    // Which also says whether the head is scaled, unless another field does.
    if (config.encoder.any()) json["scale_decoder_outputs"] = config.logit_scale != 1;
  }
  if (said.mtp_layers != config.mtp_layers) {
    json[kFurtherLayers] = config.mtp_layers;
    json.erase("num_mtp_layers");
  }
  return json.dump(2) + "\n";
}

}  // namespace viaduct
