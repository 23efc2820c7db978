#include "optim/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr double kGrowth = 2.0, kBackoff = 0.5;
/// The largest power of two of a float: kernels read the scale as FP32.
constexpr double kMaximumScale = 0x1p127;

}  // namespace

std::vector<std::string> problems_of(const LossScalerSettings& settings) {
  std::vector<std::string> problems;
  const auto in_range = [&](const char* name, double value) {
    if (!(value > 0 && value <= kMaximumScale)) {
      problems.push_back(fmt::format(
          "mixed_precision.{}: expected above 0 and at most 2^127, found {}", name, value));
    }
  };
  if (settings.constant_scale != 0) in_range("loss_scale", settings.constant_scale);
  in_range("initial_loss_scale", settings.initial_scale);
  in_range("min_loss_scale", settings.minimum_scale);
  if (settings.initial_scale < settings.minimum_scale) {
    problems.push_back(
        fmt::format("mixed_precision.initial_loss_scale: {} is below min_loss_scale = {}",
                    settings.initial_scale, settings.minimum_scale));
  }
  if (settings.window < 1) {
    problems.push_back(fmt::format("mixed_precision.loss_scale_window must be at least 1, found {}",
                                   settings.window));
  }
  if (settings.hysteresis < 1) {
    problems.push_back(fmt::format("mixed_precision.hysteresis must be at least 1, found {}",
                                   settings.hysteresis));
  }
  return problems;
}

LossScaler::LossScaler(const LossScalerSettings& settings) : settings_(settings) {
  const std::vector<std::string> problems = problems_of(settings);
  if (!problems.empty()) throw ConfigError(problems);
}

LossScalerState LossScaler::initial_state() const {
  return {dynamic() ? settings_.initial_scale : settings_.constant_scale, 0, settings_.hysteresis};
}

LossScalerState LossScaler::next(LossScalerState state, bool overflowed) const {
  if (!dynamic()) return state;
  if (overflowed) {
    state.clean_steps = 0;
    --state.overflows_left;
    if (state.overflows_left <= 0)
      state.scale = std::max(state.scale * kBackoff, settings_.minimum_scale);
    return state;
  }
  if (++state.clean_steps >= settings_.window) {
    state.clean_steps = 0;
    state.overflows_left = settings_.hysteresis;
    state.scale = std::min(state.scale * kGrowth, kMaximumScale);
  }
  return state;
}

void LossScaler::check(const LossScalerState& state) const {
  VIADUCT_CHECK(IoError, state.scale > 0 && state.scale <= kMaximumScale,
                "loss scaler: stored scale {} is not in (0, 2^127]", state.scale);
  VIADUCT_CHECK(IoError, state.clean_steps >= 0,
                "loss scaler: stored count of clean steps {} is negative", state.clean_steps);
}

}  // namespace viaduct
