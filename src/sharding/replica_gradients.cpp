#include "sharding/replica_gradients.h"

#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// A flat tensor at its place in a message.
struct Piece {
  Tensor tensor;
  int64_t begin = 0;
};

/// Sums the pieces over a group in one message of so many elements. What no piece fills is zero.
void sum_in_message(OpContext& context, const std::vector<Piece>& pieces, int64_t elements,
                    DType format, Communicator& group, OffloadedBlocks* blocks) {
  const Tensor message = context.allocate(format, {elements}, MemoryTag::main_gradients);
  int64_t filled = 0;
  for (const Piece& piece : pieces) filled += piece.tensor.elements();
  if (filled < elements) fill(context, {message, 0});
  const auto for_each_place = [&](BlockCursor::Access access, auto&& f) {
    BlockCursor cursor(blocks, access);
    for (const Piece& piece : pieces) {
      const int64_t size = piece.tensor.elements();
      f(cursor.at(piece.tensor), message.slice(0, piece.begin, size));
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

/// Sums flat tensors over a group in one message.
void sum_coalesced(OpContext& context, const std::vector<Tensor>& tensors, Communicator& group,
                   OffloadedBlocks* blocks) {
  if (tensors.empty()) return;
  if (tensors.size() == 1 && blocks == nullptr)
    return group.all_reduce(tensors.front(), ReduceOp::sum).wait();
  std::vector<Piece> pieces;
  int64_t elements = 0;
  for (const Tensor& tensor : tensors) {
    pieces.push_back({tensor, elements});
    elements += tensor.elements();
  }
  sum_in_message(context, pieces, elements, tensors.front().dtype(), group, blocks);
}

/// A table of stages whose tensor sizes differ: copies and shards of it are cut in different places
/// on the two sides. The message is what one rank has on the side with fewer tensor ranks; each
/// rank of the group fills its own run of it.
void sum_across_the_split(OpContext& context, const Parameter& table,
                          const std::vector<ShardRun>& runs, const ParallelGroups& groups,
                          OffloadedBlocks* blocks) {
  const Communicator& parts = *groups.of(GroupKind::tp_split);
  const int64_t elements = table.shape.elements();
  std::vector<Piece> pieces;
  for (const ShardRun& run : runs) {
    if (run.parameter == &table)
      pieces.push_back({run.gradient, parts.rank() * elements + run.range.begin});
  }
  // A rank without a run of the table has others, of the same format.
  const DType format = runs.empty() ? DType::f32 : runs.front().gradient.dtype();
  sum_in_message(context, pieces, parts.size() * elements, format, *groups.of(table.holders_group),
                 blocks);
}

/// Whether the ranks of its group are more than one in each stage that holds it.
bool is_cut_in_two_ways(const Parameter& shared, const ParallelGroups& groups) {
  return groups.of(shared.holders_group)->size() > static_cast<int>(shared.holders.size());
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

void sum_replica_gradients(OpContext& context, const std::vector<const Parameter*>& parameters,
                           const std::vector<ShardRun>& runs, const ParallelGroups& groups,
                           OffloadedBlocks* blocks) {
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
    for (const Parameter* parameter : parameters) {
      if (!parameter->trained || parameter->holders.empty() || parameter->holders_group != kind)
        continue;
      if (is_cut_in_two_ways(*parameter, groups)) {
        sum_across_the_split(context, *parameter, runs, groups, blocks);
        continue;
      }
      for (const ShardRun& run : runs)
        if (run.parameter == parameter) shared.push_back(run.gradient);
    }
    if (shared.empty()) continue;
    if (Communicator& stages = *groups.of(kind); stages.size() > 1)
      sum_coalesced(context, shared, stages, blocks);
  }
}

}  // namespace viaduct
