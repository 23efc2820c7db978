// Whole steps of a small model on ranks that are threads, one layout for each axis: forward,
// backward, gradient reduction and update as `train` runs them. They check the threads;
// tests/layout compares every layout with one rank tensor by tensor.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "comm/world.h"
#include "engine/engine.h"
#include "nn/tensor_parallel_config.h"
#include "ops/cpu/cpu_ops.h"
#include "pipeline/layer_map.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

constexpr int64_t kMicroBatches = 4, kTokens = 16, kPositions = 16;
constexpr int kSteps = 2;

struct Layout {
  int tp = 1, cp = 1, dp = 1, pp = 1;
  bool experts = false;  // over the data ranks, with exchanges beside the other micro-batch
  ScheduleKind stages = ScheduleKind::interleaved;
  int ranks() const { return tp * cp * dp * pp; }
};

void PrintTo(const Layout& l, std::ostream* os) {
  *os << "tp" << l.tp << "_cp" << l.cp << "_dp" << l.dp << "_pp" << l.pp
      << (l.experts ? "_experts" : "") << (l.stages == ScheduleKind::dualpipe_v ? "_v" : "");
}

HostBatch micro_batch(int64_t number, int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(static_cast<unsigned>(number));
  const auto token = [&] {
    return static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
  };
  for (int64_t i = 0; i < kTokens; ++i) {
    batch.ids.push_back(token());
    batch.positions.push_back(static_cast<int32_t>(i));
    batch.targets.push_back(token());
    batch.loss_weight.push_back(1);
    batch.token_index.push_back(number * kTokens + i);
  }
  batch.end_document();
  return batch;
}

/// Everything that can overlap with computation does.
ResolvedRun run_of(const ModelConfig& model, const Layout& layout) {
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp32");
  run.layers.sequence_parallel = layout.tp > 1;
  run.positions = kPositions;
  Parallelism& parallelism = run.parallelism;
  parallelism.mesh = Mesh::make({.ranks = layout.ranks(),
                                 .tp = layout.tp,
                                 .cp = layout.cp,
                                 .pp = layout.pp,
                                 .ep = layout.experts ? layout.dp : 1,
                                 .etp = layout.tp});
  parallelism.vocabulary_multiple = 4;
  if (layout.pp > 1) {
    parallelism.layer_map = layer_map(LayerMapSettings{model.layers, layout.pp, 2});
    parallelism.schedule.kind = layout.stages;
    parallelism.schedule.virtual_stages = 2;
    parallelism.schedule.messages = PointToPoint::overlapped;
  }
  if (layout.experts && layout.dp > 1) {
    run.layers.exchange_in_two_parts = true;
    parallelism.schedule.combines = parallelism.schedule.delays_weights = true;
  }
  TensorOverlapConfig overlap;
  overlap.tp_comm_overlap = true;
  Problems problems;
  run.layers.overlap = resolve_gemm_overlap(overlap, {layout.tp, model.hidden}, problems);
  DdpConfig ddp;
  ddp.resolve(layout.dp * layout.cp, layout.pp > 1);
  run.store = store_settings(ddp);
  run.store.bucket_elements = 1000;  // several buckets
  return run;
}

struct Outcome {
  double loss = 0, grad_norm = 0;
};

/// Gradients of the last step.
Outcome train(const Layout& layout) {
  ModelConfig model = test::tiny_model(layout.experts ? "mixtral" : "llama");
  model.layers = 4;
  if (layout.experts) model.moe.layers.assign(4, 1);
  const ResolvedRun run = run_of(model, layout);
  Outcome outcome;
  run_thread_ranks(
      layout.ranks(), {.timeout_seconds = 120}, [&](std::shared_ptr<Communicator> world) {
        const Mesh& mesh = run.parallelism.mesh;
        const GlobalRank rank{world->rank()};
        const auto device = make_cpu_device(2);
        const OpTable ops = cpu_ops(CpuIsa::avx2);
        world->record_on(device.get());
        Engine engine(*device, ops, model, run, ParallelGroups(mesh, world));
        engine.initialize();
        const int64_t replica = mesh.coordinate(rank, Axis::dp).value;
        StepResult result;
        for (int step = 1; step <= kSteps; ++step) {
          engine.begin_step({.update = step, .learning_rate = 1e-2});
          double scored = 0;
          engine.run_micro_batches(kMicroBatches / layout.dp, [&](int64_t i) {
            const HostBatch batch = micro_batch(i * layout.dp + replica, model.vocabulary);
            scored += batch.scored_weight();
            return batch;
          });
          result = engine.finish_step(scored);
        }
        if (world->rank() == 0) outcome = {result.loss, result.grad_norm};
      });
  return outcome;
}

class Layouts : public testing::TestWithParam<Layout> {};

TEST_P(Layouts, TrainAsOneRankDoes) {
  const Outcome one = train({.experts = GetParam().experts}), many = train(GetParam());
  EXPECT_GT(one.loss, 1);
  EXPECT_NEAR(many.loss, one.loss, 1e-4 * one.loss);
  EXPECT_NEAR(many.grad_norm, one.grad_norm, 1e-3 * one.grad_norm);
}

INSTANTIATE_TEST_SUITE_P(Axes, Layouts,
                         testing::Values(Layout{.tp = 2}, Layout{.cp = 2}, Layout{.dp = 2},
                                         Layout{.pp = 2}, Layout{.tp = 2, .dp = 2},
                                         Layout{.dp = 2, .experts = true},
                                         Layout{.dp = 2, .pp = 2, .experts = true},
                                         Layout{.pp = 2, .stages = ScheduleKind::dualpipe_v}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace viaduct
