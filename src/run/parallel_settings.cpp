#include "run/parallel_settings.h"

#include <numeric>

#include "ops/cuda/product_layout.h"
#include "precision/recipe.h"
#include "run/run_length.h"
#include "run/symmetric_memory.h"

namespace viaduct {

int64_t data_parallel_size(const RunConfig& config) {
  const int64_t replica = config.parallel.model_ranks();
  return replica > 0 && config.dist.ranks % replica == 0 ? config.dist.ranks / replica : 0;
}

int64_t encoder_layers(const RunConfig& config) {
  ModelFields model = config.model;
  const auto& layers = model.encoder.encoder_num_layers;
  if (layers.is_auto() && !config.checkpoint.pretrained_checkpoint && !model.hf_config)
    model.resolve();
  return layers.value_or(0);
}

int64_t encoder_tokens(const RunConfig& config) {
  const int64_t cp = config.parallel.context_parallel_size,
                rows = (config.train.micro_batch_rows() + cp - 1) / cp;
  return config.model.encoder.encoder_seq_length.value_or(0) * rows;
}

int most_tensor_ranks(const ParallelConfig& sizes) {
  return std::max(sizes.tensor_model_parallel_size, sizes.encoder_tensor());
}

int table_ranks(const RunConfig& config) {
  return encoder_layers(config) > 0 ? most_tensor_ranks(config.parallel)
                                    : config.parallel.tensor_model_parallel_size;
}

int expert_domains(const RunConfig& config) {
  const MoeFields& moe = config.model.moe;
  const auto& domain = config.dist.nvlink_domain_size;
  if (moe.experts() == 0 || moe.moe_token_dispatcher_type != TokenDispatcher::flex || !domain ||
      moe.moe_flex_dispatcher_backend == FlexBackend::flat || moe.moe_pad_expert_input_to_capacity)
    return 1;
  const int etp = config.parallel.expert_tensor();
  const int ranks = config.parallel.expert_model_parallel_size * etp;
  // Ranks that exchange tokens are neighbours in every order of axes.
  return ranks % *domain == 0 && *domain % etp == 0 ? ranks / *domain : 1;
}

int64_t document_ranks(const RunConfig& config) {
  return data_parallel_size(config) * config.parallel.context_parallel_size;
}

int64_t micro_batches(const RunConfig& config) {
  const int64_t rows = config.train.micro_batch_rows() * data_parallel_size(config);
  const int64_t batch = batch_schedule(config).full();
  return rows == 0 || batch % rows != 0 ? 0 : batch / rows;
}

int64_t kept_logits_bytes(const RunConfig& config) {
  const ParallelConfig& sizes = config.parallel;
  const bool all = sizes.stages() > 1 && config.pipeline.pipeline_schedule == PipelineOrder::gpipe;
  const int64_t tokens = config.train.micro_batch_rows() * config.model.seq_length.value_or(0) /
                         sizes.context_parallel_size * (all ? micro_batches(config) : 1);
  const int64_t columns = config.model.vocab_size.value_or(0) / sizes.tensor_model_parallel_size;
  return tokens * columns * dtype_bytes(precision_recipe(config.mixed_precision.recipe).activation);
}

bool tells_kernels(const RunConfig& config) {
  const DistConfig& dist = config.dist;
  return dist.on_cuda() || config.cuda_target.has_value() ||
         (dist.simulated() && dist.cluster.has_value());
}

OverlapConditions overlap_conditions(const RunConfig& config) {
  // A single stage runs both halves of a backward in sequence.
  const bool waits = (config.parallel.stages() > 1 && config.pipeline.delays_weight_gradients()) ||
                     config.pipeline.delay_wgrad_compute;
  const Quantization products = precision_recipe(config.mixed_precision).products;
  int64_t features = config.model.hidden_size.value_or(0);
  if (const LatentFields& latent = config.model.latent;
      latent.multi_latent_attention.value_or(false)) {
    features = std::gcd(features, latent.q_lora_rank.value_or(std::nullopt).value_or(0));
    features = std::gcd(features, latent.kv_lora_rank.value_or(0));
  }
  const bool on_gpu = tells_kernels(config);
  OverlapConditions conditions{config.parallel.tensor_model_parallel_size,
                               features,
                               waits,
                               products.any(),
                               products.rows_of_weight(),
                               on_gpu,
                               wants_symmetric_memory(config)};
  if (on_gpu && products.any() && conditions.group < cuda::kQuantizedColumns) {
    conditions.group = cuda::kQuantizedColumns;
    conditions.group_text = "as products of quantized operands on a GPU need";
  }
  return conditions;
}

GemmOverlapTable gemm_overlap(const RunConfig& config, Problems& problems,
                              std::vector<std::string>* notes) {
  return resolve_gemm_overlap(config.tensor_overlap, overlap_conditions(config), problems, notes);
}

void resolve_parallel(RunConfig& config) {
  ParallelConfig& sizes = config.parallel;
  const int tp = sizes.tensor_model_parallel_size, cp = sizes.context_parallel_size,
            pp = sizes.pipeline_model_parallel_size;
  const auto& length = config.model.seq_length;
  const bool divides = !length.is_auto() && length.value() % cp == 0 &&
                       length.value() / cp * config.train.micro_batch_rows() % tp == 0;
  const bool encoder_divides = config.model.encoder.encoder_num_layers.value_or(0) == 0 ||
                               encoder_tokens(config) % most_tensor_ranks(sizes) == 0;
  sizes.sequence_parallel.resolve(tp > 1 && divides && encoder_divides);
  TensorOverlapConfig& overlap = config.tensor_overlap;
  // It replaces both; this also holds for a configuration written out with all its fields.
  if (overlap.tp_comm_overlap_rs_dgrad)
    overlap.tp_comm_bulk_dgrad = overlap.tp_comm_bulk_wgrad = false;
  // Answers to prompts are made token by token.
  overlap.tp_comm_overlap.resolve(sizes.sequence_parallel.value() &&
                                  !config.pipeline.variable_seq_lengths &&
                                  !config.validation.sample_prompts && !config.peft.any());
  config.pipeline.resolve(pp);
  const bool chunks = pp > 1 && config.pipeline.virtual_stages() > 1;
  config.ddp.resolve(data_parallel_size(config) * cp, chunks);
}

}  // namespace viaduct
