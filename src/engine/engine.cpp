#include "engine/engine.h"

#include <cmath>

#include "base/error.h"
#include "engine/cut_batch.h"
#include "engine/deadline_follower.h"
#include "engine/micro_batch_instances.h"
#include "engine/shift_tokens.h"
#include "model/initialize.h"
#include "model/model_place.h"
#include "nn/moe/quantile_balance.h"
#include "nn/moe/router_log.h"
#include "nn/quantization_log.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "pipeline/forward_schedule.h"
#include "pipeline/places_in_flight.h"
#include "run/device_memory.h"
#include "sharding/reproducible_all_reduce.h"

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
  DdpConfig ddp = run_.ddp;
  ddp.resolve(groups_.dp_cp().size(), groups_.pp().size() > 1 && model_->chunks().size() > 1);
  StoreSettings store = store_settings(ddp);
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
        !schedule.combines && (groups_.pp().size() == 1 || schedule.kind != ScheduleKind::gpipe);
    gathers_ = std::make_unique<GatherSegments>(*store_, turns ? model_->head() : nullptr);
  }
  if (run_.purpose == EnginePurpose::train)
    optimizer_ = make_optimizer(context, precision, *store_, run_.optimizer, groups_);
  if (store.with_gradients) {
    // FP16 gradients overflow in normal runs: loss scaling needs the check.
    gradient_norm_ = std::make_unique<GradientNorm>(
        context, *store_, run_.ddp.check_for_nan_in_grad || precision.loss_scaling);
  }
  if (store.with_gradients && config.moe.any()) {
    std::vector<int64_t> blocks;
    for (const ModelChunk& chunk : model_->chunks()) {
      for (const Layer& layer : chunk.layers) {
        if (layer.block >= 0 && config.moe.routes(config.kind_of(layer.block)))
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
  return RankContext{.ops = {device_, ops_},
                     .weights = *store_,
                     .gradients = gradients ? store_.get() : nullptr,
                     .groups = groups_,
                     .settings = run_.layers,
                     .training = training,
                     .scalars = scalars_,
                     .loss_state = loss_state_,
                     .delayed = delayed_scales_.get(),
                     .depth_losses = depth_losses_,
                     .router_log = gradients ? router_log_.get() : nullptr};
}

void Engine::initialize() {
  const SequenceScope sequence(device_, MemorySequence::initialize);
  const RecordScope scope(device_.record(), ScopeKind::phase, "initialize");
  OpContext context{device_, ops_};
  initialize_parameters(context, *store_, run_.layers.seed);
}

void Engine::write_scalar(StepScalar slot, double value) {
  const Tensor host = step_scalar(host_scalars_, slot);
  *host.data<double>() = value;
  device_.copy_from_host(host, step_scalar(scalars_, slot));
}

double Engine::read_scalar(StepScalar slot, std::string_view reason) {
  return host_read(device_, step_scalar(scalars_, slot), reason, 0);
}

void Engine::begin_step(const StepInputs& inputs) {
  device_.begin_sequence(MemorySequence::step);
  const RecordScope scope(device_.record(), ScopeKind::phase, "begin");
  loss_scale_ = inputs.loss_scale;
  update_ = inputs.update;
  micro_batches_ = 0;
  const auto t = static_cast<double>(inputs.update);
  write_scalar(StepScalar::update, t);
  write_scalar(StepScalar::learning_rate, inputs.learning_rate);
  write_scalar(StepScalar::decoupled_learning_rate, inputs.decoupled_learning_rate);
  write_scalar(StepScalar::weight_decay_factor, inputs.weight_decay_factor);
  write_scalar(StepScalar::bias_correction1, 1 - std::pow(run_.optimizer.adamw.beta1, t));
  write_scalar(StepScalar::bias_correction2, 1 - std::pow(run_.optimizer.adamw.beta2, t));
  write_scalar(StepScalar::loss_scale, inputs.loss_scale);
  write_scalar(StepScalar::clip_norm, run_.optimizer.clip_norm);
  write_scalar(StepScalar::skip, 0);
  OpContext context{device_, ops_};
  fill(context, {loss_state_, 0});
  if (depth_losses_) fill(context, {depth_losses_, 0});
  store_->begin_step(context);
  if (router_log_) router_log_->begin_step(context);
  if (quantization_log_ != nullptr) quantization_log_->begin_step(context);
}

ScheduleSettings Engine::schedule_of(int64_t micro_batches) const {
  ScheduleSettings schedule = run_.parallelism.schedule;
  schedule.pp = groups_.pp().size();
  schedule.virtual_stages = static_cast<int>(model_->chunks().size());
  schedule.micro_batches = micro_batches;
  return schedule;
}

ActionList Engine::actions_of(int64_t micro_batches) const {
  const ScheduleSettings schedule = schedule_of(micro_batches);
  ActionList actions = stage_schedule(schedule, groups_.pp().rank());
  if (!schedule.combines) return actions;
  std::vector<ChunkTurns> turns;
  for (size_t chunk = 0; chunk < model_->chunks().size(); ++chunk)
    turns.push_back(model_->turns(chunk));
  return interleave_turns(actions, turns, schedule.delays_weights);
}

void Engine::run_micro_batches(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at,
                               bool dropout) {
  RankContext rank = context(dropout, true);
  rank.quantization_log = quantization_log_;
  const auto upload_at = [&](int64_t i, const Batch* over) {
    const RecordScope scope(device_.record(), ScopeKind::phase, "data", {}, i);
    HostBatch rows = batch_at(i);
    add_shifted_tokens(rows, model_->config().mtp_layers);
    if (!run_.calculate_per_token_loss) rows.normalize_loss_weights();
    return upload_over(rows, over);
  };
  micro_batches_ += count;
  const ActionList actions = actions_of(count);
  const MemorySettings& memory = run_.memory;
  const auto later = later_micro_batches(actions);
  const auto policy_at = [&](int64_t micro_batch, int chunk) {
    return later.contains({micro_batch, chunk}) ? &memory.partial->others : &memory.saved_policy;
  };
  SecondMemory* second = second_memory_;
  if (second == nullptr && run_.memory.offloads_saved()) second = second_memory();
  // Whether weights are gathered, and where a graph begins, depends on the work before.
  const ActionOrder order = gathers_ || layer_graphs_ ? ActionOrder::same : ActionOrder::any;
  std::optional<MicroBatchInstances> instances;
  if (repeats_ != nullptr && step_graph_ == nullptr && second == nullptr &&
      store_->offloaded() == nullptr && !run_.parallelism.executor.shapes_first &&
      !device_.executes() && device_.record() != nullptr)
    instances.emplace(device_, actions, later, order, repeats_->emplace_back());
  const auto leaves_out = [&](int64_t i) { return instances && !instances->runs(i); };
  store_->expect_backwards(instances ? instances->count() : count);
  const auto begin_chunk = [&](int chunk) { store_->begin_chunk(static_cast<size_t>(chunk)); };
  const auto reduce_chunk = [&](int chunk) { store_->reduce_chunk(static_cast<size_t>(chunk)); };
  std::vector<SegmentHooks*> hooks = this->hooks();
  // A step that measures operands launches more than others: it has no graphs, and those of the
  // others stay.
  const bool measures = quantization_log_ != nullptr;
  // Last, so that a group begins after the other hooks, and ends before them.
  if (layer_graphs_ && !measures && layer_graphs_->begin_step())
    hooks.push_back(layer_graphs_.get());
  const auto run = [&](ModelStage::BatchAt uploaded) {
    ModelStage stage(*model_, rank,
                     {.message_format = message_format(),
                      .begin_chunk = begin_chunk,
                      .reduce_chunk = reduce_chunk,
                      .policy_at = policy_at,
                      .second_memory = second,
                      .leaves_out = leaves_out,
                      .hooks = hooks,
                      .phases = &phases_},
                     uploaded);
    ActionFollower* const follower = instances ? &*instances : nullptr;
    DeadlineFollower until(deadline_, follower);
    run_schedule(actions, stage, groups_.pp(), run_.parallelism.executor,
                 deadline_.is_set() ? &until : follower);
  };
  if (step_graph_ == nullptr) return run([&](int64_t i) { return upload_at(i, nullptr); });
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  for (int64_t i = 0; i < count; ++i)
    step_graph_->set_input(at(i), [&](const Batch* over) { return upload_at(i, over); });
  store_->begin_program();
  const auto program = [&] {
    const OffloadCounts before = slot_memory_ ? slot_memory_->counts() : OffloadCounts();
    run([&](int64_t i) { return step_graph_->input(at(i)); });
    store_->end_program();
    if (slot_memory_) graph_copies_ = slot_memory_->counts() - before;
    graph_copies_.wait_seconds = 0;  // a graph does not let the host wait
  };
  if (measures) return program();
  if (step_graph_->run(at(count), program)) return;
  store_->program_ran();
  if (slot_memory_) slot_memory_->copied_by_graph(graph_copies_);
}

std::set<std::pair<int64_t, int>> Engine::later_micro_batches(const ActionList& actions) const {
  std::set<std::pair<int64_t, int>> later;
  if (!run_.memory.partial) return later;
  for (const auto& [of, place] : places_in_flight(actions)) {
    if (place >= run_.memory.partial->micro_batches) later.insert(of);
  }
  return later;
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

Communicator& Engine::document_group(int ranks) const {
  for (const auto& group : groups_.documents()) {
    if (group->size() == ranks) return *group;
  }
  fail<ShapeError>("batch: no group of {} ranks shares documents (hybrid context parallel)", ranks);
}

Batch Engine::upload_part(const HostBatch& rows) {
  return upload_over(rows, nullptr);
}

Batch Engine::upload_over(const HostBatch& rows, const Batch* over) {
  // The configuration refuses lengths that no cut divides, except for packed documents.
  BatchPlace place = batch_place();
  Communicator* shared = nullptr;
  if (rows.context_ranks > 0) {
    shared = &document_group(rows.context_ranks);
    place.cp = shared->size(), place.cp_rank = shared->rank(), place.cp_inner = 1;
  }
  Batch batch = upload(device_, cut_batch(rows, place, true), model_->config().vocabulary,
                       run_.positions, place, over);
  batch.context_ranks = shared;
  return batch;
}

void Engine::forward(const Batch& batch, StageSettings::HeadCall instead_of_head,
                     WatchLayers::Function watch) {
  StageSettings settings{.message_format = message_format(),
                         .has_backward = false,
                         .instead_of_head = std::move(instead_of_head),
                         .hooks = hooks()};
  const bool watches = watch != nullptr;
  WatchLayers layers(std::move(watch));
  if (watches) settings.hooks.push_back(&layers);
  run_forwards(1, settings, [&](int64_t) { return batch; });
}

void Engine::run_forwards(int64_t count, const StageSettings& settings,
                          ModelStage::BatchAt batch_at) {
  RankContext rank = context(false, false);
  ModelStage stage(*model_, rank, settings, batch_at);
  const ScheduleSettings schedule = forward_schedule(run_.parallelism.schedule, groups_.pp().size(),
                                                     model_->chunks().size(), count);
  run_schedule(stage_schedule(schedule, groups_.pp().rank()), stage, groups_.pp(),
               run_.parallelism.executor);
}

void Engine::post_scored(double scored_weight, std::span<const HostFigure> figures) {
  const double mine =
      run_.calculate_per_token_loss ? scored_weight : static_cast<double>(micro_batches_);
  std::vector<HostFigure> all{{mine, leads_data_place(groups_)}};
  all.insert(all.end(), figures.begin(), figures.end());
  scored_ = groups_.world().host().post(all);
}

StepResult Engine::finish_step(double scored_weight, bool update) {
  if (!scored_.pending()) post_scored(scored_weight);
  const PhaseTimer timer(phases_.optimizer);
  const RecordScope scope(device_.record(), ScopeKind::phase, "optimizer");
  OpContext context{device_, ops_};
  store_->finish_gradients(context);
  merged_figures_ = scored_.wait();
  const double scored = merged_figures_.front().sum;
  merged_figures_.erase(merged_figures_.begin());
  VIADUCT_CHECK(ShapeError, scored > 0,
                "step: no token of the global batch is scored (all labels are masked)");
  gradient_factor_ = store_->gradient_divisor() / (scored * loss_scale_);
  write_scalar(StepScalar::gradient_factor, gradient_factor_);
  if (run_.ddp.check_for_large_grads) check_large_gradients();
  gradient_norm_->compute(context, scalars_);
  // Before new weights are quantized, with the scales of the next step.
  if (delayed_scales_) delayed_scales_->finish_step(context);
  if (update)
    optimizer_->step(context, scalars_, quantile_biases(context, groups_, router_log_.get()));
  StepResult result;
  result.loss = total_loss("loss") / scored;
  result.depth_losses = depth_losses();
  result.grad_norm = read_scalar(StepScalar::gradient_norm, "gradient norm");
  result.skipped = read_scalar(StepScalar::skip, "skipped update") != 0;
  device_.end_sequence();
  return result;
}

void Engine::check_large_gradients() {
  std::vector<double> norms = store_->bucket_norms();
  for (double& norm : norms) norm *= gradient_factor_;
  const auto found = groups_.world().host().first_text(large_gradients_.look(norms));
  if (found)
    fail<Error>("update {}: rank {}: {} (ddp.check_for_large_grads)", update_, found->rank,
                found->text);
}

double Engine::total_loss(std::string_view reason) {
  OpContext context{device_, ops_};
  // Tensor ranks have the same sum each; only the stage with the head has one.
  reproducible_all_reduce(context, groups_.dp_cp(), loss_state_);
  groups_.pp().broadcast(loss_state_, run_.parallelism.head_stage()).wait();
  sum_value(context, {loss_state_, step_scalar(scalars_, StepScalar::loss_sum)});
  return read_scalar(StepScalar::loss_sum, reason);
}

std::vector<double> Engine::depth_losses() {
  const int64_t depths = model_->config().mtp_layers;
  if (depths == 0) return {};
  OpContext context{device_, ops_};
  for (int64_t depth = 0; depth < depths; ++depth) {
    for (const int64_t sum : {0, 1})
      reproducible_all_reduce(context, groups_.dp_cp(), depth_losses_.select(depth).select(sum));
  }
  groups_.pp().broadcast(depth_losses_, run_.parallelism.head_stage()).wait();
  const Tensor value = context.allocate(DType::f64, {1}, MemoryTag::other);
  const auto read = [&](int64_t depth, int64_t sum) {
    sum_value(context, {depth_losses_.select(depth).select(sum), value});
    return host_read(device_, value, "loss of a further token", 0);
  };
  std::vector<double> losses;
  for (int64_t depth = 0; depth < depths; ++depth) {
    const double loss = read(depth, 0);
    losses.push_back(loss / read(depth, 1));
  }
  return losses;
}

double Engine::evaluate(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at) {
  const SequenceScope sequence(device_, MemorySequence::evaluate);
  const RecordScope scope(device_.record(), ScopeKind::phase, "evaluate");
  OpContext context{device_, ops_};
  fill(context, {loss_state_, 0});
  run_forwards(count, {.message_format = message_format(), .has_backward = false, .hooks = hooks()},
               [&](int64_t i) { return upload_part(batch_at(i)); });
  return total_loss("validation loss");
}

}  // namespace viaduct
