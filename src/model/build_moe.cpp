#include "model/build_moe.h"

#include <utility>

#include "base/error.h"
#include "model/expert_adapters.h"
#include "nn/moe/combine.h"
#include "nn/moe/dispatch.h"
#include "nn/moe/domain_combine.h"
#include "nn/moe/domain_dispatch.h"
#include "nn/moe/experts.h"
#include "nn/moe/gather_dispatch.h"
#include "nn/moe/input_weight.h"
#include "nn/moe/router.h"
#include "nn/moe/shared_experts.h"

namespace viaduct {
namespace {

std::unique_ptr<SharedExpertSegment> build_shared(const MoeBuild& b, const ExpertPlace& place,
                                                  const std::string& path, int64_t layer) {
  const ModelConfig& c = b.config;
  const int64_t features = c.moe.shared_feed_forward;
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  std::vector<ParameterMaker::Piece> up{{at(b.names.shared_up), features, 1}};
  if (c.gated && fuses_shared_expert(b.names)) {
    const std::string fused = at(b.names.shared_up);
    up = {{fused, features, 1, 0, 2 * features}, {fused, features, 1, features, 2 * features}};
  } else if (c.gated) {
    up.insert(up.begin(), {at(b.names.shared_gate), features, 1});
  }
  SharedExpertParts parts{
      b.make.column_linear(LinearRole::fc1, path + ".shared.up", up, c.hidden, false, layer),
      b.make.row_linear(LinearRole::fc2, path + ".shared.down", at(b.names.shared_down), c.hidden,
                        features, false, layer),
      c.activation, c.gated, std::nullopt};
  if (c.moe.shared_gate)
    // The gate chooses nothing: FP64 is for routers alone.
    parts.gate.emplace(
        b.make.router(path + ".shared.gate", at(b.names.shared_router), 1),
        c.moe.router_format == RouterFormat::activations ? RouterFormat::activations
                                                         : RouterFormat::f32,
        nullptr,
        b.make.replicated_terms(path + ".shared.gate", {{at(b.names.shared_router), 1}}, c.hidden));
  return std::make_unique<SharedExpertSegment>(c.moe, place, c.hidden, std::move(parts));
}

/// The tokens of which an operand of these products has a multiple on GPUs.
int64_t quantized_rows(const Quantization& products) {
  return !products.any() ? 1 : products.scaling == Scaling::mx ? 32 : 16;
}

}  // namespace

std::vector<std::unique_ptr<Segment>> build_moe(const MoeBuild& b, int64_t layer) {
  ModelConfig c = b.config;
  if (c.moe.pad_for_quantization)
    c.moe.rows_multiple = quantized_rows(b.settings.precision.products);
  VIADUCT_CHECK(ConfigError, b.place.tp == 1 || b.settings.sequence_parallel,
                "model.sequence_parallel: false with experts and {} tensor-parallel ranks, which "
                "would route the same tokens; expected true",
                b.place.tp);
  const std::string path = "blocks." + std::to_string(layer) + ".mlp";
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  const bool fused = fuses_experts(b.names) && c.gated;
  std::vector<std::string> up{at(b.names.expert_up)};
  if (c.gated && !fused) up.insert(up.begin(), at(b.names.expert_gate));
  ExpertTerms up_terms = b.make.experts_up_terms(path + ".experts.up", up,
                                                 c.gated ? at(joined_expert_name(b.names)) : "");
  ExpertTerms down_terms =
      b.make.experts_down_terms(path + ".experts.down", at(b.names.expert_down));
  c.moe.row_indices = b.settings.adapters.dropout > 0 && (up_terms.any() || down_terms.any());
  const ExpertPlace place{.ranks = int64_t{1} * b.place.ep * b.place.etp,
                          .copies = b.place.etp,
                          .own_grid = b.place.expert_grid,
                          .domains = b.place.expert_domains,
                          .fused = c.moe.dispatch == ExpertDispatch::fused};
  ParameterPointer load_bias;
  if (c.moe.load_bias)
    load_bias = b.make.load_bias(path + ".router.load_bias", at(load_bias_name(b.names)),
                                 c.moe.experts, c.moe.load_bias_rate);
  std::vector<std::unique_ptr<Segment>> segments;
  RouterInput input{std::nullopt, c.hidden, c.parallel_block};
  if (!c.shared_norm)
    input.norm.emplace(b.make.norm(path + ".input_norm", at(b.names.mlp_norm), c.hidden, c.norm,
                                   stream_gradient(b.settings)));
  segments.push_back(std::make_unique<RouterSegment>(
      c.moe, place, std::move(input),
      RouterProduct(
          b.make.router(path + ".router", at(b.names.router), c.moe.experts), c.moe.router_format,
          c.router_bias ? b.make.router_bias(path + ".router", at(b.names.router)) : nullptr,
          b.make.replicated_terms(path + ".router", {{at(b.names.router), c.moe.experts}},
                                  c.hidden)),
      load_bias, layer, path + ".router"));
  std::unique_ptr<SharedExpertSegment> shared;
  if (c.moe.shared_feed_forward > 0) shared = build_shared(b, place, path, layer);
  const bool beside = c.moe.shared_overlap && place.ranks > 1 && !place.gathers(c.moe);
  if (shared && !beside) segments.push_back(std::move(shared));
  if (c.moe.weighs_input)
    segments.push_back(std::make_unique<InputWeightSegment>(c.moe, place, c.hidden));
  const bool in_turn =
      b.settings.exchange_in_two_parts && place.ranks > 1 && !place.gathers(c.moe) && !beside;
  const auto add_exchange = [&](std::unique_ptr<ExchangeSegment> exchange) {
    if (!in_turn) return segments.push_back(std::move(exchange));
    for (auto& part : in_two_parts(std::move(exchange))) segments.push_back(std::move(part));
  };
  if (place.gathers(c.moe)) {
    segments.push_back(std::make_unique<GatherDispatchSegment>(c.moe, place, c.hidden));
  } else if (place.by_domain()) {
    add_exchange(
        std::make_unique<DomainDispatchSegment>(c.moe, place, c.hidden, layer, std::move(shared)));
  } else {
    add_exchange(std::make_unique<DispatchSegment>(c.moe, place, c.hidden, std::move(shared)));
  }
  ExpertsParts parts{b.make.experts_up(path + ".experts.up", up, layer),
                     b.make.experts_down(path + ".experts.down", at(b.names.expert_down), layer),
                     c.activation,
                     c.gated,
                     {c.activation_clamp, c.activation_offset, fused && !b.names.expert_halves},
                     nullptr,
                     nullptr,
                     std::move(up_terms),
                     std::move(down_terms)};
  if (c.up_bias) {
    VIADUCT_CHECK(ConfigError, place.copies == 1,
                  "model.expert_tensor_parallel_size: {} with biases of experts "
                  "(model.add_mlp_bias), which are added once: expected 1",
                  place.copies);
    parts.up_bias = b.make.experts_bias(path + ".experts.up", at(b.names.expert_up),
                                        c.moe.feed_forward * (c.gated ? 2 : 1));
    parts.down_bias =
        b.make.experts_bias(path + ".experts.down", at(b.names.expert_down), c.hidden);
  }
  segments.push_back(std::make_unique<ExpertsSegment>(c.moe, place, std::move(parts)));
  const ResidualDropout residual(c.residual_dropout, path + ".dropout", c.residual_scale);
  if (place.by_domain()) {
    add_exchange(std::make_unique<DomainCombineSegment>(c.moe, place, c.hidden, residual));
  } else {
    add_exchange(std::make_unique<CombineSegment>(c.moe, place, c.hidden, residual));
  }
  return segments;
}

}  // namespace viaduct
