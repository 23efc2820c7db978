// Routers with FP64 products (moe_router_dtype=fp64) in an FP32 model: the weights of experts are
// those of FP64 arithmetic over the same tokens, rounded once.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/engine.h"
#include "model/segment_walk.h"
#include "nn/moe/moe_edges.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "support/golden.h"
#include "support/instruction_set.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

struct Routed {
  std::vector<float> tokens, probabilities;  // [T, H], [T, k] of the first router
  std::vector<float> weight;                 // [E, H]
};

class FirstRouter : public SegmentHooks {
 public:
  explicit FirstRouter(Routed& routed) : routed_(routed) {}
  void after(const SegmentEvent& event, const TensorSet& out) override {
    if (event.segment.name() != "router" || event.layer.block != 0) return;
    const auto values = [](const Tensor& tensor) {
      return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.elements());
    };
    routed_.tokens = values(out.get(moe_edge::tokens));
    routed_.probabilities = values(out.get(moe_edge::probabilities));
  }

 private:
  Routed& routed_;
};

constexpr int64_t kTokens = 24;

Routed route_with(RouterFormat format) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp32");
  run.positions = 32;
  ModelConfig config = test::tiny_model("mixtral");
  config.moe.router_format = format;
  Engine engine(*device, ops, config, run);
  engine.initialize();
  HostBatch batch;
  for (int64_t i = 0; i < kTokens; ++i) {
    batch.ids.push_back(static_cast<int32_t>(i * i % config.vocabulary));
    batch.positions.push_back(static_cast<int32_t>(i));
    batch.targets.push_back(0);
    batch.loss_weight.push_back(1);
    batch.token_index.push_back(i);
  }
  batch.end_document();
  RankContext rank = engine.context(false, false);
  fill(rank.ops, {rank.loss_state, 0});
  SavedStore nothing(false);
  Routed routed;
  FirstRouter hook(routed);
  SegmentHooks* hooks[] = {&hook};
  const Batch uploaded = upload(*device, batch, config.vocabulary, 32);
  SegmentWalk(engine.model().chunks()[0], rank, uploaded, nothing, hooks).forward({}, {});
  for (const Parameter* p : engine.store().parameters()) {
    if (p->path != "blocks.0.mlp.router.weight") continue;
    const float* weight = engine.store().master(*p).data<float>();
    routed.weight.assign(weight, weight + p->shape.elements());
  }
  return routed;
}

/// The tokens of `routed` whose two weights equal those of FP64 to the bit.
int64_t exact_tokens(const Routed& routed) {
  const ModelConfig config = test::tiny_model("mixtral");
  const auto hidden = static_cast<size_t>(config.hidden),
             experts = static_cast<size_t>(config.moe.experts);
  int64_t exact = 0;
  for (size_t t = 0; t < static_cast<size_t>(kTokens); ++t) {
    std::vector<double> logits(experts, 0);
    for (size_t e = 0; e < experts; ++e)
      for (size_t h = 0; h < hidden; ++h)
        logits[e] += double{routed.tokens[t * hidden + h]} * double{routed.weight[e * hidden + h]};
    std::ranges::sort(logits, std::greater<>());
    const double first = 1 / (1 + std::exp(logits[1] - logits[0]));
    exact += routed.probabilities[2 * t] == static_cast<float>(first) &&
             routed.probabilities[2 * t + 1] == static_cast<float>(1 - first);
  }
  return exact;
}

TEST(RouterFormat, OfFp64RoundsItsWeightsOnce) {
  EXPECT_GE(exact_tokens(route_with(RouterFormat::f64)), kTokens - 1);
  EXPECT_LT(exact_tokens(route_with(RouterFormat::f32)), kTokens - 4);
}

/// In a model of BF16 the router's gradient passes a product of 16 bits, or of copies in FP32: the
/// last router's weight gradient is that much nearer to the one of FP64.
TEST(RouterFormat, OfFp32KeepsTheGradientOfLogits) {
  const auto folder = test::test_data("golden/mixtral");
  const auto gradient = [&](const std::string& format) {
    const auto dump =
        test::probe_layout(folder / "model", folder / "golden.safetensors", false,
                           {"mixed_precision=bf16_mixed", "model.moe_router_dtype=" + format});
    Tensor last;  // names are in the order of layers
    for (const auto& [name, tensor] : dump)
      if (name.starts_with("grad.") && name.ends_with("gate.weight")) last = tensor;
    EXPECT_TRUE(last);
    return last;
  };
  const Tensor exact = gradient("fp64");
  const double wide = test::relative_error(gradient("fp32"), exact),
               narrow = test::relative_error(gradient("null"), exact);
  EXPECT_LT(wide, 1e-4);
  EXPECT_GT(narrow, 20 * wide);
}

}  // namespace
}  // namespace viaduct
