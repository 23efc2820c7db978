#include "support/first_step.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "checkpoint/logical_gather.h"
#include "checkpoint/parameter_io.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/golden.h"

namespace viaduct::test {
namespace {

Tensor scalar(double value) {
  Tensor tensor = host_tensor(DType::f32, {});
  *tensor.data<float>() = static_cast<float>(value);
  return tensor;
}

/// All ranks call it.
StepTensors gather(Engine& engine, const StepResult& result) {
  StepTensors values{{"loss", scalar(result.loss)}, {"grad_norm", scalar(result.grad_norm)}};
  const auto gradient = [](const ShardRun& run, size_t) { return run.gradient; };
  const Communicator& copies = engine.store().copies_of_runs();
  gather_logical(
      engine.groups().world(), engine.device(),
      share_of_copies(stored_runs(engine.store(), gradient), copies.rank(), copies.size()),
      engine.gradient_factor(),
      [&](const std::string& name, const Tensor& tensor) { values[name] = tensor; });
  return values;
}

}  // namespace

StepTensors first_step(const RunSetup& setup, RunBatches run_batches) {
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  const Mesh& mesh = run.parallelism.mesh;
  StepTensors step;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    const RankDevice rank = make_rank_device(setup.config.dist);
    world->record_on(rank.device.get());
    const TrainingData data(setup, rank.device->pool(), mesh.size(Axis::dp),
                            mesh.coordinate({world->rank()}, Axis::dp).value);
    Engine engine(*rank.device, rank.ops, setup.model, run, ParallelGroups(mesh, std::move(world)));
    engine.initialize();
    engine.begin_step({});
    const double scored = run_batches(engine, data);
    const StepResult result = engine.finish_step(scored, false);
    StepTensors values = gather(engine, result);
    if (leads) step = std::move(values);
  });
  return step;
}

StepTensors first_step(const RunSetup& setup) {
  return first_step(setup, [&](Engine& engine, const TrainingData& data) {
    double scored = 0;
    const int64_t batches = data.micro_batches(setup.config.train.global_batch_size);
    engine.run_micro_batches(batches, [&](int64_t i) {
      HostBatch batch = data.train(0, i);
      scored += batch.scored_weight();
      return batch;
    });
    return scored;
  });
}

void expect_same_step(const StepTensors& found, const StepTensors& reference,
                      const std::string& what) {
  ASSERT_EQ(found.size(), reference.size()) << what;
  for (const auto& [name, values] : reference) {
    const auto at = found.find(name);
    ASSERT_NE(at, found.end()) << name << what;
    EXPECT_LE(relative_error(at->second, values), 2e-5) << name << what;
  }
}

}  // namespace viaduct::test
