#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/reference/reference.h"
#include "ops/reference/rows.h"

namespace viaduct::reference {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

const double kTanhScale = std::sqrt(2 / std::numbers::pi);
constexpr double kTanhCubic = 0.044715;

double value(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::gelu:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case ActivationKind::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(kTanhScale * (x + kTanhCubic * x * x * x)));
    case ActivationKind::quick_gelu:
      return x * sigmoid(1.702 * x);
    case ActivationKind::silu:
      return x * sigmoid(x);
    case ActivationKind::relu:
      return x > 0 ? x : 0;
    case ActivationKind::squared_relu:
      return x > 0 ? x * x : 0;
  }
  return 0;
}

double derivative(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::gelu: {
      const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
    }
    case ActivationKind::gelu_tanh: {
      const double t = std::tanh(kTanhScale * (x + kTanhCubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kTanhScale * (1 + 3 * kTanhCubic * x * x);
    }
    case ActivationKind::quick_gelu: {
      const double s = sigmoid(1.702 * x);
      return s + 1.702 * x * s * (1 - s);
    }
    case ActivationKind::silu: {
      const double s = sigmoid(x);
      return s + x * s * (1 - s);
    }
    case ActivationKind::relu:
      return x > 0 ? 1 : 0;
    case ActivationKind::squared_relu:
      return x > 0 ? 2 * x : 0;
  }
  return 0;
}

/// Gate and `up` of element i of a row of 2F, as they enter the product, and the slopes of their
/// clamps.
struct Shaped {
  int64_t gate_at, up_at;
  double gate, up, gate_slope = 1, up_slope = 1;
};

Shaped shaped(const GateShape& shape, const double* in, int64_t i, int64_t F) {
  Shaped s{shape.interleaved ? 2 * i : i, shape.interleaved ? 2 * i + 1 : F + i, 0, 0};
  s.gate = in[s.gate_at], s.up = in[s.up_at];
  if (shape.clamp > 0) {
    s.gate_slope = s.gate <= shape.clamp ? 1 : 0;
    s.up_slope = std::abs(s.up) <= shape.clamp ? 1 : 0;
    s.gate = std::min(s.gate, shape.clamp);
    s.up = std::clamp(s.up, -shape.clamp, shape.clamp);
  }
  s.up += shape.offset;
  return s;
}

}  // namespace

void activation_forward(const ActivationForwardArgs& args) {
  const int64_t F = args.out.dim(1);
  if (args.shape.any()) {
    for (int64_t t = 0; t < args.in.dim(0); ++t) {
      for (int64_t i = 0; i < F; ++i) {
        const Shaped s = shaped(args.shape, row(args.in, t), i, F);
        row(args.out, t)[i] = value(args.kind, s.gate) * s.up;
      }
    }
    return;
  }
  for (int64_t t = 0; t < args.in.dim(0); ++t) {
    const double* in = row(args.in, t);
    double* out = row(args.out, t);
    for (int64_t i = 0; i < F; ++i) out[i] = value(args.kind, in[i]) * (args.gated ? in[F + i] : 1);
  }
}

void activation_backward(const ActivationBackwardArgs& args) {
  const int64_t F = args.d_out.dim(1);
  if (args.shape.any()) {
    for (int64_t t = 0; t < args.in.dim(0); ++t) {
      for (int64_t i = 0; i < F; ++i) {
        const Shaped s = shaped(args.shape, row(args.in, t), i, F);
        const double d = row(args.d_out, t)[i];
        row(args.d_in, t)[s.gate_at] = d * s.up * s.gate_slope * derivative(args.kind, s.gate);
        row(args.d_in, t)[s.up_at] = d * s.up_slope * value(args.kind, s.gate);
      }
    }
    return;
  }
  for (int64_t t = 0; t < args.in.dim(0); ++t) {
    const double* in = row(args.in, t);
    const double* d_out = row(args.d_out, t);
    double* d_in = row(args.d_in, t);
    for (int64_t i = 0; i < F; ++i) {
      const double x = in[i], up = args.gated ? in[F + i] : 1;
      d_in[i] = d_out[i] * up * derivative(args.kind, x);
      if (args.gated) d_in[F + i] = d_out[i] * value(args.kind, x);
    }
  }
}

}  // namespace viaduct::reference
