#include "plan/search_limits.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "config/load.h"
#include "run/run_length.h"

namespace viaduct {
namespace {

/// The fields of a request, read and not resolved.
struct Given {
  RunConfig config;
  std::set<LayoutPart> fixed;       // by overrides
  std::vector<std::string> fields;  // that fix them

  bool fixes(LayoutPart part) const { return fixed.contains(part); }
};

void read(const PlanRequest& request, const Variant* variant, Given& given) {
  Problems problems;
  RunConfig ignored;
  std::vector<std::string> overrides = request.overrides;
  if (variant != nullptr)
    overrides.insert(overrides.end(), variant->overrides.begin(), variant->overrides.end());
  read_config(run_schema(given.config), {request.file, overrides}, problems);
  const Schema schema = run_schema(ignored);
  const ConfigOutcome given_here = read_config(schema, {{}, overrides}, problems);
  for (const auto& [name, value] : given_here.given)
    if (const auto part = schema.find(name)->layout_part) {
      given.fixed.insert(*part);
      given.fields.push_back(name);
    }
  problems.throw_if_any();
}

}  // namespace

std::vector<std::string> given_layout_fields(const PlanRequest& request) {
  Given given;
  read(request, nullptr, given);
  return given.fields;
}

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
    space.encoder_width = std::gcd(whole.model.heads, whole.model.feed_forward);
  }
  const ParallelConfig& sizes = config.parallel;
  if (given.fixes(LayoutPart::tp)) space.tp = sizes.tensor_model_parallel_size;
  if (given.fixes(LayoutPart::cp)) space.cp = sizes.context_parallel_size;
  if (given.fixes(LayoutPart::pp)) space.pp = sizes.pipeline_model_parallel_size;
  if (given.fixes(LayoutPart::vpp)) space.vpp = config.pipeline.virtual_stages();
  if (given.fixes(LayoutPart::encoder_pp))
    space.encoder_stages = sizes.encoder_pipeline_model_parallel_size;
  if (given.fixes(LayoutPart::encoder_tp))
    space.encoder_tp = sizes.encoder_tensor_model_parallel_size;
  if (given.fixes(LayoutPart::micro_batch) && !config.train.micro_batch_size.is_auto())
    space.micro_batch = config.train.micro_batch_rows();
  space.given_recompute = given.fixes(LayoutPart::recompute);
  space.given_sharding = given.fixes(LayoutPart::sharding);
  space.given_sequence_parallel = given.fixes(LayoutPart::sequence_parallel);
  const PipelineConfig& pipeline = config.pipeline;
  space.account_for_embedding = pipeline.account_for_embedding_in_pipeline_split;
  space.account_for_loss = pipeline.account_for_loss_in_pipeline_split;
  space.given_stages = pipeline.pipeline_model_parallel_layout.has_value() ||
                       pipeline.num_layers_in_first_pipeline_stage.has_value() ||
                       pipeline.num_layers_in_last_pipeline_stage.has_value();
  if (pipeline.pipeline_model_parallel_layout) space.given_chunks = pipeline.virtual_stages(1);
  if (pipeline.pipeline_schedule != PipelineOrder::one_f_one_b &&
      !space.vpp)  // others have a fixed number of chunks
    space.vpp = pipeline.pipeline_schedule == PipelineOrder::dualpipe_v ? 2 : 1;
  limits.has_bubble = !pipeline.delays_weight_gradients();
  limits.all_in_flight = pipeline.pipeline_schedule == PipelineOrder::gpipe;
  if (whole.model.moe.any()) {
    space.experts = whole.model.moe.experts;
    space.expert_feed_forward = whole.model.moe.feed_forward;
    space.whole_experts = whole.model.up_bias || whole.model.down_bias;
    if (given.fixes(LayoutPart::ep)) space.ep = sizes.expert_model_parallel_size;
    if (given.fixes(LayoutPart::etp)) space.etp = sizes.expert_tensor();
  }
  limits.not_searched.emplace_back(
      request.variants.empty()
          ? "precision, offload, schedule, buckets and overlap: they stay as given, unless --vary "
            "names them"
          : "all fields outside the layout that --vary does not name: they stay as given");
  return limits;
}

}  // namespace viaduct
