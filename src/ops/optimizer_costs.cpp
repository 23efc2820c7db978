// Costs of the ops of optimizers, and of the sums that they read.

#include "ops/costs.h"
#include "ops/make_cost.h"

namespace viaduct {
namespace {

// Operations per value of a reproducible sum, in FP64.
constexpr double kBinnedSumFlops = 15;

Cost binned_sum_cost(double elements, int64_t bytes, const Tensor& state) {
  Cost cost;
  add_vector_flops(cost, DType::f64, kBinnedSumFlops * elements);
  cost.bytes_read = bytes + bytes_of(state);
  cost.bytes_written = bytes_of(state);
  return cost;
}

Cost muon_cost(const Tensor& elements, std::initializer_list<const Tensor*> read,
               std::initializer_list<const Tensor*> written) {
  return make_cost(DType::f32, 4 * count(elements), read, written);
}

/// Of a pass over the gradients of pieces, each with its rows and columns in other arrays.
Cost pieces_cost(const std::vector<AdafactorPiece>& pieces, DType dtype, double flops,
                 int64_t gradient_bytes, std::initializer_list<const Tensor*> changed) {
  Cost cost;
  for (const AdafactorPiece& piece : pieces) {
    const int64_t elements = piece.rows * piece.columns;
    add_vector_flops(cost, dtype, flops * static_cast<double>(elements));
    cost.bytes_read += gradient_bytes * elements;
    for (const Tensor* tensor : changed) {
      const int64_t bytes = dtype_bytes(tensor->dtype()) * (piece.rows + piece.columns);
      cost.bytes_read += bytes;
      if (tensor == *(changed.end() - 1)) cost.bytes_written += bytes;
    }
  }
  return cost;
}

}  // namespace

Cost cost_of(const ReproducibleSumArgs& args) {
  return binned_sum_cost(count(args.x), bytes_of(args.x) + bytes_of(args.weight), args.state);
}

Cost cost_of(const ReproducibleSumsArgs& args) {
  double elements = 0;
  int64_t bytes = 0;
  for (const Tensor& x : args.x) elements += count(x), bytes += bytes_of(x);
  return binned_sum_cost(elements, bytes, args.state);
}

Cost cost_of(const WidenSumArgs& args) {
  return make_cost(DType::f64, 0, {&args.state}, {&args.wide});
}

Cost cost_of(const NarrowSumArgs& args) {
  return make_cost(DType::f64, 0, {&args.wide}, {&args.state});
}

Cost cost_of(const SumValueArgs& args) {
  return make_cost(DType::f64, 0, {&args.state}, {&args.out});
}

Cost cost_of(const GradientNormArgs& args) {
  Cost cost = make_cost(DType::f64, 0, {&args.state, &args.scalars}, {});
  cost.bytes_written = 3 * dtype_bytes(DType::f64);  // norm, clip factor, skip
  return cost;
}

Cost cost_of(const AdamWListArgs& args) {
  Cost cost;
  cost.bytes_read = bytes_of(args.runs.front().scalars);
  for (const AdamWArgs& run : args.runs) {
    const bool f64 = run.master.dtype() == DType::f64;
    add_vector_flops(cost, f64 ? DType::f64 : DType::f32, 14 * count(run.master));
    const int64_t state = bytes_of(run.master) + bytes_of(run.first) + bytes_of(run.second) +
                          bytes_of(run.master_scales) + bytes_of(run.first_scales) +
                          bytes_of(run.second_scales);
    cost.bytes_read += state + bytes_of(run.gradient);
    if (run.master.dtype() == DType::i16) cost.bytes_read += bytes_of(run.weight);
    cost.bytes_written += state + bytes_of(run.weight);
  }
  return cost;
}

Cost cost_of(const MomentumListArgs& args) {
  Cost cost;
  cost.bytes_read = bytes_of(args.runs.front().scalars);
  for (const MomentumArgs& run : args.runs) {
    add_vector_flops(cost, run.master.dtype(), 8 * count(run.master));
    const int64_t state = bytes_of(run.master) + bytes_of(run.state);
    cost.bytes_read += state + bytes_of(run.gradient);
    cost.bytes_written += state + bytes_of(run.weight);
  }
  return cost;
}

Cost cost_of(const AdafactorLimitsArgs& args) {
  return pieces_cost(args.pieces, DType::f32, 2, 4, {&args.limits});
}

Cost cost_of(const AdafactorSumsArgs& args) {
  return pieces_cost(args.pieces, DType::f64, 7, 4, {&args.limits, &args.sums});
}

Cost cost_of(const AdafactorMomentsArgs& args) {
  return make_cost(DType::f64, 10 * count(args.moments),
                   {&args.limits, &args.sums, &args.moments, &args.scalars},
                   {&args.moments, &args.factors});
}

Cost cost_of(const AdafactorDirectionArgs& args) {
  Cost cost =
      make_cost(DType::f32, (args.second ? 8 : 3) * count(args.out),
                {&args.piece.gradient, &args.second, &args.scalars}, {&args.out, &args.second});
  if (!args.second) cost.bytes_read += 4 * (args.piece.rows + args.piece.columns);
  return cost;
}

Cost cost_of(const AdafactorUpdateArgs& args) {
  Cost cost;
  cost.bytes_read = bytes_of(args.scalars);
  for (const AdafactorUpdatePiece& of : args.pieces) {
    add_vector_flops(cost, DType::f32, 7 * count(of.master));
    cost.bytes_read += bytes_of(of.master) + bytes_of(of.piece.gradient) + bytes_of(of.second);
    if (!of.second) cost.bytes_read += 4 * (of.piece.rows + of.piece.columns);
    cost.bytes_written += bytes_of(of.master) + bytes_of(of.weight);
  }
  return cost;
}

Cost cost_of(const MuonMomentumArgs& args) {
  return muon_cost(args.state, {&args.gradient, &args.state, &args.scalars},
                   {&args.state, &args.out});
}

Cost cost_of(const NormalizeArgs& args) {
  return muon_cost(args.x, {&args.x, &args.sum}, {&args.x});
}

Cost cost_of(const MuonUpdateArgs& args) {
  return muon_cost(args.master, {&args.master, &args.update, &args.scalars},
                   {&args.master, &args.weight});
}

Cost cost_of(const ExpandStateArgs& args) {
  return make_cost(DType::f32, 2 * count(args.values), {&args.values, &args.scales, &args.weights},
                   {&args.out});
}

Cost cost_of(const StoreStateArgs& args) {
  return make_cost(DType::f32, 2 * count(args.values), {&args.in},
                   {&args.values, &args.scales, &args.weights});
}

}  // namespace viaduct
