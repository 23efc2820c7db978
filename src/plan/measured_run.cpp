#include "plan/measured_run.h"

#include <algorithm>
#include <string_view>

#include "plan/collective_time.h"
#include "plan/op_time.h"
#include "timeline/resolver.h"

namespace viaduct {
namespace {

/// The scope of a micro-batch or of the optimizer around `scope`; null: none of them.
const ScopeRecord* phase_around(const StepRecord& record, int64_t scope) {
  while (scope >= 0) {
    const ScopeRecord& around = record.scopes()[static_cast<size_t>(scope)];
    if (around.micro_batch >= 0 || around.name == "optimizer") return &around;
    scope = around.parent;
  }
  return nullptr;
}

enum class EndOfModel { other, embedding, encoder };

/// Whose op a scope is, by the name of the layer.
EndOfModel end_around(const StepRecord& record, int64_t scope) {
  for (; scope >= 0; scope = record.scopes()[static_cast<size_t>(scope)].parent) {
    const ScopeRecord& around = record.scopes()[static_cast<size_t>(scope)];
    if (around.kind != ScopeKind::segment) continue;
    const std::string_view name = around.name, layer = name.substr(0, name.find('.'));
    if (layer == "embedding") return EndOfModel::embedding;
    // The features are gathered where the decoder reads them.
    if (layer == "encoder" || (layer == "vision" && !name.starts_with("vision.gather")))
      return EndOfModel::encoder;
  }
  return EndOfModel::other;
}

/// Whether an op may take longer for the first micro-batch than for others: it makes quantized
/// operands, of weights once and of activations for each, or clears gradients, as that of a table
/// of tokens does before it adds to rows. A lower bound does not count it.
bool takes_longer_at_first(const OpEntryRecord& op) {
  return op.op == "fill" || op.op == "embedding_backward" || op.op == "convert_operand" ||
         op.op == "largest_magnitude" || op.op == "note_amax" ||
         std::string_view(op.op).starts_with("square_");
}

/// Whether a group sums gradients or gathers weights, which is not each micro-batch's.
bool of_data_ranks(const std::string& group) {
  return group.starts_with("dp") || group.starts_with("expert_dp");
}

}  // namespace

double peak_bytes_of(const DryRun& run, MemoryTag tag) {
  const auto found = run.peak.bytes_by_tag.find(std::string(memory_tag_name(tag)));
  return found == run.peak.bytes_by_tag.end() ? 0 : static_cast<double>(found->second);
}

MeasuredRun measure_run(const RunSetup& setup, const PlanRequest& request, bool hides_exchange,
                        bool with_data_ranks, const Deadline& deadline) {
  StepRecord record;
  MeasuredRun measured{dry_run(setup, {0}, &record, false, false, {deadline})};
  const SequenceWindow& step = measured.run.windows[static_cast<size_t>(MemorySequence::step)];
  const OpTime time(request.cluster.gpu, request.prediction.ops);
  const CollectiveTime collective_time(request.cluster, request.prediction.collectives);
  const double share = request.prediction.spec_sheet ? 1 : request.cluster.gpu.step_share;
  const int64_t first = measured.run.windows[static_cast<size_t>(MemorySequence::initialize)].end;
  const RankTimes times =
      resolve_times(
          {{0, &record, first, step.end}},
          {.op =
               [&](const OpEntryRecord& op) {
                 return takes_longer_at_first(op) ? 0 : time.seconds(op) / share;
               },
           .collective =
               [&](const CollectiveRecord& c) {
                 if (hides_exchange && c.group == "expert_tp_ep") return 0.0;
                 return with_data_ranks || !of_data_ranks(c.group) ? collective_time.seconds(c) : 0;
               },
           .slowdown = request.prediction.slowdown,
           .multiprocessors = request.cluster.gpu.multiprocessors})
          .front();
  double begin = times.end, end = 0;
  const auto add = [&](int64_t at, int64_t scope, const TimeSpan& span, bool op) {
    if (at < step.begin || at >= step.end) return;
    const ScopeRecord* phase = phase_around(record, scope);
    if (phase == nullptr) return;
    if (phase->micro_batch >= 0) {
      begin = std::min(begin, span.begin), end = std::max(end, span.end);
      if (!op) return;
      measured.op_seconds += span.seconds();
      const EndOfModel part = end_around(record, scope);
      if (part == EndOfModel::embedding) measured.embedding_seconds += span.seconds();
      if (part == EndOfModel::encoder) measured.encoder_seconds += span.seconds();
    } else if (op) {
      measured.update_seconds += span.seconds();
    }
  };
  for (size_t i = 0; i < times.ops.size(); ++i)
    if (record.ops()[i].stream == 0)
      add(record.ops()[i].at, record.ops()[i].scope, times.ops[i], true);
  for (size_t i = 0; i < times.collectives.size(); ++i) {
    const CollectiveRecord& c = record.collectives()[i];
    if (with_data_ranks || !of_data_ranks(c.group))
      add(c.launched_at, c.scope, {times.begun[i], times.collectives[i].end}, false);
  }
  measured.batch_seconds = std::max(0.0, end - begin);
  return measured;
}

}  // namespace viaduct
