// Hunyuan dense (Tencent, 2025): Llama with norms on the heads of query and key behind their
// rotation, and a base of rotary positions that `alpha` raises.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

/// What the publisher's own code can switch, and Hugging Face's has always: read, so that another
/// model is not taken for this one.
void read_switches(HfConfig& config, const ModelConfig& model) {
  for (const char* field : {"use_qk_norm", "use_rotary_pos_emb"})
    expect_only(config, field, config.boolean(field, true), true);
  for (const char* field :
       {"use_cla", "use_mla", "position_embedding_xdrope", "add_classification_head"})
    expect_only(config, field, config.boolean(field, false), false);
  const int64_t size = config.integer("attention_head_dim", model.head_dim);
  VIADUCT_CHECK(ConfigError, size == model.head_dim,
                "{}: attention_head_dim is {}, but head_dim is {}", config.where(), size,
                model.head_dim);
  // Of that code, and ids of its tokens.
  config.ignore({"cla_share_factor", "class_num", "dense_list", "eod_token_id", "im_end_id",
                 "im_newline_id", "im_start_id", "image_token_id", "mask_init_id", "norm_type",
                 "org_vocab_size", "pad_id", "pool_type", "text_end_id", "text_start_id"});
}

}  // namespace

ModelConfig read_hunyuan(HfConfig& config) {
  const int64_t head_dim = config.integer("attention_head_dim", 0);
  ModelConfig model = read_llama_like(config, head_dim, 0, {.alpha = true});
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qk_norm = model.qk_norm_after_rotary = true;
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  read_switches(config, model);
  return model;
}

nlohmann::ordered_json write_hunyuan(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, {.alpha = true});
  json["attention_bias"] = model.qkv_bias;
  return json;
}

void resolve_hunyuan(ModelFields& fields) {
  fields.qk_layernorm.resolve(true);
  fields.qk_layernorm_after_rope.resolve(true);
}

namespace {

TensorNames hunyuan_names() {
  TensorNames names = llama_names();
  names.q_norm = "model.layers.{}.self_attn.query_layernorm";
  names.k_norm = "model.layers.{}.self_attn.key_layernorm";
  return names;
}

}  // namespace

ModelFamily hunyuan_v1_dense() {
  return {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM",
          read_hunyuan,       write_hunyuan,
          hunyuan_names(),    resolve_hunyuan};
}

}  // namespace viaduct::families
