#include "train/replica_check.h"

#include "base/hash.h"
#include "comm/exchange_texts.h"
#include "train/host_values.h"

namespace viaduct {
namespace {

struct Copy {
  std::string name;
  Tensor tensor;
};

/// The hash in two numbers that a double holds.
std::vector<double> hash_of(Device& device, const Tensor& tensor) {
  const Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  const uint64_t hash =
      hash64({static_cast<const char*>(host.raw()), static_cast<size_t>(host.bytes())});
  return {static_cast<double>(hash >> 32), static_cast<double>(hash & 0xffffffffu)};
}

/// The first of this rank's copies that is not what rank 0 of the group has; "" if all are.
std::string first_difference(Device& device, Communicator& group, const std::vector<Copy>& copies) {
  if (group.size() == 1) return "";
  std::vector<double> mine;
  for (const Copy& copy : copies) {
    for (const double half : hash_of(device, copy.tensor)) mine.push_back(half);
  }
  const auto all = all_gather_values(group, mine);
  for (size_t i = 0; i < copies.size(); ++i) {
    if (mine[2 * i] != all[0][2 * i] || mine[2 * i + 1] != all[0][2 * i + 1]) return copies[i].name;
  }
  return "";
}

}  // namespace

std::string differing_replica(Engine& engine) {
  ParameterStore& store = engine.store();
  store.finish_gathers();
  std::vector<Copy> weights, masters;
  for (const Parameter* parameter : store.parameters())
    weights.push_back({"weight " + parameter->path, store.weight(*parameter)});
  for (const ShardRun& run : store.shard_runs())
    masters.push_back({"master of " + run.parameter->path, run.master});
  const ParallelGroups& groups = engine.groups();
  std::string mine = first_difference(engine.device(), *groups.dp_cp, weights);
  const std::string master = first_difference(engine.device(), *groups.dp_cp_outer, masters);
  if (mine.empty()) mine = master;
  const std::vector<std::string> texts = exchange_texts(*groups.world, mine);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) {
      return fmt::format(
          "rank {}: {} is not what the first data-parallel rank has, of which it is "
          "a copy (train.check_weight_hash_across_dp_replicas_interval)",
          rank, texts[rank]);
    }
  }
  return "";
}

}  // namespace viaduct
