#include "engine/engine.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/micro_batch_instances.h"
#include "engine/shift_tokens.h"
#include "nn/moe/quantile_balance.h"
#include "nn/moe/router_log.h"
#include "nn/quantization_log.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "pipeline/places_in_flight.h"
#include "sharding/reproducible_all_reduce.h"

namespace viaduct {

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
  began_update_ = false;
  totals_.reset();
  const auto t = static_cast<double>(inputs.update);
  write_scalar(StepScalar::update, t);
  write_scalar(StepScalar::learning_rate, inputs.learning_rate);
  write_scalar(StepScalar::decoupled_learning_rate, inputs.decoupled_learning_rate);
  write_scalar(StepScalar::weight_decay_factor, inputs.weight_decay_factor);
  write_scalar(StepScalar::bias_correction1, 1 - std::pow(run_.optimizer.adamw.beta1, t));
  write_scalar(StepScalar::bias_correction2, 1 - std::pow(run_.optimizer.adamw.beta2, t));
  write_scalar(StepScalar::loss_scale, inputs.loss_scale);
  write_scalar(StepScalar::router_loss_scale, inputs.loss_scale);
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
  schedule.pp = groups_.stages();
  schedule.micro_batches = micro_batches;
  return schedule;
}

ActionList Engine::actions_of(int64_t micro_batches) const {
  const ScheduleSettings schedule = schedule_of(micro_batches);
  ActionList actions = stage_schedule(schedule, groups_.stage());
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
  micro_batches_ += count;
  std::vector<HostBatch> ahead = weigh_router_losses(count, batch_at);
  const auto upload_at = [&](int64_t i, const Batch* over) {
    const RecordScope scope(device_.record(), ScopeKind::phase, "data", {}, i);
    HostBatch rows = ahead.empty() ? batch_at(i) : std::move(ahead[static_cast<size_t>(i)]);
    add_shifted_tokens(rows, model_->config().mtp_layers);
    if (!run_.calculate_per_token_loss) rows.normalize_loss_weights();
    return upload_over(rows, over);
  };
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
    run_schedule(actions, stage, groups_, run_.parallelism.executor, follower);
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

std::vector<HostBatch> Engine::weigh_router_losses(int64_t count,
                                                   FunctionRef<HostBatch(int64_t)> batch_at) {
  if (!model_->config().moe.has_router_losses()) return {};
  std::vector<HostBatch> ahead;
  if (!scored_.pending() && !totals_) {
    double scored = 0;
    int64_t tokens = 0;
    bool shared = false;  // documents whose tokens other ranks have too
    // Where nothing executes the numbers do not matter.
    if (!device_.executes()) scored = 1, count = 0;
    for (int64_t i = 0; i < count; ++i) {
      const HostBatch& rows = ahead.emplace_back(batch_at(i));
      shared = shared || rows.context_ranks > 0;
      scored += rows.scored_weight();
      tokens += rows.tokens();
    }
    // Unless the reader of the last one has posted them.
    VIADUCT_CHECK(
        ShapeError, !shared || scored_.pending(),
        "step: micro-batches whose documents are shared need post_scored with the last of "
        "them: routers have losses of their own");
    if (!scored_.pending()) post_scored(scored, tokens);
  }
  take_totals();
  write_scalar(StepScalar::router_loss_scale,
               loss_scale_ * totals_->divisor / std::max(1.0, totals_->tokens));
  return ahead;
}

void Engine::take_totals() {
  if (totals_) return;
  merged_figures_ = scored_.wait();
  scored_ = {};
  totals_ = {merged_figures_[0].sum, merged_figures_[1].sum, merged_figures_[2].sum,
             merged_figures_[3].most > 0};
  merged_figures_.erase(merged_figures_.begin(), merged_figures_.begin() + 4);
}

void Engine::post_scored(double scored_weight, int64_t tokens, std::span<const HostFigure> figures,
                         bool has_rows) {
  const double divisor =
      run_.calculate_per_token_loss ? scored_weight : static_cast<double>(micro_batches_);
  const bool counted = leads_data_place(groups_);
  // A mean of means counts micro-batches, whatever is scored in them.
  std::vector<HostFigure> all{{divisor, counted},
                              {static_cast<double>(tokens), counted},
                              {scored_weight, counted},
                              {has_rows ? 0.0 : 1.0}};
  all.insert(all.end(), figures.begin(), figures.end());
  scored_ = groups_.world().host().post(all);
}

StepResult Engine::finish_step(double scored_weight, bool update) {
  if (!scored_.pending() && !totals_) post_scored(scored_weight);
  const PhaseTimer timer(phases_.optimizer);
  const RecordScope scope(device_.record(), ScopeKind::phase, "optimizer");
  OpContext context{device_, ops_};
  store_->finish_gradients(context);
  take_totals();
  if (totals_->abandoned) {
    device_.end_sequence();
    return {.abandoned = true};
  }
  const double scored = totals_->divisor;
  const bool nothing_scored = totals_->scored <= 0;
  gradient_factor_ = nothing_scored ? 0 : store_->gradient_divisor() / (scored * loss_scale_);
  write_scalar(StepScalar::gradient_factor, gradient_factor_);
  if (run_.store.bucket_norms && !nothing_scored) check_large_gradients();
  gradient_norm_->compute(context, scalars_);
  // Weight decay, momentum and routers' own losses would change weights without a loss.
  if (nothing_scored) write_scalar(StepScalar::skip, 1);
  began_update_ = true;
  // Before new weights are quantized, with the scales of the next step.
  if (delayed_scales_) delayed_scales_->finish_step(context);
  if (update)
    optimizer_->step(context, scalars_, quantile_biases(context, groups_, router_log_.get()));
  StepResult result;
  if (nothing_scored) {
    result.skipped = result.nothing_scored = true;
    device_.end_sequence();
    return result;
  }
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
  groups_.pp().broadcast(loss_state_, groups_.root_of(run_.parallelism.head_stage())).wait();
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
  groups_.pp().broadcast(depth_losses_, groups_.root_of(run_.parallelism.head_stage())).wait();
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

}  // namespace viaduct
