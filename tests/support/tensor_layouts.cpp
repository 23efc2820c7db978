#include "support/tensor_layouts.h"

#include <algorithm>
#include <cstdlib>

#include "support/tiny_models.h"

namespace viaduct::test {
namespace {

TensorRun context_ranks(TensorRun run, int cp, ContextExchange exchange, int inner = 1) {
  run.cp = cp, run.cp_inner = inner;
  run.context_exchange.assign(static_cast<size_t>(run.model.layers), exchange);
  return run;
}

}  // namespace

bool all_policies() {
  return std::getenv("VIADUCT_ALL_POLICIES") != nullptr;
}

ModelConfig layout_model(const std::string& name, int64_t layers) {
  ModelConfig model = tiny_model(name);
  model.layers = layers;
  // Sizes that every kind of context exchange supports.
  model.windows.clear();
  model.kv_heads = std::max<int64_t>(2, model.kv_heads);
  model.embedding_dropout = model.residual_dropout = model.attention_dropout = 0.2;
  return model;
}

std::vector<LayoutRun> layouts(const ModelConfig& model, const std::string& recipe) {
  const TensorRun one{model, recipe};
  TensorRun tensor = one, sequence = one, overlapped = one, both = one;
  tensor.tp = sequence.tp = both.tp = 2;
  sequence.sequence_parallel = both.sequence_parallel = overlapped.sequence_parallel = true;
  overlapped.tp = 4;
  for (const OverlapGemm gemm : {OverlapGemm::qkv_fprop, OverlapGemm::fc1_fprop,
                                 OverlapGemm::proj_dgrad, OverlapGemm::fc2_dgrad})
    overlapped.overlap[gemm] = {OverlapMethod::ring_exchange};
  for (const OverlapGemm gemm : {OverlapGemm::qkv_dgrad, OverlapGemm::fc1_dgrad,
                                 OverlapGemm::qkv_wgrad, OverlapGemm::fc1_wgrad})
    overlapped.overlap[gemm] = {OverlapMethod::bulk};
  TensorRun halves = sequence, segments = one, unfused = one, wide = one;
  halves.walk = TensorRun::Walk::halves;
  segments.walk = TensorRun::Walk::segments;
  unfused.fusions = {false, false, false, false, false};
  unfused.model.rope_fusion = false;
  wide.fp32_residual = true;
  wide.recompute_logits = false;
  return {{"one rank", one},
          {"tp 2", tensor},
          {"tp 2, sequence parallel", sequence},
          {"tp 4, overlapped", overlapped},
          {"cp 2", context_ranks(one, 2, ContextExchange::p2p)},
          {"cp 2, gathered", context_ranks(one, 2, ContextExchange::all_gather)},
          {"cp 2, heads exchanged", context_ranks(one, 2, ContextExchange::a2a)},
          {"cp 4, two levels", context_ranks(one, 4, ContextExchange::a2a_p2p, 2)},
          {"tp 2, cp 2", context_ranks(both, 2, ContextExchange::p2p)},
          {"halves", halves},
          {"segment by segment", segments},
          {"unfused", unfused},
          {"FP32 stream, kept logits", wide}};
}

}  // namespace viaduct::test
