#include <mutex>

#include "comm/world.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/passing_model.h"

namespace viaduct::test {

PassingRank::PassingRank()
    : device_(make_cpu_device(1)),
      ops_(cpu_ops(instruction_set())),
      context_{.ops = {*device_, ops_},
               .weights = weights_,
               .groups = groups_,
               .settings = settings_,
               .training = true} {}

PassingOutcome run_passing_model(const PassingRun& run) {
  const int pp = run.schedule.pp, stages = pp * run.schedule.virtual_stages;
  PassingOutcome outcome;
  outcome.sent_bytes.resize(static_cast<size_t>(pp));
  std::mutex mutex;
  run_thread_ranks(pp, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
    PassingRank rank;
    PassingNotes notes;
    std::vector<ModelChunk> chunks;
    for (int i = 0; i < run.schedule.virtual_stages; ++i)
      chunks.push_back(passing_chunk(i * pp + world->rank(), stages, notes));
    const auto model = passing_model(std::move(chunks));
    world->record_on(&rank.device());
    StepRecord record;
    rank.device().set_record(&record);
    ModelStage stage(*model, rank.context(),
                     {.message_format = run.message_format,
                      .has_backward = run.schedule.backward,
                      .saved_policy = &run.policy},
                     kPassingBatches);
    run_schedule(stage_schedule(run.schedule, world->rank()), stage, *world, run.executor);
    rank.device().set_record(nullptr);
    world->record_on(nullptr);
    const std::lock_guard lock(mutex);
    outcome.notes.outputs.merge(notes.outputs);
    outcome.notes.gradients.merge(notes.gradients);
    for (const CollectiveRecord& c : record.collectives()) {
      if (c.operation == Collective::send)
        outcome.sent_bytes[static_cast<size_t>(world->rank())] += c.bytes;
    }
  });
  return outcome;
}

}  // namespace viaduct::test
