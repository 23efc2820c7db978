#include "ops/cpu/gemm/gemm_few_rows.h"

#include <algorithm>
#include <vector>

namespace viaduct::cpu {
namespace {

// Bytes of B that a task reads: enough to outweigh the start of a task, few enough for threads to
// end together.
constexpr int64_t kTaskBytes = 72 * 1024, kWantedTasks = 12;
// Bytes of B up to which the caller is done before another thread would have begun: factors of low
// rank, of which a token reads hundreds.
constexpr int64_t kAloneBytes = 48 * 1024;
// Maximum columns of a task, per half.
constexpr int64_t kMostStrips = 16, kMostColumns = kMostStrips * kTileColumns;

/// How a product is cut: strips of 16 columns, and with each gate column the column that it
/// multiplies.
struct Cut {
  int64_t halves = 1, width = 0;  // width: columns of a half
  int64_t strips = 1;             // of a task, of each half

  explicit Cut(const GemmArgs& args) {
    halves = gates_columns(args) ? 2 : 1;
    const bool forward = args.form == GemmForm::forward;
    width = args.b.dim(forward ? 0 : 1) / halves;
    const int64_t strip_bytes =
        std::max<int64_t>(1, args.a.dim(1) * kTileColumns * dtype_bytes(args.b.dtype()));
    strips =
        std::clamp<int64_t>((kTaskBytes / halves + strip_bytes / 2) / strip_bytes, 1, kMostStrips);
    while (strips > 1 && tasks() < kWantedTasks) --strips;
  }
  int64_t columns() const { return strips * kTileColumns; }
  int64_t tasks() const { return (width + columns() - 1) / columns(); }
  /// Whether B is too small for several threads.
  bool small(const GemmArgs& args) const {
    return args.a.dim(1) * halves * width * dtype_bytes(args.b.dtype()) <= kAloneBytes;
  }
};

/// Where column `column` of the product begins in b.
const void* columns_of(const Operand& b, int64_t column, int64_t stride) {
  const int64_t rows = b.form().plain() ? column : column / kTileColumns;
  return static_cast<const std::byte*>(b.values().raw()) + rows * stride * dtype_bytes(b.dtype());
}

/// Whether the kernels read b in place.
bool reads_in_place(GemmForm form, const Operand& b) {
  return !b.form().plain() || form == GemmForm::forward;
}

/// Elements of the copied rows of A.
template <class Element>
int64_t copied_elements(const Operand& a) {
  return few_rows_computed(a.dim(0)) * few_rows_stride<Element>(a.dim(1));
}

/// A product of A's rows, copied to `copied`, with all columns of b: its part of C is not set.
template <class Element>
FewRowsProductOf<Element> product_of(const Operand& a, const Operand& b, int64_t visit,
                                     const FewRowsKernelsOf<Element>& rows, Element* copied) {
  const Tensor& from = a.tensor();
  rows.copy_rows(from.raw(), from.dtype(), from.stride(0), from.dim(0), from.dim(1), copied);
  FewRowsProductOf<Element> product{.rows = from.dim(0), .depth = from.dim(1), .visit = visit};
  product.a = copied;
  product.b_dtype = b.dtype();
  product.tiles = !b.form().plain();
  product.b_stride = product.tiles ? tile_steps(from.dim(1)) * kTileElements : b.tensor().stride(0);
  return product;
}

/// Adds a term to the sums of `columns` from column `first` of the product on; `product` is the
/// term's `product_of`.
template <class Element>
void add_term(const GemmArgs& args, const GemmTerm& term, FewRowsProductOf<Element> product,
              const FewRowsKernelsOf<Element>& rows, int64_t first, int64_t columns, float* sums,
              int64_t stride) {
  const int64_t width = term.b.dim(args.form == GemmForm::forward ? 0 : 1);
  const int64_t from = std::max(first, term.first_column);
  const int64_t end = std::min(first + columns, term.first_column + width);
  if (from >= end) return;
  product.c_stride = stride;
  product.accumulate = true;
  if ((from - first) % kTileColumns == 0) {
    product.columns = end - from;
    product.b = columns_of(term.b, from - term.first_column, product.b_stride);
    product.c = sums + (from - first);
    return rows.product(product);
  }
  // Products write whole tiles: of columns that begin inside of one, not among the sums.
  alignas(64) float apart[kFewRows * kTileColumns] = {};
  product.c = apart;
  product.c_stride = kTileColumns;
  for (int64_t column = from; column < end; column += kTileColumns) {
    product.columns = std::min(kTileColumns, end - column);
    product.b = columns_of(term.b, column - term.first_column, product.b_stride);
    const auto for_each = [&](auto&& f) {
      for (int64_t row = 0; row < product.rows; ++row) {
        for (int64_t i = 0; i < product.columns; ++i)
          f(sums[row * stride + (column - first) + i], apart[row * kTileColumns + i]);
      }
    };
    for_each([](float& sum, float& there) { there = sum; });
    rows.product(product);
    for_each([](float& sum, float& there) { sum = there; });
  }
}

}  // namespace

bool has_few_rows(const GemmArgs& args) {
  if (args.form == GemmForm::weight_gradient) return false;
  if (args.a.dim(0) < 1 || args.a.dim(0) > kFewRows) return false;
  return reads_in_place(args.form, args.b) &&
         std::ranges::all_of(
             args.terms, [&](const GemmTerm& term) { return reads_in_place(args.form, term.b); });
}

template <class Element>
int64_t few_rows_workspace_bytes(const GemmArgs& args) {
  int64_t elements = copied_elements<Element>(args.a);
  for (const GemmTerm& term : args.terms) elements += copied_elements<Element>(term.a);
  return elements * static_cast<int64_t>(sizeof(Element));
}

template <class Element>
void gemm_of_few_rows(ThreadPool& pool, const GemmArgs& args, int64_t visit,
                      const FewRowsKernelsOf<Element>& rows, const FinishKernels& kernels,
                      void* workspace, float factor) {
  const Cut cut(args);
  auto* copied = static_cast<Element*>(workspace);
  FewRowsProductOf<Element> shared = product_of(args.a, args.b, visit, rows, copied);
  std::vector<FewRowsProductOf<Element>> of_terms;
  copied += copied_elements<Element>(args.a);
  for (const GemmTerm& term : args.terms) {
    of_terms.push_back(product_of(term.a, term.b, kSumSteps, rows, copied));
    copied += copied_elements<Element>(term.a);
  }
  shared.c_stride = cut.halves * cut.columns();
  const auto run_task = [&](int64_t task, int) {
    alignas(64) float sums[kFewRows * 2 * kMostColumns];
    const int64_t begin = task * cut.columns();
    FewRowsProductOf<Element> product = shared;
    product.columns = std::min(cut.columns(), cut.width - begin);
    const GemmBlock block{.row = 0,
                          .rows = product.rows,
                          .column = begin,
                          .columns = product.columns,
                          .sums = sums,
                          .up_sums = cut.halves > 1 ? sums + cut.columns() : nullptr,
                          .stride = product.c_stride,
                          .factor = factor};
    fetch_block(args, block);
    for (int64_t half = 0; half < cut.halves; ++half) {
      const int64_t first = half * cut.width + begin;
      product.b = columns_of(args.b, first, product.b_stride);
      product.c = sums + half * cut.columns();
      rows.product(product);
      for (size_t i = 0; i < of_terms.size(); ++i)
        add_term(args, args.terms[i], of_terms[i], rows, first, product.columns, product.c,
                 product.c_stride);
    }
    finish_block(args, kernels, block);
  };
  if (!cut.small(args)) return pool.run(cut.tasks(), run_task);
  for (int64_t task = 0; task < cut.tasks(); ++task) run_task(task, 0);
}

template int64_t few_rows_workspace_bytes<bfloat16>(const GemmArgs&);
template int64_t few_rows_workspace_bytes<float>(const GemmArgs&);
template void gemm_of_few_rows(ThreadPool&, const GemmArgs&, int64_t,
                               const FewRowsKernelsOf<bfloat16>&, const FinishKernels&, void*,
                               float);
template void gemm_of_few_rows(ThreadPool&, const GemmArgs&, int64_t,
                               const FewRowsKernelsOf<float>&, const FinishKernels&, void*, float);

}  // namespace viaduct::cpu
