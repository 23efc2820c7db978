#include "train/checkpoint_shards.h"

#include <algorithm>
#include <memory>

#include "checkpoint/logical_values.h"
#include "checkpoint/parameter_io.h"
#include "config/problems.h"
#include "engine/engine.h"
#include "model/model_from_fields.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "run/setup.h"
#include "run/validate.h"
#include "run/vision_support.h"
#include "train/run_checkpoint.h"

namespace viaduct {
namespace {

/// The saving run: its configuration, and what it trains.
std::shared_ptr<const RunSetup> run_of(const ModelFolder& from, LoadedRunConfig loaded) {
  auto run = std::make_shared<RunSetup>();
  RunSetup& setup = *run;
  setup.config = std::move(loaded.config);
  const ModelConfig model = read_model_config(from);
  take_architecture(setup.config.model, model);
  setup.config.model.vision.folder_takes_images = model.vision.any();
  setup.config.model.seq_length.resolve(std::min<int64_t>(model.max_positions, 2048));
  resolve(setup.config);
  Problems problems;
  validate(setup.config, loaded.outcome, problems);
  problems.throw_if_any();
  setup.model = to_model_config(setup.config.model, model);
  validate_vision(setup.config, setup.model, problems);
  problems.throw_if_any();
  return run;
}

std::vector<CheckpointEntry> pieces_of(const RunSetup& setup, const ResolvedRun& run, int number) {
  const RankDevice rank = make_dry_run_device(setup.config);
  const auto world = make_sim_communicator(number, run.parallelism.mesh.ranks(), "world");
  const Engine engine(*rank.device, rank.ops, setup.model, run, make_groups(run, world));
  const Communicator& copies = engine.store().copies_of_runs();
  const auto runs =
      saved_share(stored_runs(engine.store(), [](const ShardRun&, size_t) { return Tensor(); }),
                  copies.rank(), copies.size(), setup.config.checkpoint.fully_parallel_save);
  std::vector<CheckpointEntry> entries;
  for (const StoredRun& stored : runs) {
    for (const LogicalPiece& piece : logical_pieces(stored.run)) {
      if (!piece.part->owned) continue;
      entries.push_back({{piece.part->name, DType::f32, piece.part->logical_shape}, piece.piece});
    }
  }
  return entries;
}

}  // namespace

ShardPlan checkpoint_shards(const ModelFolder& from, LoadedRunConfig loaded) {
  const auto setup = run_of(from, std::move(loaded));
  const ResolvedRun resolved = resolve_run(setup->config, setup->model);
  return {resolved.parallelism.mesh.ranks(),
          [=](int shard) { return pieces_of(*setup, resolved, shard); }};
}

}  // namespace viaduct
