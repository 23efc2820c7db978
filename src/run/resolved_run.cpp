#include "run/resolved_run.h"

#include <algorithm>

#include "base/error.h"
#include "model/frozen_encoder.h"
#include "model/model_config.h"
#include "pipeline/layer_map.h"
#include "pipeline/pipeline_settings.h"
#include "run/parallel_settings.h"
#include "run/run_config.h"

namespace viaduct {
namespace {

Mesh mesh_of(const RunConfig& config, const ModelConfig& model) {
  const ParallelConfig& parallel = config.parallel;
  const int tp = parallel.tensor_model_parallel_size, pp = parallel.stages();
  const GroupSizes parts{
      // Replicated state has one instance per rank.
      .optimizer_instances =
          config.ddp.use_distributed_optimizer
              ? config.ddp.num_distributed_optimizer_instances
              : static_cast<int>(data_parallel_size(config)) * parallel.context_parallel_size,
      .hierarchical_context_parallel =
          config.context_parallel.hierarchical_context_parallel_sizes.value_or(std::vector<int>{}),
      .kv_replicas = std::max<int>(1, tp / static_cast<int>(model.kv_heads)),
      .document_groups = config.context_parallel.hybrid_context_parallel,
      .expert_domains = expert_domains(config)};
  return Mesh::make({.ranks = config.dist.ranks,
                     .tp = tp,
                     .cp = parallel.context_parallel_size,
                     .pp = pp,
                     .ep = parallel.expert_model_parallel_size,
                     .etp = parallel.expert_tensor(),
                     .front_stages = parallel.encoder_pipeline_model_parallel_size,
                     .front_tp = parallel.encoder_tensor()},
                    config.dist.mesh_order(), parts);
}

/// The stages that hold a parameter of several of them: the token table, and the tables of relative
/// positions.
GroupSizes with_shared_stages(GroupSizes parts, const Parallelism& p, const ModelConfig& model) {
  const auto stages = [&](FunctionRef<bool(const ChunkLayers&)> has) {
    return stages_with(p.layer_map, p.stage_order(), has);
  };
  parts.embedding_stages = stages([&](const ChunkLayers& chunk) {
    const bool of_encoder = chunk.encoder.embedding && !chunk.encoder.of_images;
    return of_encoder || chunk.embedding || (model.tied_embeddings && chunk.head);
  });
  if (!model.encoder.any()) return parts;
  parts.encoder_stages = stages([](const ChunkLayers& chunk) { return chunk.encoder.blocks > 0; });
  parts.decoder_stages = stages([](const ChunkLayers& chunk) { return chunk.blocks > 0; });
  return parts;
}

Parallelism parallelism_of(const RunConfig& config, const ModelConfig& model) {
  const ParallelConfig& parallel = config.parallel;
  Parallelism p{.mesh = mesh_of(config, model)};
  const int own_stages = parallel.encoder_pipeline_model_parallel_size;
  p.layer_map = layer_map(config.pipeline, model.layers, parallel.pipeline_model_parallel_size,
                          model.mtp_layers);
  const auto chunks = static_cast<int>(p.layer_map.size()) / parallel.pipeline_model_parallel_size;
  p.layer_map = model.vision.any()
                    ? with_tower(std::move(p.layer_map), model.vision.read_layers(), own_stages)
                    : with_encoder(std::move(p.layer_map), model.encoder.layers, own_stages);
  if (table_ranks(config) > 1) p.vocabulary_multiple = config.model.make_vocab_size_divisible_by;
  p.schedule = schedule_settings(config.pipeline, chunks, own_stages);
  p.executor = executor_settings(config.pipeline);
  p.message_format = message_format(config.pipeline);
  if (model.encoder.any() || own_stages > 0)
    p.mesh = p.mesh.with(with_shared_stages(p.mesh.parts(), p, model));
  return p;
}

LayerSettings layer_settings(const RunConfig& config, const ModelConfig& model) {
  const ParallelConfig& parallel = config.parallel;
  LayerSettings s;
  s.precision = precision_recipe(config.mixed_precision);
  apply_state_formats(config.optimizer_state, s.precision);
  s.fusions = config.fusion.fusions();
  s.sequence_parallel =
      parallel.tensor_model_parallel_size > 1 && parallel.sequence_parallel.value_or(false);
  Problems problems;
  s.overlap = gemm_overlap(config, problems);
  problems.throw_if_any();
  for (int64_t block = 0; block < model.layers + model.mtp_layers; ++block)
    s.context_exchange.push_back(config.context_parallel.exchange(model.kind_of(block)));
  s.adapters = config.peft.resolved;
  s.exchange_in_two_parts = config.pipeline.overlap_moe_expert_parallel_comm;
  s.recompute_logits = config.fusion.recompute_logits.value();
  s.seed = static_cast<uint64_t>(config.rng.seed);
  return s;
}

/// Without the blocks of a frozen encoder or vision tower, which keep nothing.
std::vector<ChunkLayers> with_kept_blocks(std::vector<ChunkLayers> layer_map,
                                          const ModelConfig& model,
                                          const AdapterSettings& adapters) {
  const bool frozen =
      model.vision.any() ? model.vision.freeze_tower : encoder_is_frozen(model, adapters);
  if (!frozen) return layer_map;
  for (ChunkLayers& chunk : layer_map) chunk.encoder.blocks = 0;
  return layer_map;
}

MemorySettings memory_settings(const RunConfig& config, const ModelConfig& model,
                               const std::vector<ChunkLayers>& chunks) {
  const std::vector<ChunkLayers> layer_map = with_kept_blocks(chunks, model, config.peft.resolved);
  MemorySettings memory{.saved_policy = saved_policy(config.recompute, layer_map, model.mtp_layers),
                        .second_memory = second_memory_settings(config.offload),
                        .packed_weights = config.packing.packed_weights.value(),
                        .offloaded_state = config.state_offload.fraction(),
                        .overlaps_state_copies = config.state_offload.overlap_cpu_optimizer_d2h_h2d,
                        .offloads_weights = config.offload.moves_weights()};
  const bool rows_exchanged =
      config.parallel.expert_model_parallel_size * config.parallel.expert_tensor() > 1;
  const auto offload = [&](SavedPolicy& policy) {
    // What a tower keeps depends on the images of a micro-batch: it has no slots.
    add_offload(config.offload, model.layers, policy, model.mtp_layers, rows_exchanged,
                model.encoder.layers);
  };
  offload(memory.saved_policy);
  if (const auto& number = config.recompute.num_microbatches_with_partial_activation_checkpoints) {
    memory.partial = {*number,
                      policy_of_later_micro_batches(config.recompute, layer_map, model.mtp_layers)};
    offload(memory.partial->others);
  }
  return memory;
}

}  // namespace

OptimizerSettings optimizer_settings(const OptimizerConfig& c) {
  const bool decoupled = c.decoupled_lr.has_value();
  // The decay itself comes with each step: its schedule need not start from optimizer.weight_decay.
  return {.adamw = {c.adam_beta1, c.adam_beta2, c.adam_eps, 1, decoupled},
          .clip_norm = c.clip_grad,
          .kind = c.optimizer,
          .momentum = {c.sgd_momentum, c.lion_beta1, c.lion_beta2, 1, decoupled},
          .muon = {c.muon_momentum, c.muon_use_nesterov, static_cast<int>(c.muon_num_ns_steps),
                   c.muon_scale_mode, c.muon_extra_scale_factor},
          .adafactor = {c.adafactor_clip_threshold, c.adafactor_decay_rate, c.adafactor_eps1,
                        c.adafactor_eps2, c.adafactor_scale_parameter, c.adafactor_relative_step, 1,
                        decoupled}};
}

ParallelGroups make_groups(const ResolvedRun& run, std::shared_ptr<Communicator> world) {
  return {run.parallelism.mesh, std::move(world), own_connections(run.layers.overlap)};
}

ResolvedRun resolve_run(const RunConfig& config, const ModelConfig& model) {
  ResolvedRun run{.layers = layer_settings(config, model),
                  .parallelism = parallelism_of(config, model)};
  run.memory = memory_settings(config, model, run.parallelism.layer_map);
  run.optimizer = optimizer_settings(config.optimizer);
  run.store = store_settings(config.ddp);
  run.check_for_nan_in_grad = config.ddp.check_for_nan_in_grad;
  run.calculate_per_token_loss = config.model.calculate_per_token_loss;
  // Positions restart with each conversation; rows of plain data have them all.
  const PackingConfig& packing = config.dataset.packing;
  run.positions = config.model.seq_length.value_or(0);
  if (packing.limits.longest && !packing.plain) run.positions = *packing.limits.longest;
  if (captures_steps(config)) run.steps_before_graph = config.graph.cuda_graph_warmup_steps;
  if (captures_layers(config))
    run.layer_graphs = {config.graph.cuda_graph_warmup_steps, config.graph.cuda_graph_modules};
  if (config.train.skip_train) run.purpose = EnginePurpose::evaluate;
  return run;
}

}  // namespace viaduct
