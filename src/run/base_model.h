#pragma once
// The frozen model under a run's adapters, as its checkpoints name it: by path and content.

#include <string>

#include "checkpoint/adapter_base.h"
#include "checkpoint/checkpoint_reader.h"
#include "comm/communicator.h"
#include "run/setup.h"
#include "sharding/parameter_store.h"

namespace viaduct {

/// What the adapters of the run stand on.
AdapterBase base_of(const RunSetup& setup);

/// ConfigError unless `checkpoint` is one of a run with adapters on the base of `now`; also if only
/// one of both has adapters, or the folder of peft.adapter says another rank or scale than the
/// checkpoint's.
void check_base(const CheckpointReader& checkpoint, const RunSetup& setup, const std::string& now);

/// check_adapter_bases of peft.adapter and the adapters that prompts name, where there are any:
/// rank 0 reads, all ranks get its error.
void check_adapter_bases_on_all(Communicator& world, const RunSetup& setup);

/// The weights of a run that only runs forwards (read_run_weights), once that check has passed.
void read_checked_weights(OpContext& context, ParameterStore& store, const RunSetup& setup,
                          Communicator& world);

}  // namespace viaduct
