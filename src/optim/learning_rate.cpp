#include "optim/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace viaduct {
namespace {

/// Half a cosine wave from 1 at r = 0 to 0 at r = 1.
double half_cosine(double r) {
  return 0.5 * (std::cos(std::numbers::pi * r) + 1.0);
}

double anneal_factor(AnnealStyle style, double a) {
  switch (style) {
    case AnnealStyle::linear:
      return 1.0 - a;
    case AnnealStyle::cosine:
      return half_cosine(a);
    case AnnealStyle::exponential:
      return 2.0 * std::pow(0.5, a) - 1.0;
    case AnnealStyle::minus_sqrt:
      return 1.0 - std::sqrt(a);
  }
  return 0.0;
}

}  // namespace

double LearningRateSchedule::rate(int64_t samples) const {
  const double n = static_cast<double>(samples);
  if (warmup_samples > 0 && n <= warmup_samples) {
    return initial_rate + (maximum_rate - initial_rate) * n / warmup_samples;
  }
  if (style == DecayStyle::constant) return maximum_rate;
  if (n > decay_samples) return minimum_rate;
  const double range = maximum_rate - minimum_rate;
  // learning_rate_schedule makes decay_samples larger than warmup_samples.
  const double r = (n - warmup_samples) / (decay_samples - warmup_samples);
  switch (style) {
    case DecayStyle::linear:
      return minimum_rate + range * (1.0 - r);
    case DecayStyle::cosine:
      return minimum_rate + range * half_cosine(r);
    case DecayStyle::inverse_square_root:
      return std::max(minimum_rate,
                      maximum_rate * std::sqrt(std::max(warmup_samples, 1.0) / std::max(n, 1.0)));
    case DecayStyle::warmup_stable_decay: {
      const double start = decay_samples - anneal_samples;
      if (n <= start) return maximum_rate;
      return minimum_rate + range * anneal_factor(anneal, (n - start) / anneal_samples);
    }
    case DecayStyle::constant:
      break;
  }
  return maximum_rate;
}

LearningRateSchedule learning_rate_schedule(const LearningRateSettings& s,
                                            const BatchSchedule& batches) {
  std::vector<std::string> problems;
  const auto expect = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  expect(batches.full() > 0,
         fmt::format("train.global_batch_size must be positive, found {}", batches.full()));
  expect(std::isfinite(s.maximum_rate) && s.maximum_rate >= 0,
         fmt::format("optimizer.lr must be finite and not negative, found {}", s.maximum_rate));
  expect(s.minimum_rate >= 0 && s.minimum_rate <= s.maximum_rate,
         fmt::format("optimizer.min_lr must be in [0, optimizer.lr = {}], found {}", s.maximum_rate,
                     s.minimum_rate));
  expect(s.initial_rate >= 0 && s.initial_rate <= s.maximum_rate,
         fmt::format("scheduler.lr_warmup_init must be in [0, optimizer.lr = {}], found {}",
                     s.maximum_rate, s.initial_rate));
  expect(
      s.warmup_iterations >= 0,
      fmt::format("scheduler.lr_warmup_iters must not be negative, found {}", s.warmup_iterations));
  if (s.warmup_fraction) {
    expect(*s.warmup_fraction >= 0 && *s.warmup_fraction <= 1,
           fmt::format("scheduler.lr_warmup_fraction must be in [0, 1], found {}",
                       *s.warmup_fraction));
    expect(s.warmup_iterations == 0 && s.warmup_samples == 0,
           "scheduler.lr_warmup_fraction excludes lr_warmup_iters and lr_warmup_samples");
  }
  expect(
      s.warmup_samples >= 0,
      fmt::format("scheduler.lr_warmup_samples must not be negative, found {}", s.warmup_samples));
  expect(s.warmup_samples == 0 || s.warmup_iterations == 0,
         "scheduler.lr_warmup_samples and scheduler.lr_warmup_iters exclude each other");
  LearningRateSchedule schedule{s.style, s.anneal, s.maximum_rate, s.minimum_rate, s.initial_rate};
  const auto samples_of = [&](int64_t steps) {
    return static_cast<double>(batches.samples_after(steps));
  };
  schedule.decay_samples =
      s.decay_samples ? static_cast<double>(*s.decay_samples) : samples_of(s.decay_iterations);
  schedule.warmup_samples = s.warmup_fraction      ? *s.warmup_fraction * schedule.decay_samples
                            : s.warmup_samples > 0 ? static_cast<double>(s.warmup_samples)
                                                   : samples_of(s.warmup_iterations);
  schedule.anneal_samples =
      static_cast<double>(s.anneal_iterations) * static_cast<double>(batches.full());
  if (s.style != DecayStyle::constant) {
    const std::string decay =
        s.decay_samples
            ? fmt::format("lr_decay_samples = {}", *s.decay_samples)
            : fmt::format("lr_decay_iters {} = {}", s.decay_iterations,
                          counted(static_cast<int64_t>(schedule.decay_samples), "sample"));
    expect(schedule.decay_samples > 0,
           fmt::format("scheduler: the decay must be longer than 0, found {}", decay));
    expect(schedule.warmup_samples < schedule.decay_samples,
           fmt::format("scheduler: warm-up ({}) must end before the decay does ({})",
                       counted(static_cast<int64_t>(schedule.warmup_samples), "sample"), decay));
  }
  if (s.style == DecayStyle::warmup_stable_decay) {
    expect(s.anneal_iterations > 0 && schedule.anneal_samples <= schedule.decay_samples,
           fmt::format("scheduler.lr_wsd_decay_iters must be at least 1 and end with the decay "
                       "({}), found {} of {}",
                       counted(static_cast<int64_t>(schedule.decay_samples), "sample"),
                       counted(s.anneal_iterations, "step"), counted(batches.full(), "row")));
  }
  if (!problems.empty()) throw ConfigError(problems);
  return schedule;
}

double WeightDecaySchedule::decay(int64_t samples) const {
  const double n = static_cast<double>(samples);
  if (growth == DecayGrowth::constant || n >= growth_samples) return end;
  const double r = n / growth_samples;
  return start + (end - start) * (growth == DecayGrowth::linear ? r : half_cosine(1.0 - r));
}

WeightDecaySchedule weight_decay_schedule(DecayGrowth growth, double start, double end,
                                          int64_t growth_iterations, const BatchSchedule& batches) {
  std::vector<std::string> problems;
  if (!(start >= 0))
    problems.push_back(
        fmt::format("scheduler.start_weight_decay must not be negative, found {}", start));
  if (!(end >= start)) {
    problems.push_back(
        fmt::format("scheduler.end_weight_decay must be at least start_weight_decay = {}, found {}",
                    start, end));
  }
  if (growth == DecayGrowth::constant && start != end) {
    problems.push_back(fmt::format(
        "scheduler.weight_decay_incr_style constant needs equal start and end, found {} and {}",
        start, end));
  }
  if (growth != DecayGrowth::constant && growth_iterations <= 0) {
    problems.push_back(
        fmt::format("train.train_iters must be positive, found {}", growth_iterations));
  }
  if (batches.full() <= 0) {
    problems.push_back(
        fmt::format("train.global_batch_size must be positive, found {}", batches.full()));
  }
  if (!problems.empty()) throw ConfigError(problems);
  return {growth, start, end, static_cast<double>(batches.samples_after(growth_iterations))};
}

}  // namespace viaduct
