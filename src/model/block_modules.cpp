#include "model/block_modules.h"

#include "model/expert_adapters.h"
#include "model/parameter_maker.h"
#include "model/router_adapters.h"

namespace viaduct {

void BlockModules::add_attention() const {
  constexpr const char* kLayer = "linear_qkv";
  const int64_t block = model_.kind_of(layer_), head_dim = model_.head_dim_of(block);
  const int64_t q = model_.heads * head_dim, kv = model_.kv_heads_of(block) * head_dim;
  const LatentSizes& latent = model_.latent;
  if (latent.any()) {
    if (latent.q_rank > 0) add_whole(names_.q_down, kLayer, latent.q_rank);
    const bool down = latent.q_rank > 0;
    add(down ? names_.q_up : names_.q, kLayer, q, down ? latent.q_rank : model_.hidden);
    add_whole(names_.kv_down, kLayer, latent.kv_rank + latent.rotary_dim);
    add(names_.kv_up, kLayer, model_.heads * (latent.plain_dim + latent.value_dim), latent.kv_rank);
  } else if (names_.qkv.empty()) {
    add(names_.q, kLayer, q, model_.hidden);
    add(names_.k, kLayer, kv, model_.hidden);
    if (!model_.values_from_keys(block)) add(names_.v, kLayer, kv, model_.hidden);
  } else {
    add(names_.qkv, kLayer, q + 2 * kv, model_.hidden);
  }
  add(names_.projection, "linear_proj", model_.hidden, model_.heads * model_.value_dim(block));
}

void BlockModules::add_cross_attention() const {
  constexpr const char* kKeyValue = "linear_kv";
  add(names_.cross_q, "linear_q", model_.heads * model_.head_dim, model_.hidden);
  for (const std::string& name : {names_.cross_k, names_.cross_v}) {
    add(name, kKeyValue, model_.kv_heads * model_.head_dim, model_.hidden);
    modules_.back().of_encoder = true;
  }
  add(names_.cross_projection, "linear_proj", model_.hidden, model_.heads * model_.head_dim);
}

void BlockModules::add_feed_forward() const {
  const bool routed = model_.moe.routes(model_.kind_of(layer_));
  if (!routed && model_.gated && !names_.gate_up.empty()) {  // one tensor
    add(names_.gate_up, "linear_fc1", 2 * model_.feed_forward, model_.hidden);
    return add(names_.down, "linear_fc2", model_.hidden, model_.feed_forward);
  }
  if (!routed) {
    const std::string& up = dense_up_name(names_, model_.gated);
    return add_mlp(names_.gate, up, names_.down, model_.feed_forward);
  }
  add_whole(names_.router, "router", model_.moe.experts, true);
  AdaptableModule& router = modules_.back();
  const std::string in_peft = module_of_parameter(peft_router_parameter(names_, layer_));
  if (in_peft != router.name) router.in_peft = in_peft;
  const int64_t shared = model_.moe.shared_feed_forward;
  if (shared > 0 && model_.gated && fuses_shared_expert(names_)) {
    add(names_.shared_up, "linear_fc1", 2 * shared, model_.hidden);
    add(names_.shared_down, "linear_fc2", model_.hidden, shared);
  } else if (shared > 0) {
    add_mlp(names_.shared_gate, names_.shared_up, names_.shared_down, shared);
  }
  if (model_.moe.shared_gate) add_whole(names_.shared_router, "router", 1, true);
  for (int64_t expert = 0; expert < model_.moe.experts; ++expert) add_expert(expert);
}

void BlockModules::add_projection() const {
  modules_.push_back({ParameterMaker::at(names_.mtp_projection, layer_), kFurtherProjection,
                      model_.hidden, 2 * model_.hidden, false, 1, false});
}

void BlockModules::add(const std::string& pattern, std::string_view of, int64_t out,
                       int64_t in) const {
  modules_.push_back({ParameterMaker::at(pattern, layer_), of, out, in});
  modules_.back().block = model_.kind_of(layer_);
}

void BlockModules::add_whole(const std::string& pattern, std::string_view of, int64_t out,
                             bool named_only) const {
  modules_.push_back(
      {ParameterMaker::at(pattern, layer_), of, out, model_.hidden, named_only, 1, false});
}

void BlockModules::add_mlp(const std::string& gate, const std::string& up, const std::string& down,
                           int64_t features) const {
  if (model_.gated) add(gate, "linear_fc1", features, model_.hidden);
  add(up, "linear_fc1", features, model_.hidden);
  add(down, "linear_fc2", model_.hidden, features);
}

void BlockModules::add_expert(int64_t expert) const {
  const int64_t features = model_.moe.feed_forward;
  const double use =
      static_cast<double>(model_.moe.routing.topk) / static_cast<double>(model_.moe.experts);
  const auto add_of = [&](const std::string& pattern, std::string_view of, int64_t out, int64_t in,
                          bool named_only = false) {
    const std::string name = ParameterMaker::at(ParameterMaker::at(pattern, layer_), expert);
    modules_.push_back({name, of, out, in, named_only, use, false});
  };
  const bool fused = fuses_experts(names_) && model_.gated;
  if (model_.gated && !fused) add_of(names_.expert_gate, "linear_fc1", features, model_.hidden);
  add_of(names_.expert_up, "linear_fc1", features * (fused ? 2 : 1), model_.hidden);
  add_of(names_.expert_down, "linear_fc2", model_.hidden, features);
  if (model_.gated && !fused)
    add_of(joined_expert_name(names_), "linear_fc1", 2 * features, model_.hidden, true);
}

}  // namespace viaduct
