#include "train/dry_run.h"

#include "model/flops.h"
#include "train/engine.h"
#include "train/engine_settings.h"
#include "train/rank_device.h"

namespace viaduct {
namespace {

/// A micro-batch of the right sizes; what it holds does not matter.
HostBatch blank_batch(int64_t rows, int64_t length) {
  HostBatch batch;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t t = 0; t < length; ++t) {
      batch.ids.push_back(0);
      batch.positions.push_back(static_cast<int32_t>(t));
      batch.targets.push_back(0);
      batch.loss_weight.push_back(1);
      batch.token_index.push_back(row * length + t);
    }
    batch.end_document();
  }
  return batch;
}

}  // namespace

DryRun dry_run(const RunSetup& setup) {
  const RunConfig& config = setup.config;
  const RankDevice rank = make_dry_run_device(config.dist);
  StepRecord record;
  rank.device->set_record(&record);
  DryRun result;
  {
    Engine engine(*rank.device, rank.ops, setup.model, engine_settings(setup));
    engine.initialize();
    for (const Parameter* parameter : engine.store().parameters()) {
      for (const Part& part : parameter->parts) result.parameters += part.logical_shape.elements();
    }
    const size_t first_op = record.ops().size();
    const int64_t length = config.model.seq_length.value();
    engine.begin_step({});
    engine.run_micro_batches(
        config.train.global_batch_size / config.train.micro_batch_size,
        [&](int64_t) { return blank_batch(config.train.micro_batch_size, length); });
    engine.finish_step(1);
    for (size_t i = first_op; i < record.ops().size(); ++i) {
      result.cost += record.ops()[i].cost;
      result.launches += record.ops()[i].launches;
    }
    result.peak = record.peak();
    result.host_reads = static_cast<int64_t>(record.host_reads().size());
    result.model_flops =
        training_flops(flop_sizes(setup.model), config.train.global_batch_size, length).model();
  }
  rank.device->set_record(nullptr);
  return result;
}

}  // namespace viaduct
