#include "optim/matrix_exchange.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {

MatrixExchange::MatrixExchange(const ParameterBuffer& buffer, bool (*wanted)(const Parameter&),
                               std::shared_ptr<Communicator> shards)
    : shards_(std::move(shards)) {
  const auto ranks = static_cast<size_t>(shards_->size());
  std::vector<int64_t> load(ranks, 0);  // of owners
  for (size_t i = 0; i < buffer.parameters().size(); ++i) {
    const Parameter* parameter = buffer.parameters()[i];
    if (!wanted(*parameter)) continue;
    const auto least = std::min_element(load.begin(), load.end());
    *least += parameter->shape.elements();
    Matrix matrix{parameter, static_cast<int>(least - load.begin()), {}};
    for (int rank = 0; rank < shards_->size(); ++rank) {
      const auto ranges = shard_ranges(buffer.layout(), i, rank);
      matrix.runs.push_back(ranges ? ranges->in_parameter : Range{});
    }
    matrices_.push_back(std::move(matrix));
  }
  std::stable_sort(matrices_.begin(), matrices_.end(),
                   [](const Matrix& a, const Matrix& b) { return a.owner < b.owner; });
  held_rows_.assign(ranks, 0), owned_rows_.assign(ranks, 0);
  const auto me = static_cast<size_t>(shards_->rank());
  for (const Matrix& matrix : matrices_) {
    held_rows_[static_cast<size_t>(matrix.owner)] += matrix.runs[me].size();
    for (size_t rank = 0; rank < ranks && matrix.owner == shards_->rank(); ++rank)
      owned_rows_[rank] += matrix.runs[rank].size();
  }
}

int64_t MatrixExchange::sum(const std::vector<int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

Range MatrixExchange::held_place(const Parameter& parameter) const {
  const auto me = static_cast<size_t>(shards_->rank());
  int64_t begin = 0;
  for (const Matrix& matrix : matrices_) {
    const int64_t size = matrix.runs[me].size();
    if (matrix.parameter == &parameter) return {begin, begin + size};
    begin += size;
  }
  fail<ShapeError>("matrix exchange: {} takes no part", parameter.path);
}

void MatrixExchange::copy_pieces(OpContext& context, const std::vector<Whole>& whole,
                                 const Tensor& pieces, bool to_whole) const {
  int64_t begin = 0;
  for (size_t rank = 0; rank < owned_rows_.size(); ++rank) {
    size_t next = 0;
    for (const Matrix& matrix : matrices_) {
      if (matrix.owner != shards_->rank()) continue;
      const Tensor& values = whole[next++].values;
      const Range& run = matrix.runs[rank];
      if (run.size() == 0) continue;
      const Tensor place = values.view({values.elements()}).slice(0, run.begin, run.size());
      const Tensor piece = pieces.slice(0, begin, run.size());
      if (to_whole) {
        copy(context, {piece, place});
      } else {
        copy(context, {place, piece});
      }
      begin += run.size();
    }
  }
}

std::vector<MatrixExchange::Whole> MatrixExchange::gather(OpContext& context,
                                                          const Tensor& held) const {
  const Tensor pieces = context.allocate(DType::f32, {sum(owned_rows_)}, MemoryTag::workspace);
  shards_->all_to_all(held, pieces, held_rows_, owned_rows_).wait();
  std::vector<Whole> whole;
  for (const Matrix& matrix : matrices_) {
    if (matrix.owner != shards_->rank()) continue;
    whole.push_back({matrix.parameter,
                     context.allocate(DType::f32, matrix.parameter->shape, MemoryTag::workspace)});
  }
  copy_pieces(context, whole, pieces, true);
  return whole;
}

void MatrixExchange::scatter(OpContext& context, const std::vector<Whole>& whole,
                             const Tensor& held) const {
  const Tensor pieces = context.allocate(DType::f32, {sum(owned_rows_)}, MemoryTag::workspace);
  copy_pieces(context, whole, pieces, false);
  shards_->all_to_all(pieces, held, owned_rows_, held_rows_).wait();
}

}  // namespace viaduct
