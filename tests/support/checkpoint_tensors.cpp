#include "support/checkpoint_tensors.h"

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/logical_gather.h"
#include "checkpoint/parameter_io.h"
#include "support/tensor_bytes.h"
#include "train/checkpoint_shards.h"

namespace viaduct::test {

std::map<std::string, std::string> saved_tensors(const std::filesystem::path& folder) {
  const auto reader = open_checkpoint(folder);
  reader->verify();
  std::map<std::string, std::string> tensors;
  for (const TensorInfo& info : reader->tensors())
    tensors[info.name] = bytes_of(reader->tensor(info.name));
  return tensors;
}

std::map<std::string, std::string> held_tensors(Engine& engine, Communicator& world) {
  std::map<std::string, std::string> tensors;
  const auto gather = [&](const std::string& prefix,
                          FunctionRef<StateValues(const ShardRun&, size_t)> values) {
    const Communicator& copies = engine.store().copies_of_runs();
    gather_logical(
        world, engine.device(),
        share_of_copies(stored_runs(engine.store(), values), copies.rank(), copies.size()), 1,
        [&](const std::string& name, const Tensor& tensor) {
          tensors[prefix + name] = bytes_of(tensor);
        });
  };
  gather("", [](const ShardRun& run, size_t) { return run.master_state(); });
  for (const OptimizerState& state : engine.optimizer()->states())
    gather(state.prefix, [&](const ShardRun&, size_t i) { return state.runs[i]; });
  return tensors;
}

}  // namespace viaduct::test
