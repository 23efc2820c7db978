// What an engine is made of: model, weights, optimizer and what a step needs besides, by the
// purpose of the run; initial weights; the second memory.

#include "base/error.h"
#include "engine/engine.h"
#include "model/initialize.h"
#include "model/initialize_magnitudes.h"
#include "model/model_place.h"
#include "nn/moe/router_log.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "run/device_memory.h"

namespace viaduct {

Engine::Engine(Device& device, const OpTable& ops, const ModelConfig& config,
               const ResolvedRun& run, ParallelGroups groups, std::unique_ptr<SlotMemory> opened)
    : device_(device),
      ops_(ops),
      run_(run),
      groups_(std::move(groups)),
      slot_memory_(std::move(opened)) {
  const SequenceScope sequence(device_, MemorySequence::setup);
  const RecordScope scope(device_.record(), ScopeKind::phase, "setup");
  OpContext context{device_, ops_};
  const PrecisionRecipe& precision = run_.layers.precision;
  model_ = build_model(
      device_, run_.purpose == EnginePurpose::evaluate ? config.without_training_layers() : config,
      run_.layers, run_.positions, model_place(run_.parallelism, groups_));
  StoreSettings store = run_.store;
  store.with_gradients = run_.purpose != EnginePurpose::evaluate;
  store.with_masters = run_.purpose == EnginePurpose::train;
  SecondMemory* second = nullptr;
  if (store.with_masters && run_.memory.offloads_parameters()) {
    second = this->second_memory();
    store.offload_fraction = run_.memory.offloaded_state;
    store.overlap_offload = run_.memory.overlaps_state_copies;
    store.offload_shards = run_.memory.offloads_weights;
  }
  store_ =
      std::make_unique<ParameterStore>(device_, precision, model_->uses(), store, groups_, second);
  if (store.with_gradients && precision.products.scaling == Scaling::tensor &&
      precision.amax.source == AmaxSource::history)
    delayed_scales_ =
        std::make_unique<DelayedScales>(context, store_->parameters(), precision, groups_);
  store_->derive_weights(context, run_.memory.packed_weights, delayed_scales_.get());
  if (store_->shards_weights()) {
    // Under GPipe the forwards of all micro-batches come before the first backward, and a backward
    // that is combined with a forward begins before its end.
    const ScheduleSettings& schedule = run_.parallelism.schedule;
    const bool turns =
        !schedule.combines && (groups_.stages() == 1 || schedule.kind != ScheduleKind::gpipe);
    gathers_ = std::make_unique<GatherSegments>(*store_, turns ? model_->head() : nullptr);
  }
  if (run_.purpose == EnginePurpose::train)
    optimizer_ = make_optimizer(context, precision, *store_, run_.optimizer, groups_);
  if (store.with_gradients) {
    // FP16 gradients overflow in normal runs: loss scaling needs the check.
    gradient_norm_ = std::make_unique<GradientNorm>(
        context, *store_, run_.check_for_nan_in_grad || precision.loss_scaling);
  }
  if (store.with_gradients && config.moe.any()) {
    std::vector<int64_t> blocks;
    for (const ModelChunk& chunk : model_->chunks()) {
      for (const Layer& layer : chunk.layers) {
        if (layer.block >= 0 && !layer.of_encoder && config.moe.routes(config.kind_of(layer.block)))
          blocks.push_back(layer.block);
      }
    }
    router_log_ = std::make_shared<RouterLog>(context, blocks, config.moe, precision.statistic);
  }
  if (run_.steps_before_graph && run_.purpose != EnginePurpose::evaluate) {
    VIADUCT_CHECK(ConfigError, groups_.world().can_be_captured(),
                  "model.cuda_graph_impl: full_iteration: ranks share a GPU, so what they exchange "
                  "goes through their hosts, which a graph has not; expected a GPU for each rank, "
                  "or cuda_graph_impl = none");
    step_graph_ = std::make_unique<StepGraph>(device_, *run_.steps_before_graph);
  }
  if (LaunchGroups* const groups = launch_groups(device_);
      run_.layer_graphs && groups != nullptr && run_.purpose != EnginePurpose::evaluate) {
    LayerGraphs settings = *run_.layer_graphs;
    if (!device_.executes()) settings.steps_before = 0;  // what is recorded is a later step
    layer_graphs_ = std::make_unique<LayerGraphHooks>(*groups, settings);
  }
  scalars_ = device_.allocate(DType::f64, {kStepScalars}, MemoryTag::other);
  loss_state_ = device_.allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::other);
  host_scalars_ = host_tensor(DType::f64, {kStepScalars});
  fill(context, {loss_state_, 0});
  if (const int64_t depths = model_->config().mtp_layers; depths > 0) {
    depth_losses_ =
        device_.allocate(DType::f64, {depths, 2, kReproducibleSumSize}, MemoryTag::other);
  }
}

RankContext Engine::context(bool training, bool gradients) {
  magnitude_factors_.begin(store_->generation());
  return RankContext{
      .ops = {device_, ops_},
      .weights = *store_,
      .gradients = gradients ? store_.get() : nullptr,
      .groups = groups_,
      .settings = run_.layers,
      .training = training,
      .scalars = scalars_,
      .loss_state = loss_state_,
      .delayed = delayed_scales_.get(),
      .depth_losses = depth_losses_,
      .magnitude_factors = run_.purpose == EnginePurpose::evaluate ? &magnitude_factors_ : nullptr,
      .router_log = gradients ? router_log_.get() : nullptr};
}

void Engine::initialize() {
  const SequenceScope sequence(device_, MemorySequence::initialize);
  const RecordScope scope(device_.record(), ScopeKind::phase, "initialize");
  OpContext context{device_, ops_};
  initialize_parameters(context, *store_, run_.layers.seed);
  RankContext rank = this->context(false, false);
  initialize_magnitudes(rank, *store_);
}

void Engine::offload_to(SecondMemory& memory) {
  VIADUCT_CHECK(ShapeError, store_->offloaded() == nullptr,
                "second memory: optimizer states are already in another one");
  second_memory_ = &memory;
}

SlotMemory* Engine::second_memory() {
  if (second_memory_ != nullptr || !run_.memory.offloads()) return nullptr;
  if (!slot_memory_) slot_memory_ = make_second_memory(run_.memory.second_memory, device_);
  return slot_memory_.get();
}

}  // namespace viaduct
