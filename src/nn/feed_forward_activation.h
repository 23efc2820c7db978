#pragma once
// The activation of a feed-forward as settings name it: one of the ops' (ops/activation.h), or one
// with parameters of its own.

#include <array>
#include <optional>
#include <string_view>

#include "ops/activation.h"

namespace viaduct {

/// The values of ActivationKind, in its order, and behind them those that are no ActivationKind.
enum class FeedForwardActivation {
  gelu,
  gelu_tanh,
  quick_gelu,
  silu,
  relu,
  squared_relu,
  xielu,  // two trained slopes a layer (ops/xielu.h)
};
constexpr auto choice_names(FeedForwardActivation) {
  return std::to_array<std::string_view>(
      {"gelu", "gelu_tanh", "quick_gelu", "silu", "relu", "squared_relu", "xielu"});
}

constexpr FeedForwardActivation feed_forward_activation(ActivationKind kind) {
  return static_cast<FeedForwardActivation>(kind);
}

/// The op that computes it; nothing for an activation with parameters.
constexpr std::optional<ActivationKind> activation_kind(FeedForwardActivation activation) {
  if (activation == FeedForwardActivation::xielu) return std::nullopt;
  return static_cast<ActivationKind>(activation);
}

static_assert([] {
  constexpr auto kinds = choice_names(ActivationKind{});
  constexpr auto names = choice_names(FeedForwardActivation{});
  for (size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] != names[i]) return false;
  return names.size() == kinds.size() + 1;
}());

}  // namespace viaduct
