#include "nn/overlapped_gemm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/comm_group.h"
#include "nn/fp8_exchange.h"
#include "nn/product.h"
#include "nn/tensor_exchange.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

Flow flow_of(const StreamProduct& product) {
  return product.form == GemmForm::forward ? Flow::activations : Flow::gradients;
}

/// Of an epilogue, the rows that a part of the product has.
GemmEpilogue rows_of(const GemmEpilogue& epilogue, int64_t begin, int64_t rows) {
  GemmEpilogue part = epilogue;
  for (Tensor* tensor : {&part.residual, &part.activated, &part.raised})
    if (*tensor) *tensor = tensor->slice(0, begin, rows);
  return part;
}

/// Rows of the whole product's `out` from those of x, `begin` of all. `terms`: with all rows.
void multiply_rows(RankContext& context, const StreamProduct& product, std::vector<GemmTerm> terms,
                   const Operand& x, int64_t begin, const Tensor& out) {
  GemmArgs args{product.form, x, product.weight, out.slice(0, begin, x.dim(0)), product.bias};
  args.epilogue = rows_of(product.epilogue, begin, x.dim(0));
  args.quantization = product.quantization;
  args.terms = std::move(terms);
  for (GemmTerm& term : args.terms)
    if (term.a.dim(0) != x.dim(0)) term.a = term.a.slice(0, begin, x.dim(0));
  args.reduction = product.reduction;
  if (args.reduction.any()) args.reduction.to = args.reduction.to.slice(0, begin, x.dim(0));
  args.spare_multiprocessors = product.spare_multiprocessors;
  run_product(context.ops, std::move(args), {product.amax, {}},
              product.rounding.rows(begin, x.dim(0)));
}

/// Where a product of `rows` rows goes.
Tensor result_of(RankContext& context, const StreamProduct& product, int64_t rows, MemoryTag tag) {
  if (product.epilogue.raised) return product.epilogue.raised;
  return context.ops.allocate(product.format.value_or(context.settings.precision.activation),
                              {rows, product.columns()}, tag);
}

/// The columns [begin, begin + count) of a product.
StreamProduct columns_of(const StreamProduct& product, int64_t begin, int64_t count) {
  VIADUCT_CHECK(ShapeError, product.terms.empty(), "columns of a product with {} terms",
                product.terms.size());
  StreamProduct part = product;
  part.weight = product.weight.slice(product.form == GemmForm::forward ? 0 : 1, begin, count);
  if (product.bias) part.bias = product.bias.slice(0, begin, count);
  return part;
}

/// Blocks of one chunk (of two with `aggregate`) go round the ring; while one is multiplied, it is
/// forwarded and the next one arrives.
Tensor ring_gather(RankContext& context, const GemmOverlap& row, const StreamProduct& product,
                   const Tensor& rows, MemoryTag tag, Tensor* gathered) {
  Communicator& tp = context.groups.tp();
  const int ranks = tp.size(), rank = tp.rank(), chunks = row.aggregate ? 2 : 1;
  VIADUCT_CHECK(ShapeError, ranks % chunks == 0,
                "ring of {} tensor ranks: chunks move in pairs, which needs an even number", ranks);
  const int blocks = ranks / chunks, mine = rank / chunks;
  const int next = (rank + chunks) % ranks, previous = (rank - chunks + ranks) % ranks;
  const int64_t chunk_rows = rows.dim(0), block_rows = chunks * chunk_rows;
  const Flow flow = flow_of(product);
  const Tensor all =
      context.ops.allocate(rows.dtype(), {ranks * chunk_rows, rows.dim(1)}, MemoryTag::activations);
  const Tensor out = result_of(context, product, ranks * chunk_rows, tag);
  const auto chunk = [&](int of) { return all.slice(0, of * chunk_rows, chunk_rows); };

  copy(context.ops, {rows, chunk(rank)});
  if (row.aggregate) {
    const int partner = rank ^ 1;
    CommGroup pair(tp, row.connection);
    pair.send(rows, partner, flow);
    pair.receive(chunk(partner), partner, flow);
    pair.start().wait();
  }
  for (int step = 0; step < blocks; ++step) {
    const int block = (mine - step + blocks) % blocks, coming = (block - 1 + blocks) % blocks;
    const auto rows_of = [&](const Tensor& t, int b) {
      return t.slice(0, b * block_rows, block_rows);
    };
    CommGroup messages(tp, row.connection);
    if (step + 1 < blocks) {
      messages.send(rows_of(all, block), next, flow);
      messages.receive(rows_of(all, coming), previous, flow);
    }
    CommHandle moving = messages.start();
    multiply_rows(context, product, product.terms, rows_of(all, block), block * block_rows, out);
    moving.wait();
  }
  if (gathered != nullptr) *gathered = all;
  return out;
}

