#include "checkpoint/write_shards.h"

#include <set>

#include "checkpoint/parameter_io.h"

namespace viaduct {
namespace {

/// "optimizer.exp_avg/" of a moment, "" of a weight.
std::string prefix_of(const std::string& name) {
  return name.substr(0, name.find('/') + 1);
}

class PlannedShards {
 public:
  PlannedShards(const TensorSource& source, const TensorNames& names)
      : source_(source), names_(names) {
    for (const TensorInfo& info : source.tensors()) prefixes_.insert(prefix_of(info.name));
  }

  void write(ShardWriter& shard, std::vector<CheckpointEntry> pieces) {
    for (CheckpointEntry& entry : pieces)
      entry.tensor.name = stored_name(source_, entry.tensor.name, names_);
    for (const std::string& prefix : prefixes_) {
      for (const CheckpointEntry& entry : pieces) {
        const TensorInfo* info = source_.find(prefix + entry.tensor.name);
        if (info == nullptr) continue;
        planned_.insert(info->name);
        const Tensor data = host_tensor(info->dtype, {entry.piece.elements()});
        source_.read_into(info->name, entry.piece, static_cast<std::byte*>(data.raw()));
        shard.add({*info, entry.piece}, data);
      }
    }
  }

  void write_rest(ShardWriter& shard) const {
    for (const TensorInfo& info : source_.tensors()) {
      if (!planned_.contains(info.name)) shard.add(info.name, source_.tensor(info.name));
    }
    source_.check_read();
  }

 private:
  const TensorSource& source_;
  const TensorNames& names_;
  std::set<std::string> prefixes_, planned_;
};

}  // namespace

void write_shards(const ShardPlan& plan, const TensorSource& source, const TensorNames& names,
                  const std::filesystem::path& folder) {
  PlannedShards planned(source, names);
  // Shard 0 last: it gets the tensors in no other shard.
  for (int rank = plan.shards; rank-- > 0;) {
    ShardWriter shard(folder, rank);
    planned.write(shard, plan.pieces(rank));
    if (rank == 0) planned.write_rest(shard);
    shard.finish();
  }
}

}  // namespace viaduct
