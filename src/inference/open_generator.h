#pragma once
// The generator of a run's model, on a rank, with its weights.

#include <memory>

#include "generate/generator.h"
#include "run/resolved_run.h"
#include "run/setup.h"

namespace viaduct {

/// For texts of up to `positions` tokens, without weights. `run` outlives it. Every rank of `world`
/// makes the same call. Errors as Generator.
Generator open_generator(const RunSetup& setup, const ResolvedRun& run, int64_t positions,
                         Device& device, const OpTable& ops, std::shared_ptr<Communicator> world);

/// Reads the rank's weights from the model folder of `setup`, and those of its adapters, which have
/// the numbers 1, 2, … of Generator::use in their order there. Every rank of `world` makes the same
/// call.
void read_weights(Generator& generator, const RunSetup& setup, Communicator& world);

}  // namespace viaduct