/// Each rank multiplies the rows of the next rank's stream first and its own last, sending each to
/// its owner while the next is multiplied; the owner sums the pieces in rank order.
Tensor ring_reduce(RankContext& context, const GemmOverlap& row, const StreamProduct& product,
                   const Operand& x, MemoryTag tag) {
  Communicator& tp = context.groups.tp();
  const int ranks = tp.size(), rank = tp.rank();
  const int64_t chunk_rows = x.dim(0) / ranks;
  const Flow flow = flow_of(product);
  std::vector<Tensor> pieces(static_cast<size_t>(ranks));
  std::vector<CommHandle> handles;
  std::vector<Tensor> sent;
  for (int step = 0; step < ranks; ++step) {
    const int owner = (rank + step + 1) % ranks, from = (rank - step - 1 + ranks) % ranks;
    StreamProduct part = product;
    part.rounding = product.rounding.rows(owner * chunk_rows, chunk_rows);
    const Tensor piece =
        multiply(context, part, x.slice(0, owner * chunk_rows, chunk_rows), MemoryTag::activations);
    if (owner == rank) {
      pieces[static_cast<size_t>(rank)] = piece;
      break;
    }
    Tensor& arriving = pieces[static_cast<size_t>(from)];
    arriving = context.activation(piece.shape(), MemoryTag::activations);
    sent.push_back(piece);
    CommGroup messages(tp, row.connection);
    messages.send(piece, owner, flow);
    messages.receive(arriving, from, flow);
    handles.push_back(messages.start());
  }
  for (CommHandle& handle : handles) handle.wait();

  // In FP32 (FP64), rounded once, as a reduce-scatter does.
  const Tensor sum = context.ops.allocate(accumulator_dtype(pieces[0].dtype()), pieces[0].shape(),
                                          MemoryTag::activations);
  add(context.ops, {pieces[0], pieces[1], sum});
  for (size_t from = 2; from < pieces.size(); ++from) add(context.ops, {sum, pieces[from], sum});
  if (sum.dtype() == pieces[0].dtype()) return sum;
  const Tensor out = context.activation(sum.shape(), tag);
  copy(context.ops, {sum, out});
  return out;
}

/// Runs of output columns: the reduce-scatter of one overlaps the product of the next.
Tensor pipeline_reduce(RankContext& context, const GemmOverlap& row, const StreamProduct& product,
                       const Operand& x, MemoryTag tag) {
  const int splits = row.num_splits;
  VIADUCT_CHECK(ShapeError, splits >= 1 && product.columns() % splits == 0,
                "pipelined GEMM: {} chunks do not divide {} output features", splits,
                product.columns());
  const int64_t width = product.columns() / splits;
  std::vector<PendingTensor> chunks;
  for (int i = 0; i < splits; ++i) {
    const Tensor partial =
        multiply(context, columns_of(product, i * width, width), x, MemoryTag::activations);
    chunks.push_back(
        start_reduce_to_stream(context, partial, MemoryTag::activations, row.connection));
  }
  const Tensor out =
      context.activation({x.dim(0) / context.groups.tp().size(), product.columns()}, tag);
  for (int i = 0; i < splits; ++i)
    copy(context.ops, {chunks[static_cast<size_t>(i)].wait(), out.slice(1, i * width, width)});
  return out;
}

/// Whether the ranks' parts of the product travel as FP8.
bool sends_fp8(const GemmOverlap& row, const StreamProduct& product) {
  return row.fp8_buf && product.quantization.any();
}

/// A rank's rows of the parts of all ranks, in transit.
class ArrivingFp8 {
 public:
  /// Every rank of the tensor ranks has a part [rows of all, columns] of the sum, in FP32.
  ArrivingFp8(RankContext& context, const Tensor& part, const ConnectionSettings& on)
      : context_(context),
        shape_{part.dim(0) / context.groups.tp().size(), part.dim(1)},
        sent_(to_fp8_rows(context, part)),
        arrived_(allocate_fp8_rows(context, part.elements())) {
    Communicator& tp = context.groups.tp();
    const auto exchange = [&](const Tensor& from, const Tensor& to) {
      const std::vector<int64_t> each(static_cast<size_t>(tp.size()), from.dim(0) / tp.size());
      return tp.all_to_all(from, to, each, each, {}, on);
    };
    codes_ = exchange(sent_.codes, arrived_.codes);
    scales_ = exchange(sent_.scales, arrived_.scales);
  }
  /// This rank's rows of the sum, in FP32.
  Tensor wait() {
    codes_.wait();
    scales_.wait();
    sent_ = {};
    std::vector<Fp8Rows> parts;
    for (int rank = 0; rank < context_.groups.tp().size(); ++rank)
      parts.push_back(part_of(arrived_, rank * shape_.elements(), shape_.elements()));
    return sum_of_fp8_rows(context_, parts, shape_);
  }

 private:
  RankContext& context_;
  Shape shape_;
  Fp8Rows sent_, arrived_;
  CommHandle codes_, scales_;
};

