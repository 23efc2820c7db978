#pragma once
// Runs of several ranks with dist.device=cuda, launched as `viaduct train` launches them, on the
// doubles.

#include <map>
#include <mutex>

#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct::test {

inline Overrides run_of(int ranks) {
  return tiny_run() + Overrides{"dist.device=cuda", "dist.ranks=" + std::to_string(ranks),
                                "train.train_iters=3", "ddp.bucket_size=2000",
                                "train.micro_batch_size=1"};
}

using Outcomes = std::map<int, RunOutcome>;

/// The program of a rank, which stores its outcome.
inline auto training(const RunSetup& setup, Outcomes& outcomes, std::mutex& mutex) {
  return [&](std::shared_ptr<Communicator> world) {
    const int me = world->rank();
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    trainer.run();
    const std::lock_guard lock(mutex);
    outcomes[me] = {trainer.state(), {}, trainer.validations()};
  };
}

/// Of ranks that are threads of this process, with so many GPUs.
inline Outcomes started_together(const RunSetup& setup, int gpus) {
  Outcomes outcomes;
  std::mutex mutex;
  cuda_host::reset_runtime({.seed = 1, .devices = gpus});
  nccl_double::reset({.seed = 1});
  run_ranks(setup.config.dist, {}, training(setup, outcomes, mutex));
  return outcomes;
}

}  // namespace viaduct::test
