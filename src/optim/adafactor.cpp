#include "optim/adafactor.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"

namespace viaduct {
namespace {

/// Elements of a piece: directions have memory piece by piece.
constexpr int64_t kPiece = int64_t{1} << 20;

bool is_matrix(const Parameter& parameter) {
  return parameter.shape.rank() == 2;
}
bool is_vector(const Parameter& parameter) {
  return !is_matrix(parameter);
}
Shape rows_of(const Shape& logical) {
  return {logical[0]};
}
Shape columns_of(const Shape& logical) {
  return {logical[1]};
}

/// The dim of a logical matrix that the rows of the storage are.
int dim_of_rows(const Part& part) {
  return part.transposed ? 1 : 0;
}

/// Whether this rank's copy is the one that sums over the tensor ranks take: of a tied head's
/// copies each stage counts its own.
bool counts(const Part& part, int tensor_rank) {
  if (part.replicas == Replicas::none) return true;
  return part.replicas == Replicas::tp ? tensor_rank == 0 : part.owned;
}

void all_reduce(Communicator& ranks, const Tensor& tensor, ReduceOp op) {
  if (ranks.size() > 1) ranks.all_reduce(tensor, op).wait();
}

}  // namespace

Adafactor::Adafactor(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
                     AdafactorSettings settings, const ParallelGroups& groups)
    : Optimizer(store), settings_(settings) {
  second_ = add_state(context, "optimizer.exp_avg_sq/", recipe.second_moment, is_vector);
  for (const ParameterBuffer& buffer : store.buffers())
    if (buffer.parameters().front()->trained)
      groups_.push_back(make_group(context, buffer, groups));
  add_shared_states();
}

Adafactor::Group Adafactor::make_group(OpContext& context, const ParameterBuffer& buffer,
                                       const ParallelGroups& groups) {
  Group group;
  group.chunk = buffer.chunk();
  group.ranks = buffer.parts() > 1 ? buffer.groups().ranks : buffer.groups().shards;
  const Grid grid = buffer.parameters().front()->grid;
  group.tensor_ranks = groups.of(grid == Grid::expert ? GroupKind::expert_tp : GroupKind::tp);
  for (const Parameter* parameter : buffer.parameters())
    if (!parameter->load_bias_rate) add_tensors(group, *parameter);
  for (size_t i = 0; i < store().shard_runs().size(); ++i) {
    const auto& mine = buffer.parameters();
    const Parameter* parameter = run(i).parameter;
    if (!parameter->load_bias_rate && std::ranges::find(mine, parameter) != mine.end())
      add_places(group, i);
  }
  group.moments =
      context.allocate(DType::f32, {std::max<int64_t>(1, group.values)}, MemoryTag::moments);
  fill(context, {group.moments, 0});
  return group;
}

void Adafactor::add_tensors(Group& group, const Parameter& parameter) {
  const auto add = [&](const Part* part, const Shape& shape) {
    LogicalTensor& tensor = group.tensors.emplace_back();
    tensor.parameter = &parameter;
    tensor.part = part;
    if (shape.rank() == 1) return;
    const int rows = part == nullptr ? 0 : dim_of_rows(*part);
    tensor.matrix = {shape[rows], shape[1 - rows], group.values, 0};
    // A tensor rank that has only padding of the vocabulary does not know the table's rows: all
    // ranks have places for the padded ones.
    group.values +=
        parameter.vocabulary ? parameter.shape[0] * group.tensor_ranks->size() : tensor.matrix.rows;
    tensor.matrix.column_place = group.values;
    group.values += tensor.matrix.columns;
  };
  const size_t first = group.tensors.size();
  for (const Part& part : parameter.parts) {
    VIADUCT_CHECK(ConfigError, part.logical_shape.rank() <= 2,
                  "optimizer.optimizer=adafactor: {} is {}, but means of rows and columns are "
                  "implemented only for matrices and vectors",
                  part.name, to_string(part.logical_shape));
    const auto same = [&](const LogicalTensor& of) { return of.part->name == part.name; };
    if (std::any_of(group.tensors.begin() + static_cast<std::ptrdiff_t>(first), group.tensors.end(),
                    same))
      continue;
    add(&part, part.logical_shape);
  }
  if (parameter.parts.empty()) add(nullptr, parameter.shape);
}

void Adafactor::add_places(Group& group, size_t i) const {
  const Parameter& parameter = *run(i).parameter;
  const int64_t in_row = row_elements(parameter);
  for (const Part& part : parameter.parts) {
    const Range all = part_range(parameter, part);
    const auto here = overlap(run(i).range, all);
    if (!here) continue;
    const auto tensor = std::ranges::find_if(group.tensors, [&](const LogicalTensor& of) {
      return of.parameter == &parameter && of.part->name == part.name;
    });
    Place place;
    place.tensor = static_cast<size_t>(tensor - group.tensors.begin());
    place.counts = counts(part, group.tensor_ranks->rank());
    place.piece.matrix = tensor->matrix;
    const auto add = [&](int64_t begin, int64_t row, int64_t column, int64_t rows,
                         int64_t columns) {
      place.range = {begin - run(i).range.begin, begin - run(i).range.begin + rows * columns};
      place.piece.row = row, place.piece.column = column;
      place.piece.rows = rows, place.piece.columns = columns;
      group.places[i].push_back(place);
    };
    if (is_vector(parameter)) {
      for (int64_t at = here->begin; at < here->end; at += kPiece)
        add(at, 0, 0, 1, std::min(kPiece, here->end - at));
      continue;
    }
    const int dim = dim_of_rows(part);
    const int64_t first_row = part.box.begin[dim], first_column = part.box.begin[1 - dim];
    int64_t at = here->begin;
    for (const Rectangle& of :
         rectangles({here->begin - all.begin, here->end - all.begin}, in_row)) {
      const int64_t step = std::max<int64_t>(1, kPiece / of.columns);
      for (int64_t r = 0; r < of.rows; r += step) {
        const int64_t rows = std::min(step, of.rows - r);
        add(at, first_row + of.row + r, first_column + of.column, rows, of.columns);
        at += rows * of.columns;
      }
    }
  }
}

void Adafactor::add_shared_states() {
  OptimizerState rows{"optimizer.exp_avg_sq_row/", {}, is_matrix, false, rows_of},
      columns{"optimizer.exp_avg_sq_col/", {}, is_matrix, false, columns_of};
  for (const Group& group : groups_) {
    for (const LogicalTensor& tensor : group.tensors) {
      if (tensor.part == nullptr || tensor.matrix.rows == 0) continue;
      const Part& part = *tensor.part;
      const bool saved = group.ranks->rank() == 0 && group.tensor_ranks->rank() == 0 && part.owned;
      const auto add = [&](OptimizerState& state, int64_t place, int64_t count) {
        auto description = std::make_shared<Parameter>();
        description->path = tensor.parameter->path;
        description->shape = {count};
        description->parts = {whole_part(part.name, {count})};
        state.shared.push_back(
            {std::move(description), group.moments.slice(0, place, count), saved});
      };
      const AdafactorMatrix& of = tensor.matrix;
      add(part.transposed ? columns : rows, of.place, of.rows);
      add(part.transposed ? rows : columns, of.column_place, of.columns);
    }
  }
  add_shared_state(std::move(rows));
  add_shared_state(std::move(columns));
}

AdafactorPiece Adafactor::piece_of(size_t i, const Place& place) const {
  AdafactorPiece piece = place.piece;
  piece.gradient = here(run(i).gradient).slice(0, place.range.begin, place.range.size());
  return piece;
}

Tensor Adafactor::second_of(size_t i, const Place& place) const {
  const StateValues& second = states()[second_].runs[i];
  if (!second.values) return {};
  return here(second.values).slice(0, place.range.begin, place.range.size());
}

void Adafactor::for_places(const ChunkRuns& chunk, const Group& group, const RunUse& uses,
                           FunctionRef<void(size_t i, const Place&)> f, FunctionRef<void()> end) {
  const auto use = [&](size_t i) { return group.places.contains(i) ? uses : RunUse(); };
  walk(chunk, use, [&](const ChunkRuns& runs) {
    for (size_t i = runs.begin; i < runs.end; ++i) {
      const auto places = group.places.find(i);
      if (places == group.places.end()) continue;
      for (const Place& place : places->second) f(i, place);
    }
    end();
  });
}

Tensor Adafactor::factors(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                          const Group& group) {
  std::vector<AdafactorMatrix> matrices;
  for (const LogicalTensor& tensor : group.tensors)
    if (tensor.part != nullptr && tensor.matrix.rows > 0) matrices.push_back(tensor.matrix);
  if (group.values == 0) return {};
  const auto flat = [&](DType dtype) {
    return context.allocate(dtype, {group.values}, MemoryTag::workspace);
  };
  const Tensor limits = flat(DType::f32), sums = flat(DType::f64), factors = flat(DType::f32);
  fill(context, {limits, 0});
  fill(context, {sums, 0});
  std::vector<AdafactorPiece> pieces;
  const auto add = [&](size_t i, const Place& place) {
    if (place.counts && place.piece.matrix.rows > 0) pieces.push_back(piece_of(i, place));
  };
  const auto reduce = [&](const Tensor& values, ReduceOp op) {
    all_reduce(*group.ranks, values, op);
    all_reduce(*group.tensor_ranks, values, op);
  };
  for_places(chunk, group, {.gradient = true}, add, [&] {
    adafactor_limits(context, {std::exchange(pieces, {}), limits});
  });
  reduce(limits, ReduceOp::max);
  for_places(chunk, group, {.gradient = true}, add, [&] {
    adafactor_sums(context, {std::exchange(pieces, {}), limits, sums});
  });
  reduce(sums, ReduceOp::sum);
  adafactor_moments(context, {std::move(matrices), limits, sums, group.moments, factors, scalars,
                              settings_.decay_rate, settings_.epsilon1});
  return factors;
}

Tensor Adafactor::squares(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                          const Group& group, const Tensor& factors) {
  const int64_t each = settings_.scale_parameter ? 2 : 1;
  const auto count = static_cast<int64_t>(group.tensors.size()) * each;
  const Tensor states =
      context.allocate(DType::f64, {count, kReproducibleSumSize}, MemoryTag::workspace);
  fill(context, {states, 0});
  const RunUse uses{.master = settings_.scale_parameter, .states = true, .gradient = true};
  for_places(
      chunk, group, uses,
      [&](size_t i, const Place& place) {
        const Tensor out = context.allocate(DType::f32, {place.range.size()}, MemoryTag::workspace);
        adafactor_direction(context, {piece_of(i, place), factors, second_of(i, place), scalars,
                                      out, settings_.decay_rate, settings_.epsilon1});
        if (!place.counts) return;
        const auto state = static_cast<int64_t>(place.tensor) * each;
        reproducible_sums(context, {{out}, true, states.select(state)});
        if (each == 1) return;
        const Tensor master = here(run(i).master).slice(0, place.range.begin, place.range.size());
        reproducible_sums(context, {{master}, true, states.select(state + 1)});
      },
      [] {});
  if (group.ranks->size() == 1 && group.tensor_ranks->size() == 1) return states;
  const Tensor wide = context.allocate(DType::i64, {count, kWideSumSize}, MemoryTag::workspace);
  for (int64_t s = 0; s < count; ++s) widen_sum(context, {states.select(s), wide.select(s)});
  all_reduce(*group.ranks, wide, ReduceOp::sum);
  all_reduce(*group.tensor_ranks, wide, ReduceOp::sum);
  for (int64_t s = 0; s < count; ++s) narrow_sum(context, {wide.select(s), states.select(s)});
  return states;
}

void Adafactor::update_group(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                             const Group& group) {
  const Tensor factors = this->factors(context, scalars, chunk, group);
  const Tensor squares = this->squares(context, scalars, chunk, group, factors);
  const int64_t each = settings_.scale_parameter ? 2 : 1;
  AdafactorUpdateArgs update{
      {}, factors, scalars, settings_.epsilon2, settings_.clip_threshold, settings_.relative_step};
  for_places(
      chunk, group, {.master = true, .states = true, .gradient = true},
      [&](size_t i, const Place& place) {
        AdafactorUpdatePiece& of = update.pieces.emplace_back();
        of.piece = piece_of(i, place);
        of.second = second_of(i, place);
        of.master = here(run(i).master).slice(0, place.range.begin, place.range.size());
        if (const Tensor weight = written_weight(i))
          of.weight = weight.slice(0, place.range.begin, place.range.size());
        const auto state = static_cast<int64_t>(place.tensor) * each;
        of.direction_squares = squares.select(state);
        if (each == 2) of.master_squares = squares.select(state + 1);
        of.elements = group.tensors[place.tensor].part->logical_shape.elements();
        of.weight_decay = run(i).parameter->decay ? settings_.weight_decay : 0;
        of.learning_rate = learning_rate(i, settings_.decoupled_rate);
      },
      [&] {
        adafactor_update(context, update);
        update.pieces.clear();
      });
}

void Adafactor::update_chunk(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk) {
  for (const Group& group : groups_)
    if (group.chunk == chunk.chunk && !group.tensors.empty())
      update_group(context, scalars, chunk, group);
}

}  // namespace viaduct
