// GPT BigCode (Ben Allal et al. 2023, arXiv 2301.03988; StarCoder): GPT-2 whose heads share one key
// and value, with projections stored [out, in].

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_gpt_bigcode(HfConfig& config) {
  ModelConfig model = read_gpt2(config);
  if (config.boolean("multi_query", true)) model.kv_heads = 1;
  // Its class saves the number beside the switch that it follows.
  expect_only(config, "num_key_value_heads", config.integer("num_key_value_heads", model.kv_heads),
              model.kv_heads);
  // Of precision, and of the first code's generation.
  config.ignore({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner",
                 "max_batch_size", "pad_key_length", "pre_allocate_kv_cache",
                 "validate_runner_input"});
  return model;
}

nlohmann::ordered_json write_gpt_bigcode(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(model.kv_heads == 1 || model.kv_heads == model.heads, "num_query_groups",
                 "1 or num_attention_heads", model.kv_heads);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_gpt2(model);
  json["multi_query"] = model.kv_heads == 1;
  return json;
}

void resolve_gpt_bigcode(ModelFields& fields) {
  resolve_gpt2(fields);
  fields.num_query_groups.resolve(1);
}

TensorNames names() {
  TensorNames names = gpt2_names();
  names.transposed = false;
  names.qkv_by_group = true;  // of one group: all queries, the key, the value
  return names;
}

}  // namespace

ModelFamily gpt_bigcode() {
  return {"gpt_bigcode", "GPTBigCodeForCausalLM", read_gpt_bigcode, write_gpt_bigcode,
          names(),       resolve_gpt_bigcode};
}

}  // namespace viaduct::families
