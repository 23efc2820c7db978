#include "optim/optimizer_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace viaduct {
namespace {

// Far above any run; times the rows of a step it is still a number.
constexpr double kMostSteps = 1e11, kMostSamples = 1e11;

}  // namespace

void OptimizerConfig::resolve() {
  min_lr.resolve(std::stod(fmt::format("{:.12g}", lr / 10)));  // 3e-05, not 2.9999999999999997e-05
}

void SchedulerConfig::resolve(int64_t train_iters, double weight_decay,
                              std::optional<int64_t> train_samples) {
  if (!lr_decay_iters && !lr_decay_samples) {
    lr_decay_samples = train_samples;
    if (!train_samples) lr_decay_iters = train_iters;
  }
  const bool elsewhere = lr_warmup_fraction || lr_warmup_samples > 0;
  const int64_t steps = lr_decay_iters.value_or(train_iters);
  lr_warmup_iters.resolve(elsewhere ? 0 : std::min<int64_t>(500, steps / 10));
  if (!start_weight_decay) start_weight_decay = weight_decay;
  if (!end_weight_decay) end_weight_decay = weight_decay;
  override_opt_param_scheduler.resolve(!use_checkpoint_opt_param_scheduler);
}

bool SchedulerConfig::warms_up() const {
  return lr_warmup_iters.value() > 0 || lr_warmup_fraction.value_or(0) > 0;
}

