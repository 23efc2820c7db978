// What a run begins with: a checkpoint, a model, adapters on it, or new weights.

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/parameter_io.h"
#include "model/initialize.h"
#include "model/initialize_magnitudes.h"
#include "run/adapter_setup.h"
#include "run/base_model.h"
#include "run/grown_vocabulary.h"
#include "train/check_resume.h"
#include "train/resume_schedules.h"
#include "train/run_checkpoint.h"
#include "train/trainer.h"

namespace viaduct {

bool Trainer::load_weights(std::unique_ptr<CheckpointReader> checkpoint) {
  const CheckpointConfig& c = config_.checkpoint;
  const auto& load = c.load.value();
  keeper_->read_side_files(*data_, checkpoint.get());
  if (!checkpoint) check_adapter_bases_on_all(*world_, setup_);
  if (config_.peft.any()) begin_adapters(checkpoint != nullptr);
  const double begin = steady_seconds();
  if (checkpoint) {
    const bool rescaled = compare_with(*checkpoint);
    const RestoredRun restored = restore_run(*engine_, *checkpoint,
                                             {.optimizer = c.load_optim,
                                              .strictness = c.dist_ckpt_strictness,
                                              .spread_copies = c.fully_parallel_load});
    if (leads()) {
      for (const std::string& warning : restored.warnings)
        log_warning("{}: {}", checkpoint->where(), warning);
    }
    const double bytes = world_->host().sum(static_cast<double>(restored.bytes));
    check_seed(restored.state, checkpoint->where());
    resume_state(restored.state);
    if (c.load_optim) {
      schedules_ =
          resume_schedules(schedules_, stored_schedules(checkpoint->state(), checkpoint->where()),
                           config_.scheduler, checkpoint->where());
    }
    if (leads())
      log_info("resuming from {} at step {}{}", checkpoint->where(), state_.step,
               transfer_text(static_cast<int64_t>(bytes), steady_seconds() - begin));
    keeper_->begins_at(state_.step);
    return rescaled;
  }
  VIADUCT_CHECK(ConfigError, !load || !c.exit_on_missing_checkpoint,
                "checkpoint.load: no checkpoint in {}", load.value_or(""));
  if (leads() && load && load != c.save)
    log_warning("checkpoint.load: no checkpoint in {}; starting from scratch", *load);
  if (config_.peft.any()) return false;
  if (setup_.pretrained) {
    OpContext context = engine_->context(false, false).ops;
    const auto weights = open_pretrained(setup_);
    load_parameters(context, engine_->store(), *weights, setup_.model);
    if (leads()) log_info("fine-tuning from {}", setup_.pretrained->path.string());
  } else {
    engine_->initialize();
  }
  return false;
}

void Trainer::begin_adapters(bool resumes) {
  RankContext rank = engine_->context(false, false);
  OpContext context = rank.ops;
  if (setup_.pretrained) {
    load_parameters(context, engine_->store(), *open_pretrained(setup_), setup_.model);
  } else {
    engine_->initialize();
  }
  const auto& adapter = config_.peft.adapter;
  if (resumes) return;  // they come from the checkpoint
  if (adapter) {
    const PeftAdapter begun = open_adapter(*adapter, setup_.model);
    load_adapter(context, engine_->store(), *begun.tensors);
  } else {
    initialize_parameters(context, engine_->store(), run_.layers.seed, is_adapter);
    initialize_magnitudes(rank, engine_->store());
  }
  if (!leads()) return;
  const size_t whole = run_.layers.adapters.trained.size();
  log_info("adapters of {}{} on {}{}", counted(std::ssize(run_.layers.adapters.modules), "layer"),
           whole > 0 ? fmt::format(", and {} as a whole,", counted(whole, "module")) : "",
           setup_.pretrained ? setup_.pretrained->path.string() : "random weights",
           adapter ? ", from " + *adapter : "");
}

std::vector<TensorKind> Trainer::optimizer_states() const {
  std::vector<TensorKind> kinds;
  if (!config_.checkpoint.load_optim || engine_->optimizer() == nullptr) return kinds;
  for (const OptimizerState& state : engine_->optimizer()->states())
    kinds.push_back({state.prefix, state.has, state.shape});
  return kinds;
}

bool Trainer::compare_with(const CheckpointReader& checkpoint) {
  const auto same_order = [&](int64_t samples, int64_t global_batch_size) {
    return data_->same_order(samples, global_batch_size);
  };
  run_on_all(
      *world_,
      [&] {
        if (leads())
          changed_ = check_resume(setup_, keeper_->fingerprints(), checkpoint, same_order,
                                  data_->rows_read(), optimizer_states());
      },
      "comparing the run with its checkpoint");
  const bool other_scale = std::ranges::any_of(changed_, [](const std::string& change) {
    return change.starts_with("peft.alpha") || change.starts_with("peft.rslora");
  });
  return world_->host().text_of_rank_0(other_scale ? "yes" : "") == "yes";
}

void Trainer::check_seed(const TrainState& stored, const std::string& where) const {
  if (!config_.checkpoint.load_rng) return;
  VIADUCT_CHECK(ConfigError, stored.seed,
                "{}: was saved with checkpoint.save_rng=false and has no state of random numbers; "
                "checkpoint.load_rng=false continues with rng.seed={}",
                where, *state_.seed);
  VIADUCT_CHECK(ConfigError, stored.seed == state_.seed,
                "{}: the run began with rng.seed={}; resuming with {} would not continue it "
                "(checkpoint.load_rng=false allows it)",
                where, *stored.seed, *state_.seed);
}

void Trainer::resume_state(const TrainState& stored) {
  const TrainState fresh = state_;
  state_ = stored;
  state_.seed = fresh.seed;
  if (!config_.checkpoint.load_optim) state_.updates = 0;  // zero moments: new bias corrections
  const bool scaling = run_.layers.precision.loss_scaling;
  const bool stored_scaling = stored.scaler != LossScalerState{};
  if (!scaling || !stored_scaling || !config_.checkpoint.load_optim) {
    state_.scaler = fresh.scaler;
  } else {
    scaler_.check(state_.scaler);
  }
}

}  // namespace viaduct
