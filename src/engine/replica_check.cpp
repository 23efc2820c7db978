#include "engine/replica_check.h"

#include "base/hash.h"

namespace viaduct {
namespace {

struct Copy {
  std::string name;
  Tensor tensor;  // perhaps in the second memory
  Grid grid;
};

uint64_t hash_of(Device& device, const Tensor& tensor) {
  const Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  return hash64({static_cast<const char*>(host.raw()), static_cast<size_t>(host.bytes())});
}

/// The first of this rank's copies that differs from rank 0 of the group; "" if none does.
std::string difference_among(Engine& engine, Communicator& group, const std::vector<Copy>& copies) {
  if (group.size() == 1 || copies.empty()) return "";
  BlockCursor cursor(engine.store().offloaded(), BlockCursor::Access::read);
  std::string mine;
  for (const Copy& copy : copies) {
    const uint64_t hash = hash_of(engine.device(), cursor.at(copy.tensor));
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

/// The same of dense copies over the data-parallel ranks, and of experts' over theirs.
std::string first_difference(Engine& engine, const std::vector<Copy>& copies,
                             std::initializer_list<Axis> dense,
                             std::initializer_list<Axis> experts) {
  std::vector<Copy> of_grid[2];
  for (const Copy& copy : copies) of_grid[copy.grid == Grid::expert ? 1 : 0].push_back(copy);
  const ParallelGroups& groups = engine.groups();
  const std::string found =
      difference_among(engine, *groups.of(Grid::attention, dense), of_grid[0]);
  if (of_grid[1].empty()) return found;
  const std::string found_of_experts =
      difference_among(engine, *groups.of(Grid::expert, experts), of_grid[1]);
  return found.empty() ? found_of_experts : found;
}

}  // namespace

std::string differing_replica(Engine& engine) {
  ParameterStore& store = engine.store();
  std::vector<Copy> weights, masters;
  if (!store.shards_weights()) {
    store.finish_gathers();
    for (const Parameter* parameter : store.parameters()) {
      if (parameter->stored == BaseFormat::blocks) continue;  // the bytes of the model's file
      if (!store.passes_gradients(*parameter)) {
        weights.push_back({"weight " + parameter->path, store.weight(*parameter), parameter->grid});
        continue;
      }
      const Operand form = store.acquire(*parameter, WeightUse::forward, 0);
      store.release(*parameter, WeightUse::forward);
      for (const Tensor& part : {form.values(), form.scales()})
        weights.push_back({"weight " + parameter->path, part, parameter->grid});
    }
  }
  // Only the instances have copies of shards, and of masters unless they share them.
  std::vector<Copy> shards;
  for (const ParameterBuffer& buffer : store.buffers()) {
    for (size_t i = 0; store.shards_weights() && i < buffer.parameters().size(); ++i) {
      const Parameter& parameter = *buffer.parameters()[i];
      if (const Tensor weight = buffer.weight_in_shard(i))
        shards.push_back({"weight of " + parameter.path, weight, parameter.grid});
    }
  }
  for (const ShardRun& run : store.shard_runs()) {
    if (store.copies_of_runs().size() > 1)
      masters.push_back({"master of " + run.parameter->path, run.master, run.parameter->grid});
  }
  std::string mine = first_difference(engine, weights, {Axis::dp, Axis::cp}, {Axis::dp});
  const std::string shard = first_difference(engine, shards, {Axis::dp_outer}, {Axis::dp_outer});
  const std::string master = first_difference(engine, masters, {Axis::dp_outer}, {Axis::dp_outer});
  if (mine.empty()) mine = shard.empty() ? master : shard;
  const auto found = engine.groups().world().host().first_text(mine);
  if (!found) return "";
  return fmt::format(
      "rank {}: {} differs from the copy of the first data-parallel rank "
      "(train.check_weight_hash_across_dp_replicas_interval)",
      found->rank, found->text);
}

}  // namespace viaduct
