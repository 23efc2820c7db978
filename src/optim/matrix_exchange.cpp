#include "optim/matrix_exchange.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {

MatrixExchange::MatrixExchange(const ParameterBuffer& buffer, bool (*wanted)(const Parameter&))
    : chunk_(buffer.chunk()),
      ranks_(buffer.parts() > 1 ? buffer.groups().ranks : buffer.groups().shards) {
  std::vector<int64_t> load(static_cast<size_t>(ranks_->size()), 0);  // of owners
  for (size_t i = 0; i < buffer.parameters().size(); ++i) {
    const Parameter* parameter = buffer.parameters()[i];
    if (!wanted(*parameter)) continue;
    const auto least = std::min_element(load.begin(), load.end());
    *least += parameter->shape.elements();
    const auto owner = static_cast<int>(least - load.begin());
    const auto own = shard_ranges(buffer.layout(), i, buffer.shard());
    held_.push_back({parameter, owner, own ? own->in_parameter : Range{}});
    if (owner != ranks_->rank()) continue;
    for (const Piece& piece : runs_of(buffer, i, owned_.size())) pieces_.push_back(piece);
    owned_.push_back(parameter);
    owned_elements_ += parameter->shape.elements();
  }
  std::ranges::stable_sort(held_, {}, &Held::owner);
  std::ranges::stable_sort(pieces_, {}, &Piece::rank);
  for (Held& held : held_) {
    held.place = {held_elements_, held_elements_ + held.place.size()};
    held_elements_ = held.place.end;
  }
}

std::vector<MatrixExchange::Piece> MatrixExchange::runs_of(const ParameterBuffer& buffer,
                                                           size_t parameter, size_t matrix) {
  const BufferLayout& layout = buffer.layout();
  const BufferLayout::Place& place = layout.parameters[parameter];
  const Range& bucket = layout.buckets[place.bucket];
  const int64_t length = bucket.size() / layout.shards;
  const int parts = buffer.parts(), in_instance = buffer.groups().shards->size();
  std::vector<Piece> pieces;
  for (int64_t shard = (place.range.begin - bucket.begin) / length;
       bucket.begin + shard * length < place.range.end; ++shard) {
    const auto number = static_cast<int>(shard);
    // Ranks are counted instance by instance, shards the other way round.
    const int rank = number / parts + number % parts * in_instance;
    pieces.push_back({rank, matrix, shard_ranges(layout, parameter, number)->in_parameter});
  }
  return pieces;
}

std::vector<int64_t> MatrixExchange::held_rows() const {
  std::vector<int64_t> rows(static_cast<size_t>(ranks_->size()), 0);
  for (const Held& held : held_) rows[static_cast<size_t>(held.owner)] += held.place.size();
  return rows;
}

std::vector<int64_t> MatrixExchange::owned_rows() const {
  std::vector<int64_t> rows(static_cast<size_t>(ranks_->size()), 0);
  for (const Piece& piece : pieces_) rows[static_cast<size_t>(piece.rank)] += piece.run.size();
  return rows;
}

bool MatrixExchange::has(const Parameter& parameter) const {
  return std::ranges::find(held_, &parameter, &Held::parameter) != held_.end();
}

Range MatrixExchange::held_place(const Parameter& parameter) const {
  const auto found = std::ranges::find(held_, &parameter, &Held::parameter);
  VIADUCT_CHECK(ShapeError, found != held_.end(), "matrix exchange: {} is not part of it",
                parameter.path);
  return found->place;
}

void MatrixExchange::copy_pieces(OpContext& context, const std::vector<Whole>& whole,
                                 const Tensor& pieces, bool to_whole) const {
  int64_t begin = 0;
  for (const Piece& of : pieces_) {
    const Tensor& values = whole[of.matrix].values;
    const Tensor place = values.view({values.elements()}).slice(0, of.run.begin, of.run.size());
    const Tensor piece = pieces.slice(0, begin, of.run.size());
    if (to_whole) {
      copy(context, {piece, place});
    } else {
      copy(context, {place, piece});
    }
    begin += of.run.size();
  }
}

std::vector<MatrixExchange::Whole> MatrixExchange::gather(OpContext& context,
                                                          const Tensor& held) const {
  const Tensor pieces = context.allocate(DType::f32, {owned_elements_}, MemoryTag::workspace);
  ranks_->all_to_all(held, pieces, held_rows(), owned_rows()).wait();
  std::vector<Whole> whole;
  for (const Parameter* parameter : owned_) {
    whole.push_back(
        {parameter, context.allocate(DType::f32, parameter->shape, MemoryTag::workspace)});
  }
  copy_pieces(context, whole, pieces, true);
  return whole;
}

void MatrixExchange::scatter(OpContext& context, const std::vector<Whole>& whole,
                             const Tensor& held) const {
  const Tensor pieces = context.allocate(DType::f32, {owned_elements_}, MemoryTag::workspace);
  copy_pieces(context, whole, pieces, false);
  ranks_->all_to_all(pieces, held, owned_rows(), held_rows()).wait();
}

}  // namespace viaduct