FieldGroup optimizer_fields(OptimizerConfig& config) {
  FieldGroup group("optimizer", "How weights are updated.");
  group.on_resume(resume::free);
  const auto unless = [&config](std::vector<OptimizerKind> kinds) -> IdleRule {
    return [&config, kinds = std::move(kinds)] {
      return reason_if(std::ranges::find(kinds, config.optimizer) == kinds.end(),
                       stated("optimizer.optimizer", config.optimizer));
    };
  };
  group
      .field("optimizer", config.optimizer,
             "The update rule: `adam` is AdamW, with decoupled decay; `sgd` has momentum, and "
             "decay as "
             "a part of the gradient; `lion` steps by signs, with decoupled decay; `muon` moves "
             "hidden matrices by the orthogonal factor of their momentum, the rest by AdamW; "
             "`adafactor` keeps the row and column means of a matrix's squared gradients, and no "
             "momentum.")
      .constraint(
          "muon: where a family has queries, keys and values in one matrix, at most as many tensor "
          "ranks as key-value heads")
      .planned_values({"soap"}, "roadmap: other optimizers")
      .on_resume(resume::refused("its state belongs to the old value"));
  group.field("lr", config.lr, "Highest learning rate.").range(0);
  group
      .field("min_lr", config.min_lr, "Learning rate at the end of the decay; auto: a tenth of lr.")
      .range(0)
      .constraint("at most lr");
  group
      .field("weight_decay", config.weight_decay,
             "Weight decay, decoupled except with sgd; biases and one-dimensional parameters have "
             "none.")
      .range(0);
  group.field("adam_beta1", config.adam_beta1, "Decay of Adam's mean of gradients.")
      .from_below(0, 1)
      .idle(unless({OptimizerKind::adam, OptimizerKind::muon}));
  group.field("adam_beta2", config.adam_beta2, "Decay of Adam's mean of squared gradients.")
      .from_below(0, 1)
      .idle(unless({OptimizerKind::adam, OptimizerKind::muon}));
  group.field("adam_eps", config.adam_eps, "Added to the root in Adam's denominator.")
      .positive()
      .idle(unless({OptimizerKind::adam, OptimizerKind::muon}));
  group.field("sgd_momentum", config.sgd_momentum, "Decay of sgd's momentum.")
      .range(0, 1)
      .idle(unless({OptimizerKind::sgd}));
  group.field("lion_beta1", config.lion_beta1, "Share of the momentum in the sign of lion's step.")
      .from_below(0, 1)
      .idle(unless({OptimizerKind::lion}));
  group.field("lion_beta2", config.lion_beta2, "Decay of lion's momentum.")
      .from_below(0, 1)
      .idle(unless({OptimizerKind::lion}));
  group.field("muon_momentum", config.muon_momentum, "Decay of muon's momentum.")
      .from_below(0, 1)
      .idle(unless({OptimizerKind::muon}));
  group
      .field("muon_use_nesterov", config.muon_use_nesterov,
             "Muon looks one step of its momentum ahead.")
      .idle(unless({OptimizerKind::muon}));
  group
      .field("muon_num_ns_steps", config.muon_num_ns_steps,
             "Newton-Schulz iterations that make muon's momentum orthogonal.")
      .range(1, 100)
      .idle(unless({OptimizerKind::muon}));
  group
      .field("muon_scale_mode", config.muon_scale_mode,
             "What muon's orthogonal update of a matrix [out, in] is multiplied by. spectral: "
             "sqrt(max(out, in)); unit_rms_norm: sqrt(out / in); shape_scaling: "
             "sqrt(max(1, out / in)).")
      .idle(unless({OptimizerKind::muon}));
  group
      .field(
          "muon_extra_scale_factor", config.muon_extra_scale_factor,
          "Another factor on muon's update: 0.2 with spectral makes updates as large as AdamW's.")
      .positive()
      .idle(unless({OptimizerKind::muon}));
  group
      .field("adafactor_decay_rate", config.adafactor_decay_rate,
             "Exponent d of adafactor's decay of squared gradients, 1 - t^d in update t.")
      .range(-1, -0.001)
      .idle(unless({OptimizerKind::adafactor}));
  group
      .field("adafactor_clip_threshold", config.adafactor_clip_threshold,
             "Largest root mean square of adafactor's update of a tensor, before the learning "
             "rate: larger updates are scaled down to it.")
      .positive()
      .idle(unless({OptimizerKind::adafactor}));
  group.field("adafactor_eps1", config.adafactor_eps1, "Added to adafactor's squared gradients.")
      .positive()
      .idle(unless({OptimizerKind::adafactor}));
  group
      .field("adafactor_eps2", config.adafactor_eps2,
             "Minimum root mean square of a tensor by which adafactor scales its step.")
      .positive()
      .idle(unless({OptimizerKind::adafactor}))
      .idle([&config] { return !config.adafactor_scale_parameter; },
            "optimizer.adafactor_scale_parameter = false");
  group
      .field("adafactor_scale_parameter", config.adafactor_scale_parameter,
             "Adafactor's step of a tensor is the learning rate times the root mean square of "
             "its values: the rate is relative, 1e-2 in the paper. false: the learning rate.")
      .idle(unless({OptimizerKind::adafactor}));
  group
      .field("adafactor_relative_step", config.adafactor_relative_step,
             "Adafactor's learning rate in update t is at most 1 / sqrt(t).")
      .idle(unless({OptimizerKind::adafactor}));
  group
      .field("clip_grad", config.clip_grad,
             "Largest global gradient norm: larger gradients are scaled down to it; 0: off.")
      .range(0);
  group
      .field("decoupled_lr", config.decoupled_lr,
             "Highest learning rate of token embedding and output layer, which then follow the "
             "schedule by themselves; null: lr.")
      .range(0);
  group
      .field("decoupled_min_lr", config.decoupled_min_lr,
             "Their learning rate at the end of the decay; null: min_lr.")
      .range(0)
      .constraint("needs decoupled_lr; at most it");
  return group;
}

