// The backward of adapters with dropout compared with finite differences, in FP64. Of magnitudes
// (DoRA) only their own slopes are: the norm is a constant of the backward, so that those of A and
// B are not slopes of the loss; magnitudes of lower layers need the gradients of all inputs above.

#include <gtest/gtest.h>

#include <random>

#include "engine/engine.h"
#include "model/adapter_modules.h"
#include "model/segment_walk.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "support/finite_differences.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

struct Case {
  std::string name, scheme;
  double dropout = 0;
  std::vector<std::string> trained = {};
  bool after = false;  // the dropout is on what adapters add
  std::string model = "llama";
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

HostBatch make_batch(int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(7);
  const auto token = [&] {
    return static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
  };
  for (int i = 0; i < 16; ++i) {
    batch.ids.push_back(token());
    batch.positions.push_back(i);
    batch.targets.push_back(token());
    batch.loss_weight.push_back(1);
    batch.token_index.push_back(100 + i);
  }
  batch.end_document();
  return batch;
}

class AdapterGradient : public testing::TestWithParam<Case> {};

TEST_P(AdapterGradient, EqualsFiniteDifferences) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ModelConfig model = test::tiny_model(GetParam().model);
  PeftConfig peft;
  peft.scheme = choice_of<AdapterScheme>(GetParam().scheme);
  peft.dim = 2, peft.alpha = 4;
  peft.dropout = GetParam().dropout;
  peft.train = GetParam().trained;
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.layers.adapters = choose_adapters(peft, model);
  run.layers.adapters.dropout_after = GetParam().after;
  run.positions = 16;
  Engine engine(*device, ops, model, run);
  engine.initialize();
  OpContext context{*device, ops};
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (const Parameter* p : engine.store().parameters()) {
    if (!p->decoupled_rate) continue;  // B is 0, magnitudes are such that they change nothing
    double* values = engine.store().master(*p).data<double>();
    for (int64_t i = 0; i < p->shape.elements(); ++i) values[i] += 0.2 * normal(random);
  }
  engine.store().publish_masters(context);

  const HostBatch batch = make_batch(model.vocabulary);
  const auto loss = [&] {
    RankContext rank = engine.context(true, false);
    fill(rank.ops, {rank.loss_state, 0});
    SavedStore nothing(false);
    const Batch uploaded = upload(*device, batch, model.vocabulary, 16);
    SegmentWalk(engine.model().chunks()[0], rank, uploaded, nothing).forward({}, {});
    const Tensor value = rank.ops.allocate(DType::f64, {1}, MemoryTag::other);
    sum_value(rank.ops, {rank.loss_state, value});
    return *value.data<double>();
  };
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  engine.finish_step(1, false);
  const bool magnitudes = GetParam().scheme == "dora";
  int compared = 0;
  for (const Parameter* p : engine.store().parameters()) {
    if (!p->trained || (magnitudes && p->adapter && p->magnitude_of.empty())) continue;
    test::expect_slope(engine, *p, random, loss);
    ++compared;
  }
  EXPECT_GT(compared, 4);
}

INSTANTIATE_TEST_SUITE_P(Cases, AdapterGradient,
                         testing::Values(Case{"lora", "lora"}, Case{"lora_dropout", "lora", 0.3},
                                         Case{"dora", "dora"}, Case{"dora_dropout", "dora", 0.3},
                                         Case{"trained", "lora", 0.2, {"*norm", "embed_tokens"}},
                                         Case{"post_dropout", "lora", 0.3, {}, true},
                                         Case{"experts", "lora", 0.3, {}, false, "mixtral"},
                                         Case{"post_experts", "lora", 0.3, {}, true, "mixtral"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
