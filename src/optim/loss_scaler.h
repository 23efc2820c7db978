#pragma once
// The factor that keeps FP16 gradients from underflowing: the loss is multiplied by it, gradients
// are divided by it before the update, and an update whose gradients overflowed is skipped
// (Micikevicius et al. 2018, "Mixed Precision Training", section 3.2).

#include <cstdint>
#include <string>
#include <vector>

namespace viaduct {

/// `mixed_precision.loss_scale` and its companions; defaults are Megatron's.
struct LossScalerSettings {
  /// Above 0: this constant scale. 0: dynamic, by the other fields.
  double constant_scale = 0;
  double initial_scale = 4294967296.0;  // 2^32
  double minimum_scale = 1;
  /// Clean steps in a row after which the scale doubles.
  int64_t window = 1000;
  /// Overflows (not necessarily in a row) after which the scale is halved.
  int64_t hysteresis = 2;
};

/// Everything that is out of range. Kernels read the scale as FP32, so it is at most 2^127.
std::vector<std::string> problems_of(const LossScalerSettings& settings);

/// The scaler's whole state, stored in checkpoints.
struct LossScalerState {
  double scale = 1;
  int64_t clean_steps = 0;
  int64_t overflows_left = 0;
  bool operator==(const LossScalerState&) const = default;
};

/// A state machine without memory of its own: `state' = next(state, overflowed)`.
///
/// Dynamic: an overflow sets `clean_steps` to 0 and lowers `overflows_left`; while that is ≤ 0 each
/// overflow halves the scale, not below the minimum. After `window` clean steps in a row the scale
/// doubles, and only then is `overflows_left` restored. The scale stays a finite float (at most
/// 2^127). Constant: the scale never changes; overflowing updates are still skipped.
class LossScaler {
 public:
  /// ConfigError with problems_of the settings.
  explicit LossScaler(const LossScalerSettings& settings);

  LossScalerState initial_state() const;
  LossScalerState next(LossScalerState state, bool overflowed) const;
  /// IoError if a stored state cannot be one of this scaler (scale not positive and finite,
  /// counters out of range).
  void check(const LossScalerState& state) const;

 private:
  bool dynamic() const { return settings_.constant_scale == 0; }
  LossScalerSettings settings_;
};

}  // namespace viaduct
