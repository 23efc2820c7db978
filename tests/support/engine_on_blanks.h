#pragma once
// An engine of one rank with its device, and steps of it on rows of zeros.

#include <map>
#include <string>

#include "engine/dry_run.h"
#include "engine/engine.h"
#include "run/rank_device.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct::test {

struct EngineOnBlanks {
  /// With its first weights.
  explicit EngineOnBlanks(const Overrides& overrides)
      : setup(setup_of(overrides)),
        rank(make_rank_device(setup.config.dist)),
        run(resolve_run(setup.config, setup.model)),
        engine(*rank.device, rank.ops, setup.model, run) {
    engine.initialize();
  }

  /// The first `count` steps, at a learning rate of 0.01.
  void steps(int64_t count) {
    for (int64_t step = 1; step <= count; ++step) {
      StepInputs inputs;
      inputs.learning_rate = 1e-2;
      inputs.update = step;
      engine.begin_step(inputs);
      run_blank_batches(setup, engine);
      engine.finish_step(1);
    }
  }

  /// The bytes of the parameters that train, or of the frozen ones, by path.
  std::map<std::string, std::string> weights(bool trained) const {
    std::map<std::string, std::string> bytes;
    for (const Parameter* parameter : engine.store().parameters())
      if (parameter->trained == trained)
        bytes[parameter->path] = bytes_of(engine.store().weight(*parameter));
    return bytes;
  }
  int64_t bytes(MemoryTag tag) const {
    return rank.device->memory().bytes_by_tag[static_cast<size_t>(tag)];
  }

  RunSetup setup;
  RankDevice rank;
  ResolvedRun run;
  Engine engine;
};

}  // namespace viaduct::test
