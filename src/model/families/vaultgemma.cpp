// VaultGemma (2025): Gemma 2 without the norms on its branches.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr GemmaCaps kVaultCaps{.attention_cap = 50, .logit_cap = 30};

ModelConfig read_vaultgemma(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 256, 0);
  read_gemma_attention(config, kVaultCaps, model);
  model.output_norms = false;
  model.windows = windows_by_layer(
      config, model.layers, config.integer("sliding_window", 4096),
      [](int64_t layer, int64_t) { return layer % 2 == 0; }, 0);
  return model;
}

nlohmann::ordered_json write_vaultgemma(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_gemma_attention(model, json);
  write_layer_types(model, json);
  return json;
}

void resolve_vaultgemma(ModelFields& fields) {
  resolve_gemma(fields);
  fields.attn_logit_softcapping.resolve(kVaultCaps.attention_cap);
  fields.final_logit_softcapping.resolve(kVaultCaps.logit_cap);
}

}  // namespace

ModelFamily vaultgemma() {
  return {"vaultgemma",     "VaultGemmaForCausalLM", read_vaultgemma,
          write_vaultgemma, gemma_norm_names(),      resolve_vaultgemma};
}

}  // namespace viaduct::families
