#include "pipeline/pipeline_settings.h"

namespace viaduct {
namespace {

ScheduleKind kind_of(const PipelineConfig& config, int virtual_stages) {
  switch (config.pipeline_schedule) {
    case PipelineOrder::gpipe:
      return ScheduleKind::gpipe;
    case PipelineOrder::zero_bubble:
      return ScheduleKind::zb_h1;
    case PipelineOrder::dualpipe_v:
      return ScheduleKind::dualpipe_v;
    case PipelineOrder::one_f_one_b:
    case PipelineOrder::dualpipe:  // refused before
      break;
  }
  return virtual_stages > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
}

PointToPoint messages_of(const PipelineConfig& config) {
  if (config.overlap_p2p_comm.value()) return PointToPoint::overlapped;
  return config.batch_p2p_comm.value() ? PointToPoint::batched : PointToPoint::ordered;
}

}  // namespace

ScheduleSettings schedule_settings(const PipelineConfig& config, int virtual_stages,
                                   int front_stages) {
  ScheduleSettings s;
  s.kind = kind_of(config, virtual_stages);
  s.virtual_stages = virtual_stages;
  s.front_stages = front_stages;
  s.group = config.microbatch_group_size_per_vp_stage.value_or(0);
  s.messages = messages_of(config);
  s.overlap_warmup_flush =
      config.overlap_p2p_comm_warmup_flush || s.kind == ScheduleKind::dualpipe_v || s.has_front();
  s.deferred_heads = config.deferred_micro_batches();
  s.combines = config.overlap_moe_expert_parallel_comm;
  s.delays_weights = config.delay_wgrad_compute;
  return s;
}

ExecutorSettings executor_settings(const PipelineConfig& config) {
  return {config.deallocate_pipeline_outputs, config.variable_seq_lengths};
}

std::optional<DType> message_format(const PipelineConfig& config) {
  if (!config.pipeline_dtype) return std::nullopt;
  return format_dtype(*config.pipeline_dtype);
}

}  // namespace viaduct
