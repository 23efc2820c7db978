#include "engine/replica_check.h"

#include "base/hash.h"

namespace viaduct {
namespace {

struct Copy {
  std::string name;
  Tensor tensor;
};

uint64_t hash_of(Device& device, const Tensor& tensor) {
  const Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  return hash64({static_cast<const char*>(host.raw()), static_cast<size_t>(host.bytes())});
}

/// The first of this rank's copies that is not what rank 0 of the group has; "" if all are.
std::string first_difference(Device& device, Communicator& group, const std::vector<Copy>& copies) {
  if (group.size() == 1) return "";
  std::string mine;
  for (const Copy& copy : copies) {
    const uint64_t hash = hash_of(device, copy.tensor);
    mine.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  }
  const std::string first = group.host().text_of_rank_0(mine);
  for (size_t i = 0; i < copies.size(); ++i) {
    if (mine.compare(i * sizeof(uint64_t), sizeof(uint64_t), first, i * sizeof(uint64_t),
                     sizeof(uint64_t)) != 0)
      return copies[i].name;
  }
  return "";
}

}  // namespace

std::string differing_replica(Engine& engine) {
  ParameterStore& store = engine.store();
  std::vector<Copy> weights, masters;
  if (!store.shards_weights()) {
    store.finish_gathers();
    for (const Parameter* parameter : store.parameters())
      weights.push_back({"weight " + parameter->path, store.weight(*parameter)});
  }
  for (const ShardRun& run : store.shard_runs()) {
    // Of shards the instances alone have copies.
    if (store.shards_weights()) masters.push_back({"weight of " + run.parameter->path, run.weight});
    masters.push_back({"master of " + run.parameter->path, run.master});
  }
  const ParallelGroups& groups = engine.groups();
  std::string mine = first_difference(engine.device(), groups.dp_cp(), weights);
  const std::string master = first_difference(engine.device(), groups.dp_cp_outer(), masters);
  if (mine.empty()) mine = master;
  const auto found = groups.world().host().first_text(mine);
  if (!found) return "";
  return fmt::format(
      "rank {}: {} is not what the first data-parallel rank has, of which it is a copy "
      "(train.check_weight_hash_across_dp_replicas_interval)",
      found->rank, found->text);
}

}  // namespace viaduct