/// As `ring_reduce`, with pieces in FP8.
Tensor ring_reduce_in_fp8(RankContext& context, const GemmOverlap& row,
                          const StreamProduct& product, const Operand& x, MemoryTag tag) {
  Communicator& tp = context.groups.tp();
  const int ranks = tp.size(), rank = tp.rank();
  const Shape shape{x.dim(0) / ranks, product.columns()};
  const Flow flow = flow_of(product);
  StreamProduct wide = product;
  wide.format = DType::f32;
  std::vector<Fp8Rows> pieces(static_cast<size_t>(ranks)), sent;
  std::vector<CommHandle> handles;
  for (int step = 0; step < ranks; ++step) {
    const int owner = (rank + step + 1) % ranks, from = (rank - step - 1 + ranks) % ranks;
    const Fp8Rows piece = to_fp8_rows(
        context,
        multiply(context, wide, x.slice(0, owner * shape[0], shape[0]), MemoryTag::activations));
    if (owner == rank) {
      pieces[static_cast<size_t>(rank)] = piece;
      break;
    }
    Fp8Rows& arriving = pieces[static_cast<size_t>(from)];
    arriving = allocate_fp8_rows(context, shape.elements());
    sent.push_back(piece);
    CommGroup messages(tp, row.connection);
    messages.send(piece.codes, owner, flow);
    messages.receive(arriving.codes, from, flow);
    messages.send(piece.scales, owner, flow);
    messages.receive(arriving.scales, from, flow);
    handles.push_back(messages.start());
  }
  for (CommHandle& handle : handles) handle.wait();
  const Tensor out = context.activation(shape, tag);
  copy(context.ops, {sum_of_fp8_rows(context, pieces, shape), out});
  return out;
}

/// As `pipeline_reduce`, with the ranks' parts in FP8.
Tensor pipeline_reduce_in_fp8(RankContext& context, const GemmOverlap& row,
                              const StreamProduct& product, const Operand& x, MemoryTag tag) {
  const int chunks = row.num_splits;
  const int64_t width = product.columns() / chunks;
  std::vector<ArrivingFp8> arriving;
  for (int i = 0; i < chunks; ++i) {
    StreamProduct wide = columns_of(product, i * width, width);
    wide.format = DType::f32;
    arriving.emplace_back(context, multiply(context, wide, x, MemoryTag::activations),
                          row.connection);
  }
  const Tensor out =
      context.activation({x.dim(0) / context.groups.tp().size(), product.columns()}, tag);
  for (int i = 0; i < chunks; ++i)
    copy(context.ops, {arriving[static_cast<size_t>(i)].wait(), out.slice(1, i * width, width)});
  return out;
}

/// The product beside the exchange of `row`.
StreamProduct beside(const GemmOverlap& row, StreamProduct product) {
  product.spare_multiprocessors = row.spare_multiprocessors;
  return product;
}

/// Whether output columns are multiplied and reduced in chunks.
bool pipelines(const RankContext& context, const GemmOverlap& row) {
  return stream_is_cut(context) && row.method == OverlapMethod::pipeline;
}

}  // namespace

int64_t weight_run(const RankContext& context, const GemmOverlap& row, const GemmEpilogue& epilogue,
                   int64_t columns) {
  if (pipelines(context, row)) return columns / std::max(1, row.num_splits);
  return epilogue.activated && epilogue.gated ? columns / 2 : 0;
}

Tensor multiply(RankContext& context, const StreamProduct& product, const Operand& x,
                MemoryTag tag) {
  const Tensor out = result_of(context, product, x.dim(0), tag);
  multiply_rows(context, product, product.terms, x, 0, out);
  return out;
}

Tensor multiply(RankContext& context, StreamProduct&& product, const Operand& x, MemoryTag tag) {
  const Tensor out = result_of(context, product, x.dim(0), tag);
  multiply_rows(context, product, std::move(product.terms), x, 0, out);
  return out;
}

Tensor gather_and_multiply(RankContext& context, const GemmOverlap& row,
                           const StreamProduct& product, const Tensor& rows, MemoryTag tag,
                           Tensor* gathered) {
  if (stream_is_cut(context) && row.method == OverlapMethod::ring_exchange)
    return ring_gather(context, row, beside(row, product), rows, tag, gathered);
  const Tensor all = gather_stream(context, rows);
  if (gathered != nullptr) *gathered = all;
  return multiply(context, product, all, tag);
}

Tensor multiply_and_reduce(RankContext& context, const GemmOverlap& row,
                           const StreamProduct& product, const Operand& x, MemoryTag tag) {
  VIADUCT_CHECK(ShapeError, !product.epilogue.any() || !sums_products(context),
                "epilogue of a product that is summed over {} tensor ranks",
                context.groups.tp().size());
  const DType format = product.format.value_or(context.settings.precision.activation);
  VIADUCT_CHECK(
      ShapeError, format == context.settings.precision.activation || !sums_products(context),
      "product in {} that is summed over {} tensor ranks, which exchange {}", dtype_name(format),
      context.groups.tp().size(), dtype_name(context.settings.precision.activation));
  if (stream_is_cut(context) && row.method == OverlapMethod::ring_exchange)
    return (sends_fp8(row, product) ? ring_reduce_in_fp8 : ring_reduce)(
        context, row, beside(row, product), x, tag);
  if (pipelines(context, row))
    return (sends_fp8(row, product) ? pipeline_reduce_in_fp8 : pipeline_reduce)(
        context, row, beside(row, product), x, tag);
  return reduce_to_stream(context, multiply(context, product, x, tag), tag);
}

}  // namespace viaduct