FieldGroup scheduler_fields(SchedulerConfig& config) {
  FieldGroup group("scheduler", "How learning rate and weight decay move over the run.");
  group.on_resume(resume::free);
  group.field("lr_decay_style", config.lr_decay_style, "Shape of the fall from lr to min_lr.");
  group
      .field("lr_decay_iters", config.lr_decay_iters,
             "Step at which min_lr is reached, warm-up included; null: train.train_iters, unless "
             "lr_decay_samples or train.train_samples gives it.")
      .range(1, kMostSteps)
      .in("steps")
      .constraint("excludes lr_decay_samples")
      .idle(
          [&config] { return config.lr_decay_style == DecayStyle::constant && !config.warms_up(); },
          "scheduler.lr_decay_style = constant, and there is no warm-up");
  group
      .field("lr_decay_samples", config.lr_decay_samples,
             "Row of the data at which min_lr is reached, warm-up included; null: lr_decay_iters "
             "or train.train_samples gives it.")
      .range(1, kMostSamples)
      .in("rows")
      .constraint("excludes lr_decay_iters");
  group
      .field("lr_warmup_iters", config.lr_warmup_iters,
             "Steps of linear warm-up; auto: 500, but at most a tenth of lr_decay_iters, and 0 "
             "where another field gives the warm-up.")
      .range(0, kMostSteps)
      .in("steps")
      .constraint("below lr_decay_iters");
  group
      .field("lr_warmup_samples", config.lr_warmup_samples,
             "Rows of linear warm-up; 0: lr_warmup_iters or lr_warmup_fraction gives it.")
      .range(0, kMostSamples)
      .in("rows")
      .constraint("below lr_decay_samples; excludes lr_warmup_iters and lr_warmup_fraction");
  group
      .field("lr_warmup_fraction", config.lr_warmup_fraction,
             "Warm-up as a part of lr_decay_iters or lr_decay_samples.")
      .range(0, 1)
      .constraint("excludes lr_warmup_iters and lr_warmup_samples");
  group.field("lr_warmup_init", config.lr_warmup_init, "Learning rate at the start of the warm-up.")
      .range(0)
      .constraint("at most optimizer.lr")
      .idle([&config] { return !config.warms_up(); }, "there is no warm-up");
  group.field("lr_wsd_decay_style", config.lr_wsd_decay_style, "Shape of the last stretch of WSD.")
      .idle([&config] {
        return reason_if(config.lr_decay_style != DecayStyle::warmup_stable_decay,
                         stated("scheduler.lr_decay_style", config.lr_decay_style));
      });
  group
      .field("lr_wsd_decay_iters", config.lr_wsd_decay_iters,
             "Length of the last stretch of WSD, in steps of the full batch.")
      .range(1, kMostSteps)
      .in("steps")
      .constraint("required by lr_decay_style=WSD")
      .idle([&config] {
        return reason_if(config.lr_decay_style != DecayStyle::warmup_stable_decay,
                         stated("scheduler.lr_decay_style", config.lr_decay_style));
      });
  group
      .field("start_weight_decay", config.start_weight_decay,
             "Weight decay at the start; null: optimizer.weight_decay.")
      .range(0);
  group
      .field("end_weight_decay", config.end_weight_decay,
             "Weight decay at the end; null: optimizer.weight_decay.")
      .range(0)
      .constraint("at least start_weight_decay");
  group
      .field("weight_decay_incr_style", config.weight_decay_incr_style,
             "How weight decay grows over train.train_iters.")
      .idle([&config] { return config.start_weight_decay == config.end_weight_decay; },
            "weight decay is the same at start and end");
  group
      .field("override_opt_param_scheduler", config.override_opt_param_scheduler,
             "A run that resumes takes the schedule (optimizer.lr and min_lr, warm-up, decay, "
             "weight decay, each in rows) of its configuration; false: a schedule that differs "
             "from the checkpoint's is an error. auto: true unless "
             "use_checkpoint_opt_param_scheduler.")
      .constraint("excludes use_checkpoint_opt_param_scheduler");
  group.field("use_checkpoint_opt_param_scheduler", config.use_checkpoint_opt_param_scheduler,
              "A run that resumes continues with the checkpoint's schedule, whatever its "
              "configuration says.");
  return group;
}

}  // namespace viaduct
