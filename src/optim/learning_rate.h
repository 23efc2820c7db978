#pragma once
// Learning rate and weight decay as pure functions of the samples consumed so far.
//
// The unit is Megatron's: a schedule counts samples, not iterations, and advances by the global
// batch after each update, so it stays right when the batch ramps up. Iteration counts of the
// configuration become samples once, in `learning_rate_schedule`. The first update sees 0 samples
// (with a warm-up its rate is `initial_rate`), update i with a constant batch sees i · batch. A
// skipped update (FP16 overflow) consumes its samples but does not advance the schedule: callers
// keep the schedule's own count.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "optim/batch_schedule.h"

namespace viaduct {

/// How the rate falls from its maximum (`scheduler.lr_decay_style`).
enum class DecayStyle { constant, linear, cosine, inverse_square_root, warmup_stable_decay };
constexpr auto choice_names(DecayStyle) {
  return std::to_array<std::string_view>(
      {"constant", "linear", "cosine", "inverse-square-root", "WSD"});
}
/// How the rate falls in the last phase of warm-up-stable-decay (`scheduler.lr_wsd_decay_style`).
enum class AnnealStyle { linear, cosine, exponential, minus_sqrt };
constexpr auto choice_names(AnnealStyle) {
  return std::to_array<std::string_view>({"linear", "cosine", "exponential", "minus_sqrt"});
}
/// How weight decay grows (`scheduler.weight_decay_incr_style`).
enum class DecayGrowth { constant, linear, cosine };
constexpr auto choice_names(DecayGrowth) {
  return std::to_array<std::string_view>({"constant", "linear", "cosine"});
}

/// The settings of the configuration, in iterations and rates.
struct LearningRateSettings {
  DecayStyle style = DecayStyle::cosine;
  AnnealStyle anneal = AnnealStyle::exponential;
  double maximum_rate = 3e-4, minimum_rate = 3e-5, initial_rate = 0;
  int64_t warmup_iterations = 0;
  /// Rows instead of `warmup_iterations`, which it excludes.
  int64_t warmup_samples = 0;
  /// Of the decay, in [0, 1]; excludes `warmup_iterations` and `warmup_samples`.
  std::optional<double> warmup_fraction;
  /// The iteration at which the minimum is reached, warm-up included.
  int64_t decay_iterations = 0;
  /// Rows instead of `decay_iterations`.
  std::optional<int64_t> decay_samples;
  /// Length of the last phase of warm-up-stable-decay, in steps of the full batch.
  int64_t anneal_iterations = 0;
};

/// A schedule in samples. Build it with `learning_rate_schedule`, which checks it.
struct LearningRateSchedule {
  DecayStyle style = DecayStyle::constant;
  AnnealStyle anneal = AnnealStyle::exponential;
  double maximum_rate = 0, minimum_rate = 0, initial_rate = 0;
  double warmup_samples = 0, decay_samples = 0, anneal_samples = 0;

  bool operator==(const LearningRateSchedule&) const = default;

  /// The rate of the update that follows `samples` ≥ 0 consumed ones.
  ///
  /// Warm-up (samples ≤ warmup_samples): straight line from initial_rate to maximum_rate. After it,
  /// with r = (samples − warmup) / (decay − warmup) and Δ = maximum − minimum:
  /// - constant: maximum;
  /// - linear: minimum + Δ (1 − r);
  /// - cosine: minimum + Δ (1 + cos πr) / 2 (Loshchilov and Hutter 2017, equation 5);
  /// - inverse square root: max(minimum, maximum · √(warmup / samples)) (Vaswani et al. 2017,
  ///   equation 3, rescaled);
  /// - WSD: maximum until decay − anneal, then minimum + Δ c(a) with a in (0, 1] over the anneal
  ///   phase (Hu et al. 2024, MiniCPM, section 4), where c is 1 − a (linear), (1 + cos πa) / 2
  ///   (cosine), 2·½^a − 1 (exponential) or 1 − √a (minus_sqrt).
  ///
  /// After decay_samples all styles except constant stay at the minimum.
  double rate(int64_t samples) const;
};

/// Checks the settings and turns iterations into the samples that `batches` consumes in them.
/// ConfigError lists everything that is wrong.
LearningRateSchedule learning_rate_schedule(const LearningRateSettings& settings,
                                            const BatchSchedule& batches);

/// Weight decay that grows from `start` to `end` over `growth_samples` and stays there.
struct WeightDecaySchedule {
  DecayGrowth growth = DecayGrowth::constant;
  double start = 0, end = 0;
  double growth_samples = 0;

  bool operator==(const WeightDecaySchedule&) const = default;

  /// With r = samples / growth_samples: linear start + r (end − start), cosine start + (end −
  /// start)(1 + cos π(1 − r)) / 2.
  double decay(int64_t samples) const;
};

/// Checks (both decays ≥ 0, end ≥ start, equal if constant) and builds. ConfigError lists
/// everything that is wrong.
WeightDecaySchedule weight_decay_schedule(DecayGrowth growth, double start, double end,
                                          int64_t growth_iterations, const BatchSchedule& batches);

}  // namespace viaduct
