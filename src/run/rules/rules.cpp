#include "run/rules/rules.h"

#include "run/adapter_setup.h"
#include "run/encoder_support.h"
#include "run/packed_weights.h"
#include "run/packing_settings.h"
#include "run/parallel_settings.h"
#include "run/vision_support.h"

namespace viaduct {
namespace {

/// Of features whose rules stand with the code that makes them.
template <void (*kValidate)(const RunConfig&, Problems&)>
Topic refusals_of() {
  return {[](const RunConfig& config, const ConfigOutcome&, Problems& problems) {
    kValidate(config, problems);
  }};
}

}  // namespace

const std::vector<Topic>& topics() {
  static const std::vector<Topic> kTopics{model_topic(),
                                          optimizer_topic(),
                                          evaluation_topic(),
                                          mesh_topic(),
                                          tensor_parallel_topic(),
                                          gemm_overlap_topic(),
                                          context_parallel_topic(),
                                          pipeline_topic(),
                                          pipeline_schedule_topic(),
                                          data_parallel_topic(),
                                          sharding_topic(),
                                          experts_topic(),
                                          expert_exchange_topic(),
                                          expert_overlap_topic(),
                                          fusions_topic(),
                                          recompute_topic(),
                                          offload_topic(),
                                          {validate_adapters},
                                          refusals_of<validate_encoder>(),
                                          refusals_of<validate_image_products>(),
                                          simulation_topic(),
                                          data_topic(),
                                          checkpoints_topic(),
                                          reports_topic(),
                                          refusals_of<validate_packed_weights>(),
                                          refusals_of<validate_packing>(),
                                          precision_topic(),
                                          attention_topic(),
                                          graphs_topic(),
                                          gpus_topic()};
  return kTopics;
}

std::string one_tensor_rank(const RunConfig& config, const ConfigOutcome&) {
  return reason_if(most_tensor_ranks(config.parallel) == 1, "model.tensor_model_parallel_size = 1");
}

std::string one_stage(const RunConfig& config, const ConfigOutcome&) {
  return reason_if(config.parallel.stages() == 1, "model.pipeline_model_parallel_size = 1");
}

std::string one_document_rank(const RunConfig& config, std::string_view then) {
  return reason_if(document_ranks(config) == 1,
                   fmt::format("data-parallel ranks · context_parallel_size = 1: {}", then));
}

std::string without_gpu(const RunConfig& config, std::string_view lacks) {
  return reason_if(!config.dist.on_cuda(),
                   fmt::format("{} {}", stated("dist.device", config.dist.device_kind()), lacks));
}

}  // namespace viaduct
