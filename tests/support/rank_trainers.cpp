#include "support/rank_trainers.h"

#include "base/error.h"
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

std::vector<std::string> errors_of_ranks(const RunSetup& setup,
                                         FunctionRef<void(int rank, int64_t step)> between,
                                         const std::function<void(OpTable& ops)>& change) {
  std::vector<std::string> texts(static_cast<size_t>(setup.config.dist.ranks));
  try {
    run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
      const int number = world->rank();
      RankDevice rank = make_rank_device(setup.config.dist);
      if (change) change(rank.ops);
      Trainer* running = nullptr;
      TrainerHooks hooks{.peak_effort = PeakEffort::glance};
      hooks.stop_requested = [&] {
        between(number, running->state().step);
        return false;
      };
      Trainer trainer(setup, *rank.device, rank.ops, hooks, std::move(world));
      running = &trainer;
      try {
        trainer.run();
      } catch (const std::exception& error) {
        texts[static_cast<size_t>(number)] = error.what();
        throw;
      }
    });
  } catch (const Error&) {  // the first rank's
  }
  return texts;
}

std::vector<RunOutcome> train_ranks(const Overrides& overrides) {
  const RunSetup setup = setup_of(overrides);
  std::vector<RunOutcome> outcomes(static_cast<size_t>(setup.config.dist.ranks));
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    RunOutcome& outcome = outcomes[static_cast<size_t>(world->rank())];
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance},
                    std::move(world));
    trainer.run();
    outcome = outcome_of(trainer);
  });
  return outcomes;
}

}  // namespace viaduct::test
