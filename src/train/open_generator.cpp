#include "train/open_generator.h"

#include "train/base_model.h"

namespace viaduct {

Generator open_generator(const RunSetup& setup, const ResolvedRun& run, int64_t positions,
                         Device& device, const OpTable& ops, std::shared_ptr<Communicator> world) {
  const GeneratorSettings settings{run.layers, run.parallelism, run.memory, positions};
  return {device, ops, setup.model, settings, make_groups(run, std::move(world))};
}

void read_weights(Generator& generator, const RunSetup& setup, Communicator& world) {
  OpContext context = generator.context();
  read_checked_weights(context, generator.store(), setup, world);
  generator.store().make_derived_weights();
}

}  // namespace viaduct
