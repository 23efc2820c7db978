#pragma once
// A model family: how its Hugging Face configuration maps to ModelConfig and what its tensors are
// called. Adding a family is one file in model/families and one line in families/families.h.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/hf_config.h"
#include "model/model_config.h"

namespace viaduct {

struct ModelFields;

/// Which dims of a head Hugging Face's code of a family rotates together.
enum class RotaryPairs { halves, neighbours, as_config_says };

struct ModelFamily {
  std::string model_type;    // "llama"
  std::string architecture;  // "LlamaForCausalLM"
  /// Reads every field it understands; the caller checks the remaining ones. ConfigError for values
  /// not supported.
  ModelConfig (*read)(HfConfig& config) = nullptr;
  /// The fields of config.json that describe `config`, a JSON object. ConfigError if the family
  /// cannot express it.
  nlohmann::ordered_json (*write)(const ModelConfig& config) = nullptr;
  TensorNames names;
  /// What `auto` means in section `model` where it differs from Llama (source: the configuration
  /// classes of Hugging Face transformers); null: nowhere.
  void (*resolve)(ModelFields& fields) = nullptr;
  RotaryPairs rotary_pairs = RotaryPairs::halves;
  std::string publishers_architecture = {};  // its name in the publisher's own code, if another
  /// Of the encoder of an encoder-decoder model; `names` are those of its decoder then, with what
  /// the two share.
  TensorNames encoder_names = {};
  /// Hugging Face's code of the family counts positions over the visible tokens of a mask alone.
  bool positions_from_mask = false;
  bool since_version5 = false;  // transformers 4 does not have it
};

/// All families, in alphabetical order.
const std::vector<ModelFamily>& model_families();
/// By model_type; ConfigError with the nearest name otherwise.
const ModelFamily& model_family(std::string_view model_type);

/// Reads the text of a Hugging Face config.json (`where` names it in messages). Unknown fields that
/// look harmless are listed in ModelConfig::notes; ConfigError for others, and for architectures
/// that are not a language model of the family; IoError for text that is not JSON. Of a model that
/// takes images too, its text model (model/text_half.h), with a note that says so, unless `images`
/// are read and implemented (model/vision_config.h).
ModelConfig read_hf_config(std::string_view text, const std::string& where,
                           ImageLayers images = ImageLayers::left_out);
/// The text of a config.json that Hugging Face's code loads.
std::string write_hf_config(const ModelConfig& config);

}  // namespace viaduct
