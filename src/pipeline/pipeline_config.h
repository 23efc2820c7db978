#pragma once
// The cut of layers into stages, the order of micro-batches, and the messages between stages
// (sections `model` and `comm_overlap`; the number of stages is a size of the mesh,
// comm/dist_config.h).

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"
#include "config/one_or_list.h"
#include "pipeline/pipeline_order.h"
#include "tensor/format_name.h"

namespace viaduct {

struct PipelineConfig {
  // The layers of each stage.
  /// Model chunks of a stage; null: one, or as in the layout.
  std::optional<int> virtual_pipeline_model_parallel_size;
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;
  std::optional<int> num_layers_in_first_pipeline_stage;
  std::optional<int> num_layers_in_last_pipeline_stage;
  /// Text with `|` between stages, or a list with one text a stage.
  std::optional<OneOrList<std::string>> pipeline_model_parallel_layout;

  // The order of work.
  PipelineOrder pipeline_schedule = PipelineOrder::one_f_one_b;
  /// Micro-batches that a stage runs on a chunk before the next one; null: pp.
  std::optional<int> microbatch_group_size_per_vp_stage;
  bool deallocate_pipeline_outputs = true;

  // Messages between stages.
  std::optional<NumberFormat> pipeline_dtype;  // null: that of the residual stream
  bool variable_seq_lengths = false;
  /// `auto`: not where sends and receives overlap.
  Auto<bool> batch_p2p_comm;
  /// `auto`: pp > 1 with virtual stages.
  Auto<bool> overlap_p2p_comm;
  bool overlap_p2p_comm_warmup_flush = false;

  // Weight gradients of the output layer after the drain.
  bool defer_embedding_wgrad_compute = false;
  int wgrad_deferral_limit = -1;  // micro-batches; 0: all

  // Exchanges of experts' rows during the compute of another micro-batch.
  bool overlap_moe_expert_parallel_comm = false;
  bool delay_wgrad_compute = false;

  /// Number of micro-batches with a deferred weight gradient of the output layer; all: the largest
  /// number.
  int64_t deferred_micro_batches() const;
  int virtual_stages() const { return virtual_pipeline_model_parallel_size.value_or(1); }
  /// The same before `resolve`: where only the layout says how many each of `pp` stages has.
  int virtual_stages(int pp) const;
  /// Whether the schedule itself runs weight gradients later than input gradients.
  bool delays_weight_gradients() const {
    return pipeline_schedule == PipelineOrder::zero_bubble ||
           pipeline_schedule == PipelineOrder::dualpipe_v;
  }
  int group_size(int pp) const { return microbatch_group_size_per_vp_stage.value_or(pp); }
  /// Replaces each `auto` for `pp` stages.
  void resolve(int pp);
};

/// Fields of section `model`.
FieldGroup pipeline_fields(PipelineConfig& config);
/// Fields of section `comm_overlap`.
FieldGroup pipeline_overlap_fields(PipelineConfig& config);

}  // namespace viaduct
