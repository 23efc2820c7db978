#include "support/rank_trainers.h"

#include "run/launch.h"
#include "run/rank_device.h"

namespace viaduct::test {

void with_trainers(const Overrides& overrides,
                   FunctionRef<void(Trainer& trainer, Communicator& world)> body) {
  const RunSetup setup = setup_of(
      overrides + Overrides{"dist.threads_per_rank=1", "dist.distributed_timeout_minutes=1"});
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    body(trainer, *world);
  });
}

}  // namespace viaduct::test
