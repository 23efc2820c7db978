#include "plan/search_limits.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "config/load.h"
#include "run/run_length.h"

namespace viaduct {
namespace {

/// The fields of a request, read and not resolved.
struct Given {
  RunConfig config;
  ConfigOutcome all;        // of the file and the overrides
  ConfigOutcome overrides;  // these fix choices

  bool fixes(const std::string& name) const { return overrides.is_given(name); }
  bool fixes_any(std::initializer_list<const char*> names) const {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return fixes(name); });
  }
};

void read(const PlanRequest& request, const Variant* variant, Given& given) {
  Problems problems;
  RunConfig ignored;
  std::vector<std::string> overrides = request.overrides;
  if (variant != nullptr)
    overrides.insert(overrides.end(), variant->overrides.begin(), variant->overrides.end());
  given.all = read_config(run_schema(given.config), {request.file, overrides}, problems);
  given.overrides = read_config(run_schema(ignored), {{}, overrides}, problems);
  problems.throw_if_any();
}

}  // namespace

SearchLimits search_limits(const PlanRequest& request, const RunSetup& whole,
                           const Variant* variant) {
  Given given;
  read(request, variant, given);
  const RunConfig& config = given.config;
  SearchLimits limits;
  SpaceLimits& space = limits.space;
  space.ranks = config.dist.ranks;
  space.global_batch = batch_schedule(config).full();
  space.length = whole.config.model.seq_length.value();
  space.layers = whole.model.layers;
  space.prediction_layers = whole.model.mtp_layers;
  space.heads = whole.model.heads;
  space.feed_forward = whole.model.feed_forward;
  space.domain = request.cluster.domain;
  const VisionConfig& vision = whole.model.vision;
  if (vision.any()) {
    space.encoder_layers = std::max<int64_t>(1, vision.read_layers());
    space.encoder_width = std::gcd(std::gcd(vision.heads, vision.feed_forward), whole.model.hidden);
  } else {
    space.encoder_layers = whole.model.encoder.layers;
  }
  const ParallelConfig& sizes = config.parallel;
  if (given.fixes("model.tensor_model_parallel_size")) space.tp = sizes.tensor_model_parallel_size;
  if (given.fixes("model.context_parallel_size")) space.cp = sizes.context_parallel_size;
  if (given.fixes("model.pipeline_model_parallel_size"))
    space.pp = sizes.pipeline_model_parallel_size;
  if (given.fixes("model.virtual_pipeline_model_parallel_size"))
    space.vpp = config.pipeline.virtual_stages();
  if (given.fixes("model.encoder_pipeline_model_parallel_size"))
    space.encoder_stages = sizes.encoder_pipeline_model_parallel_size;
  if (given.fixes("model.encoder_tensor_model_parallel_size"))
    space.encoder_tp = sizes.encoder_tensor_model_parallel_size;
  if (given.fixes("train.micro_batch_size") && !config.train.micro_batch_size.is_auto())
    space.micro_batch = config.train.micro_batch_rows();
  space.given_recompute = given.fixes_any(
      {"model.recompute_granularity", "model.recompute_method", "model.recompute_num_layers",
       "model.num_microbatches_with_partial_activation_checkpoints"});
  space.given_sharding =
      given.fixes_any({"ddp.use_distributed_optimizer", "ddp.data_parallel_sharding_strategy",
                       "ddp.outer_dp_sharding_strategy", "ddp.num_distributed_optimizer_instances",
                       "dist.fsdp", "dist.use_megatron_fsdp", "dist.use_torch_fsdp2",
                       "model.tensor_parallel_num_weight_shards"});
  space.given_sequence_parallel = given.fixes("model.sequence_parallel");
  const PipelineConfig& pipeline = config.pipeline;
  space.account_for_embedding = pipeline.account_for_embedding_in_pipeline_split;
  space.account_for_loss = pipeline.account_for_loss_in_pipeline_split;
  space.given_stages = pipeline.pipeline_model_parallel_layout.has_value() ||
                       pipeline.num_layers_in_first_pipeline_stage.has_value() ||
                       pipeline.num_layers_in_last_pipeline_stage.has_value();
  if (pipeline.pipeline_schedule != PipelineOrder::one_f_one_b &&
      !space.vpp)  // others have a fixed number of chunks
    space.vpp = pipeline.pipeline_schedule == PipelineOrder::dualpipe_v ? 2 : 1;
  limits.has_bubble = !pipeline.delays_weight_gradients();
  limits.all_in_flight = pipeline.pipeline_schedule == PipelineOrder::gpipe;
  if (whole.model.moe.any()) {
    space.experts = whole.model.moe.experts;
    space.expert_feed_forward = whole.model.moe.feed_forward;
    space.whole_experts = whole.model.up_bias || whole.model.down_bias;
    if (given.fixes("model.expert_model_parallel_size"))
      space.ep = sizes.expert_model_parallel_size;
    if (given.fixes("model.expert_tensor_parallel_size")) space.etp = sizes.expert_tensor();
  }
  limits.not_searched.emplace_back(
      request.variants.empty()
          ? "precision, offload, schedule, buckets and overlap: they stay as given, unless --vary "
            "names them"
          : "all fields outside the layout that --vary does not name: they stay as given");
  return limits;
}

}  // namespace viaduct
