// Muon moves a matrix whole, wherever its rows are: one that holds each head's query, key and value
// together is cut over the tensor ranks otherwise than one that holds all queries first.

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_reader.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"
#include "support/training.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

using test::layout;
using test::Overrides;
using test::operator+;

/// The weights after two steps.
std::map<std::string, Tensor> weights_after(const std::string& family, const Overrides& overrides) {
  const test::TemporaryFolder folder;
  const RunSetup setup = test::setup_of(
      test::tiny_run(family) +
      Overrides{"train.train_iters=2", "optimizer.optimizer=muon", "model.init_method_std=0.3",
                "dist.threads_per_rank=1", "dist.distributed_timeout_minutes=1",
                "checkpoint.save=" + folder.path().string()} +
      overrides);
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    trainer.run();
  });
  std::map<std::string, Tensor> weights;
  const auto reader = open_checkpoint(folder.path());
  for (const TensorInfo& info : reader->tensors())
    if (info.name.find("query_key_value.weight") != std::string::npos)
      weights[info.name] = reader->tensor(info.name);
  return weights;
}

TEST(MuonHeads, MatricesOfWholeHeadsTrainAsOnOneRank) {
  for (const auto& [family, more] : std::vector<std::pair<std::string, Overrides>>{
           {"gpt_neox", {}}, {"falcon", {"model.num_query_groups=2"}}}) {
    const auto alone = weights_after(family, more);
    const auto cut = weights_after(family, more + layout(2, 1, 1, 1).overrides);
    ASSERT_GE(alone.size(), 2u) << family;
    for (const auto& [name, tensor] : alone)
      EXPECT_LE(test::relative_error(cut.at(name), tensor), 2e-3) << family << " " << name;
  }
}

}  // namespace
}  // namespace viaduct
