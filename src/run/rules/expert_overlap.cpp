// Exchanges of experts' rows during the compute of another micro-batch.

#include <algorithm>

#include "precision/recipe.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

constexpr const char* kOverlap = "comm_overlap.overlap_moe_expert_parallel_comm: true";

/// Rules on the exchanged values and their formats.
void validate_exchange(const RunConfig& config, Problems& problems) {
  if (config.parallel.expert_model_parallel_size < 2) {
    problems.add("{} needs model.expert_model_parallel_size of at least 2, found {}", kOverlap,
                 config.parallel.expert_model_parallel_size);
  }
  const MoeFields& moe = config.model.moe;
  if (moe.moe_token_dispatcher_type == TokenDispatcher::allgather) {
    problems.add(
        "{} needs model.moe_token_dispatcher_type = alltoall or flex, found allgather, whose "
        "gathers cannot be split into a start and an end",
        kOverlap);
  }
  if (precision_recipe(config.mixed_precision).activation == DType::f32) {
    problems.add(
        "{} needs activations of 16 bits, but mixed_precision.recipe = {} has FP32; nearest: "
        "bf16_mixed",
        kOverlap, choice_name(config.mixed_precision.recipe));
  }
  if (moe.moe_shared_expert_overlap) {
    problems.add(
        "{} and model.moe_shared_expert_overlap = true exclude each other: both compute while the "
        "same rows are exchanged",
        kOverlap);
  }
}

/// Rules on where forwards and backwards of two micro-batches can alternate.
void validate_order(const RunConfig& config, Problems& problems) {
  const PipelineConfig& pipeline = config.pipeline;
  const int pp = config.parallel.pipeline_model_parallel_size;
  const PipelineOrder schedule = pipeline.pipeline_schedule;
  if (schedule != PipelineOrder::one_f_one_b && schedule != PipelineOrder::dualpipe_v) {
    problems.add(
        "{} needs model.pipeline_schedule = 1f1b or dualpipe_v, found {}, which never runs a "
        "forward beside a backward",
        kOverlap, choice_name(schedule));
  } else if (pp > 1 && pipeline.virtual_stages(pp) == 1) {
    problems.add(
        "{} with model.pipeline_model_parallel_size = {} needs "
        "virtual_pipeline_model_parallel_size of at least 2, found {}",
        kOverlap, pp, pipeline.virtual_stages(pp));
  }
  const auto& further = config.model.mtp_num_layers;
  if (!further.is_auto() && further.value().value_or(0) > 1) {
    problems.add("{} needs model.mtp_num_layers of at most 1, found {}", kOverlap,
                 *further.value());
  }
}

/// A layer that is recomputed in the backward would exchange its rows a second time.
void validate_recomputed(const RecomputeConfig& recompute, Problems& problems) {
  if (recompute.full()) {
    problems.add(
        "{} and model.recompute_granularity = full exclude each other: exchanges would be "
        "recomputed; nearest: selective",
        kOverlap);
  }
  const auto& modules = recompute.recompute_modules;
  if (recompute.selective() && std::ranges::count(modules, RecomputeModule::moe) > 0) {
    problems.add(
        "{} and moe in model.recompute_modules exclude each other: exchanges would be recomputed; "
        "nearest: mlp",
        kOverlap);
  }
}

void refuse_expert_overlap(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  if (config.pipeline.overlap_moe_expert_parallel_comm) {
    validate_exchange(config, problems);
    validate_order(config, problems);
    validate_recomputed(config.recompute, problems);
  } else if (config.pipeline.delay_wgrad_compute) {
    problems.add(
        "comm_overlap.delay_wgrad_compute: true needs "
        "comm_overlap.overlap_moe_expert_parallel_comm, which is off");
  }
}

}  // namespace

Topic expert_overlap_topic() {
  std::vector<NoEffectRule> idle{
      {{"comm_overlap.overlap_moe_expert_parallel_comm"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(
             c.parallel.stages() == 1 && micro_batches(c) == 1,
             "a step has one micro-batch, so there is no other one to compute meanwhile");
       }},
  };
  return {refuse_expert_overlap, std::move(idle)};
}

}  // namespace viaduct
