#include "sharding/replica_gradients.h"

#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// Sums flat tensors over a group in one message.
void sum_coalesced(OpContext& context, const std::vector<Tensor>& tensors, Communicator& group,
                   OffloadedBlocks* blocks) {
  if (tensors.empty()) return;
  if (tensors.size() == 1 && blocks == nullptr)
    return group.all_reduce(tensors.front(), ReduceOp::sum).wait();
  int64_t elements = 0;
  for (const Tensor& tensor : tensors) elements += tensor.elements();
  const Tensor message =
      context.allocate(tensors.front().dtype(), {elements}, MemoryTag::main_gradients);
  const auto for_each_place = [&](BlockCursor::Access access, auto&& f) {
    BlockCursor cursor(blocks, access);
    int64_t begin = 0;
    for (const Tensor& tensor : tensors) {
      f(cursor.at(tensor), message.slice(0, begin, tensor.elements()));
      begin += tensor.elements();
    }
    cursor.finish();
  };
  for_each_place(BlockCursor::Access::read, [&](const Tensor& tensor, const Tensor& place) {
    copy(context, {tensor, place});
  });
  group.all_reduce(message, ReduceOp::sum).wait();
  for_each_place(BlockCursor::Access::change, [&](const Tensor& tensor, const Tensor& place) {
    copy(context, {place, tensor});
  });
}

std::vector<Tensor> partial_gradients(const std::vector<ShardRun>& runs, Replicas replicas) {
  std::vector<Tensor> list;
  for (const ShardRun& run : runs) {
    for (const Part& part : run.parameter->parts) {
      if (part.replicas != replicas || part.replica_gradient != ReplicaGradient::partial) continue;
      if (const auto both = overlap(run.range, part_range(*run.parameter, part)))
        list.push_back(run.gradient.slice(0, both->begin - run.range.begin, both->size()));
    }
  }
  return list;
}

}  // namespace

void sum_replica_gradients(OpContext& context, const std::vector<ShardRun>& runs,
                           const ParallelGroups& groups, OffloadedBlocks* blocks) {
  // A group of one has nothing to pack.
  if (groups.tp().size() > 1)
    sum_coalesced(context, partial_gradients(runs, Replicas::tp), groups.tp(), blocks);
  if (groups.tp_kv().size() > 1)
    sum_coalesced(context, partial_gradients(runs, Replicas::tp_kv), groups.tp_kv(), blocks);
  const std::vector<Tensor> of_experts = partial_gradients(runs, Replicas::expert_tp);
  if (!of_experts.empty())
    sum_coalesced(context, of_experts, *groups.of(GroupKind::expert_tp), blocks);
  // In one order on all stages, of which one may be in several groups.
  for (const GroupKind kind :
       {GroupKind::embedding, GroupKind::encoder_positions, GroupKind::decoder_positions}) {
    std::vector<Tensor> shared;
    for (const ShardRun& run : runs) {
      const Parameter& parameter = *run.parameter;
      if (!parameter.holders.empty() && parameter.holders_group == kind)
        shared.push_back(run.gradient);
    }
    if (shared.empty()) continue;
    if (Communicator& stages = *groups.of(kind); stages.size() > 1)
      sum_coalesced(context, shared, stages, blocks);
  }
}

}  // namespace viaduct
