#include "pipeline/pipeline_config.h"

#include <limits>

#include "pipeline/stage_layout.h"

namespace viaduct {
namespace {

void add_split(FieldGroup& group, PipelineConfig& config) {
  group
      .field("virtual_pipeline_model_parallel_size", config.virtual_pipeline_model_parallel_size,
             "Model chunks of a stage (interleaved 1F1B); null: one, or as in "
             "pipeline_model_parallel_layout.")
      .range(1)
      .constraint("pp > 1; divides layers of a stage")
      .decides(LayoutPart::vpp);
  group
      .field("account_for_embedding_in_pipeline_split",
             config.account_for_embedding_in_pipeline_split,
             "The embedding counts as one layer when layers are cut into stages.")
      .constraint(
          "layers + 1 (with loss: + 2) divisible by pp · virtual stages; excludes explicit first "
          "and last stages");
  group
      .field("account_for_loss_in_pipeline_split", config.account_for_loss_in_pipeline_split,
             "The loss layer counts as one layer when layers are cut into stages.")
      .constraint("as account_for_embedding_in_pipeline_split");
  group
      .field("num_layers_in_first_pipeline_stage", config.num_layers_in_first_pipeline_stage,
             "Layers of the first stage; the stages without a number of their own share the rest "
             "evenly.")
      .range(1)
      .constraint("divisible by virtual stages");
  group
      .field("num_layers_in_last_pipeline_stage", config.num_layers_in_last_pipeline_stage,
             "Layers of the last stage; the stages without a number of their own share the rest "
             "evenly.")
      .range(1)
      .constraint("divisible by virtual stages");
  group
      .field("pipeline_model_parallel_layout", config.pipeline_model_parallel_layout,
             "Stages written out: E embedding, t layer, L loss, `|` ends a stage (`||`: one "
             "without layers), `(x)*n` and `x*n` repeat, commas and spaces are ignored; or a list "
             "with one text a stage. Stage "
             "i of the text is chunk i / pp of rank i % pp (in a V: on the way back, rank pp - 1 - "
             "i % pp).")
      .constraint(
          "one E first, one L last, as many t as layers; number of stages divisible by pp; "
          "excludes the other ways to cut");
}

void add_order(FieldGroup& group, PipelineConfig& config) {
  group
      .field("pipeline_schedule", config.pipeline_schedule,
             "Order of a stage's forwards and backwards: 1f1b (one forward, one backward; "
             "interleaved where a stage has several chunks), gpipe (all forwards, then all "
             "backwards), zero_bubble (ZB-H1: 1f1b whose weight gradients fill the bubble), "
             "dualpipe_v (two chunks a stage, down the stages and back up, forwards beside "
             "backwards). dualpipe is refused: it holds all parameters twice.")
      .constraint(
          "gpipe and zero_bubble have one chunk a stage; dualpipe_v has two, at least 2 · pp "
          "micro-batches and overlapped messages");
  group
      .field("microbatch_group_size_per_vp_stage", config.microbatch_group_size_per_vp_stage,
             "Micro-batches that a virtual stage runs before the next chunk; null: pp.")
      .range(1)
      .constraint("pp <= value <= micro-batches; divides them or leaves at least pp");
  group.field("deallocate_pipeline_outputs", config.deallocate_pipeline_outputs,
              "A sent activation is freed; else it is held until its backward.");
}

void add_messages(FieldGroup& group, PipelineConfig& config) {
  group
      .field("pipeline_dtype", config.pipeline_dtype,
             "Format of messages between stages, to which activations and their gradients are "
             "rounded on the way; null: that of the residual stream. No effect at pp = 1.")
      .one_of({NumberFormat::fp32, NumberFormat::bf16, NumberFormat::fp16});
  group
      .field(
          "variable_seq_lengths", config.variable_seq_lengths,
          "The shapes of a step's messages between stages go ahead of them, and are compared with "
          "the batch that the receiver reads. No effect at pp = 1.")
      .constraint("excludes comm_overlap.tp_comm_overlap and moe_token_dispatcher_type=allgather");
  group
      .field("batch_p2p_comm", config.batch_p2p_comm,
             "A stage's send and receive are started as one group; auto: not where "
             "comm_overlap.overlap_p2p_comm is on.")
      .constraint("excludes comm_overlap.overlap_p2p_comm")
      .alias("comm_overlap.batch_p2p_comm");
  group
      .field("overlap_p2p_comm_warmup_flush", config.overlap_p2p_comm_warmup_flush,
             "Sends and receives overlap in warm-up and drain too.")
      .constraint("needs comm_overlap.overlap_p2p_comm")
      .alias("comm_overlap.overlap_p2p_comm_warmup_flush");
}

}  // namespace

int PipelineConfig::virtual_stages(int pp) const {
  if (virtual_pipeline_model_parallel_size || !pipeline_model_parallel_layout)
    return virtual_stages();
  Problems ignored;  // reported by validation
  const auto stages = parse_stage_layout(*pipeline_model_parallel_layout, 0, pp, ignored);
  return ignored.empty() ? static_cast<int>(stages.size()) / pp : 1;
}

void PipelineConfig::resolve(int pp) {
  if (pipeline_model_parallel_layout) virtual_pipeline_model_parallel_size = virtual_stages(pp);
  overlap_p2p_comm.resolve(pp > 1 && virtual_stages() > 1 && !batch_p2p_comm.value_or(false));
  batch_p2p_comm.resolve(!overlap_p2p_comm.value());
}

int64_t PipelineConfig::deferred_micro_batches() const {
  if (!defer_embedding_wgrad_compute) return 0;
  return wgrad_deferral_limit == 0 ? std::numeric_limits<int64_t>::max() : wgrad_deferral_limit;
}

FieldGroup pipeline_fields(PipelineConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  add_split(group, config);
  add_order(group, config);
  add_messages(group, config);
  return group;
}

FieldGroup pipeline_overlap_fields(PipelineConfig& config) {
  FieldGroup group("comm_overlap", "");
  group.on_resume(resume::free);
  group
      .field("overlap_p2p_comm", config.overlap_p2p_comm,
             "Sends and receives between stages are posted early and waited for just before use; "
             "auto: if pp > 1 with virtual stages.")
      .constraint("excludes model.batch_p2p_comm")
      .alias("model.overlap_p2p_comm");
  group
      .field("defer_embedding_wgrad_compute", config.defer_embedding_wgrad_compute,
             "Weight gradients of the output layer are deferred until the pipeline drains; their "
             "inputs are kept: normed tokens and gradients of logits of wgrad_deferral_limit "
             "micro-batches.")
      .constraint(
          "pp > 1; wgrad_deferral_limit >= 0; gradient_accumulation_fusion; not with "
          "pipeline_schedule=zero_bubble, which delays all weight gradients")
      .alias("model.defer_embedding_wgrad_compute");
  group
      .field("wgrad_deferral_limit", config.wgrad_deferral_limit,
             "Number of micro-batches at the start of a step whose output-layer weight gradient is "
             "deferred; 0: all; "
             "-1: not given.")
      .range(-1)
      .in("micro-batches")
      .constraint("above 0 needs defer_embedding_wgrad_compute")
      .alias("model.wgrad_deferral_limit")
      .idle([&config] { return !config.defer_embedding_wgrad_compute; },
            "comm_overlap.defer_embedding_wgrad_compute is off");
  group
      .field(
          "overlap_moe_expert_parallel_comm", config.overlap_moe_expert_parallel_comm,
          "The forward of a micro-batch alternates with the backward of another one: each computes "
          "while the rows of the other's experts are exchanged. A stage has one more micro-batch "
          "in flight.")
      .constraint(
          "expert_model_parallel_size > 1, moe_token_dispatcher_type=alltoall or flex, a 16-bit "
          "recipe, "
          "pipeline_schedule=1f1b with virtual stages if pp > 1, no full recompute nor that of "
          "moe, "
          "no moe_shared_expert_overlap, mtp_num_layers <= 1")
      .alias("model.overlap_moe_expert_parallel_comm");
  group
      .field("delay_wgrad_compute", config.delay_wgrad_compute,
             "Weight gradients of layers are computed after the exchange of the gradients of their "
             "inputs has begun.")
      .constraint("needs overlap_moe_expert_parallel_comm")
      .alias("model.delay_wgrad_compute");
  return group;
}

}  // namespace viaduct
