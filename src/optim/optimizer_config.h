#pragma once
// Sections `optimizer` and `scheduler`: the update rule, and how rate and decay move over the run.
// Names and defaults are those of Megatron-Bridge's pre-training recipe.

#include <optional>

#include "config/field.h"
#include "optim/learning_rate.h"
#include "optim/optimizer_kind.h"

namespace viaduct {

struct OptimizerConfig {
  OptimizerKind optimizer = OptimizerKind::adam;
  double lr = 3e-4;
  /// `auto`: a tenth of lr.
  Auto<double> min_lr;
  double weight_decay = 0.1;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.95;
  double adam_eps = 1e-8;
  double sgd_momentum = 0.9;
  double lion_beta1 = 0.95;
  double lion_beta2 = 0.98;
  double muon_momentum = 0.95;
  bool muon_use_nesterov = false;
  int64_t muon_num_ns_steps = 5;
  MuonScale muon_scale_mode = MuonScale::spectral;
  double muon_extra_scale_factor = 1.0;
  double adafactor_decay_rate = -0.8;
  double adafactor_clip_threshold = 1.0;
  double adafactor_eps1 = 1e-30;
  double adafactor_eps2 = 1e-3;
  bool adafactor_scale_parameter = true;
  bool adafactor_relative_step = false;
  double clip_grad = 1.0;
  /// Learning rate of embedding and output layer; null: lr.
  std::optional<double> decoupled_lr;
  /// Null: min_lr.
  std::optional<double> decoupled_min_lr;

  void resolve();
};

struct SchedulerConfig {
  DecayStyle lr_decay_style = DecayStyle::cosine;
  /// Null: train.train_iters, unless rows give it.
  std::optional<int64_t> lr_decay_iters;
  /// The same in rows. Null: train.train_samples where that is given.
  std::optional<int64_t> lr_decay_samples;
  /// `auto`: 500, but at most a tenth of lr_decay_iters; 0 where another field gives it.
  Auto<int64_t> lr_warmup_iters;
  int64_t lr_warmup_samples = 0;
  std::optional<double> lr_warmup_fraction;
  double lr_warmup_init = 0;
  AnnealStyle lr_wsd_decay_style = AnnealStyle::exponential;
  std::optional<int64_t> lr_wsd_decay_iters;
  /// Null: optimizer.weight_decay.
  std::optional<double> start_weight_decay, end_weight_decay;
  DecayGrowth weight_decay_incr_style = DecayGrowth::constant;
  /// `auto`: true unless use_checkpoint_opt_param_scheduler.
  Auto<bool> override_opt_param_scheduler;
  bool use_checkpoint_opt_param_scheduler = false;

  /// Replaces `auto` and nulls, given the run's length, in rows too where the run is counted in
  /// them, and constant decay.
  void resolve(int64_t train_iters, double weight_decay,
               std::optional<int64_t> train_samples = std::nullopt);
  /// Whether the rate begins with a warm-up; after `resolve`.
  bool warms_up() const;
};

FieldGroup optimizer_fields(OptimizerConfig& config);
FieldGroup scheduler_fields(SchedulerConfig& config);

}  // namespace viaduct
