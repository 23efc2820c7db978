#include "sharding/square_weights.h"

#include <utility>

#include "ops/elementwise.h"
#include "ops/largest_magnitude.h"
#include "ops/square_codes.h"
#include "sharding/sharding_groups.h"
#include "tensor/nvfp4.h"

namespace viaduct {
namespace {

int64_t squares_along(int64_t size) {
  return (size + kNvfp4Group - 1) / kNvfp4Group;
}

/// Of the matrices of a parameter, one below the other: each begins with whole squares.
Shape squares_shape(const Parameter& parameter) {
  const int64_t operands = operands_of(parameter);
  return {operands * squares_along(parameter.shape[0] / operands),
          squares_along(parameter.shape[1])};
}

/// The rows of one of `count` operands.
Tensor of_operand(const Tensor& all, int64_t count, int64_t operand) {
  const int64_t rows = all.dim(0) / count;
  return all.slice(0, operand * rows, rows);
}

}  // namespace

SquareWeights::SquareWeights(const OpContext& context,
                             std::vector<std::vector<const Parameter*>> parameters,
                             const PrecisionRecipe& recipe, const ParallelGroups& groups)
    : StoredCodes(context, std::move(parameters), recipe, groups) {
  for (const auto& chunk : parameters_) {
    for (const Parameter* parameter : chunk) {
      scales_[parameter] = {
          context.allocate(DType::e4m3, squares_shape(*parameter), MemoryTag::weights),
          context.allocate(DType::f32, {operands_of(*parameter)}, MemoryTag::weights)};
    }
  }
}

Operand SquareWeights::operand(const Parameter& parameter, const Tensor& codes) const {
  const Scales& scales = scales_.at(&parameter);
  return Operand::stack(operands_of(parameter), form_, recipe_.weight, matrix_of(parameter), codes,
                        scales.squares, scales.matrices);
}

Tensor SquareWeights::squares_of(const Magnitudes& of, const Parameter& parameter) {
  const Shape shape = squares_shape(parameter);
  return of.squares.slice(0, of.first_square.at(&parameter), shape.elements()).view(shape);
}

Tensor SquareWeights::squares_of(const Magnitudes& of, const Parameter& parameter,
                                 int64_t operand) {
  return of_operand(squares_of(of, parameter), operands_of(parameter), operand);
}

SquareWeights::Magnitudes SquareWeights::magnitudes(size_t chunk,
                                                    const std::vector<ShardRun>& runs) {
  const std::vector<const Parameter*>& parameters = parameters_[chunk];
  Magnitudes made;
  int64_t squares = 0, operands = 0;
  for (const Parameter* parameter : parameters) {
    made.first_square[parameter] = squares, made.first_operand[parameter] = operands;
    squares += squares_shape(*parameter).elements(), operands += operands_of(*parameter);
  }
  made.squares = context_.allocate(DType::f32, {squares}, MemoryTag::workspace);
  made.operands = context_.allocate(DType::f32, {operands}, MemoryTag::workspace);
  fill(context_, {made.squares, 0});
  for (const ShardRun& run : runs) {
    for (const Stretch& part : stretches_of(run))
      square_magnitudes(context_, {part.weights, part.begin, part.parameter->shape[1],
                                   squares_of(made, *part.parameter, part.operand)});
  }
  for_each_grid(
      parameters, [](const Parameter& of) { return squares_shape(of).elements(); },
      [&](Grid grid, int64_t begin, int64_t size) {
        const Tensor own = made.squares.slice(0, begin, size);
        sharding_groups(groups_, grid).ranks->all_reduce(own, ReduceOp::max).wait();
      });
  for (const Parameter* parameter : parameters) {
    const Tensor of_operands =
        made.operands.slice(0, made.first_operand.at(parameter), operands_of(*parameter));
    largest_magnitude(context_, {squares_of(made, *parameter), of_operands});
  }
  for_each_grid(parameters, operands_of, [&](Grid grid, int64_t begin, int64_t size) {
    const Tensor own = made.operands.slice(0, begin, size);
    groups_.of(grid, {Axis::tp})->all_reduce(own, ReduceOp::max).wait();
  });
  return made;
}

void SquareWeights::write(size_t chunk, const std::vector<ShardRun>& runs) {
  if (parameters_[chunk].empty()) return;
  const Magnitudes made = magnitudes(chunk, runs);
  for (const Parameter* parameter : parameters_[chunk]) {
    const Scales& scales = scales_.at(parameter);
    const int64_t count = operands_of(*parameter);
    for (int64_t i = 0; i < count; ++i) {
      square_scales(context_,
                    {squares_of(made, *parameter, i),
                     made.operands.slice(0, made.first_operand.at(parameter) + i, 1),
                     of_operand(scales.squares, count, i), scales.matrices.slice(0, i, 1)});
    }
  }
  for (const ShardRun& run : runs) {
    for (const Stretch& part : stretches_of(run)) {
      const Scales& scales = scales_.at(part.parameter);
      square_codes(context_,
                   {part.weights, part.begin, part.parameter->shape[1],
                    of_operand(scales.squares, operands_of(*part.parameter), part.operand),
                    scales.matrices.slice(0, part.operand, 1), part.codes});
    }
  }
}

}  // namespace viaduct
