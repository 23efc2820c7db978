#include "ops/cpu/gemm/few_rows_terms.h"

#include <algorithm>

#include "base/cpu_pause.h"

namespace viaduct::cpu {
namespace {

// How often a task looks whether what its terms read is made before it sleeps: they are made
// while the task multiplies.
constexpr int kSpins = 2000;

}  // namespace

const void* columns_of(const Operand& b, int64_t column, int64_t stride) {
  const int64_t rows = b.form().plain() ? column : column / kTileColumns;
  return static_cast<const std::byte*>(b.values().raw()) + rows * stride * dtype_bytes(b.dtype());
}

bool reads_in_place(GemmForm form, const Operand& b) {
  return !b.form().plain() || form == GemmForm::forward;
}

template <class Element>
FewRowsTerms<Element>::FewRowsTerms(const GemmArgs& args, const FewRowsProductOf<Element>& product,
                                    const FewRowsKernelsOf<Element>& rows,
                                    const FinishKernels& kernels, Element* room)
    : args_(args), product_(product), rows_(rows), kernels_(kernels) {
  for (const GemmTerm& term : args.terms) {
    copied_.push_back(room);
    room += copied_elements<Element>(term.a);
  }
  if (args.reduction.any()) {
    tasks_ = (args.reduction.down.dim(0) + kTileColumns - 1) / kTileColumns;
    unfinished_.store(tasks_, std::memory_order_relaxed);
    copied_all_.store(false, std::memory_order_relaxed);
  } else {
    copy_terms();
  }
}

template <class Element>
void FewRowsTerms<Element>::run_task(int64_t task) {
  const TermReduction& reduction = args_.reduction;
  alignas(64) float sums[kFewRows * kTileColumns];
  FewRowsProductOf<Element> product =
      product_of_rows(args_.a, reduction.down, product_.visit, product_.a);
  const int64_t first = task * kTileColumns;
  product.columns = std::min(kTileColumns, reduction.down.dim(0) - first);
  product.b = columns_of(reduction.down, first, product.b_stride);
  product.c = sums;
  product.c_stride = kTileColumns;
  rows_.product(product);
  const GemmBlock block{.row = 0,
                        .rows = product.rows,
                        .column = first,
                        .columns = product.columns,
                        .sums = sums,
                        .stride = kTileColumns};
  finish_block({GemmForm::forward, args_.a, reduction.down, reduction.to}, kernels_, block);
  if (reduction.factor != 1) {
    for (int64_t row = 0; row < product.rows; ++row) {
      const Tensor run = reduction.to.slice(0, row, 1).slice(1, first, product.columns);
      kernels_.elementwise.scale(run.raw(), run.dtype(), static_cast<float>(reduction.factor),
                                 run.raw(), run.dtype(), product.columns);
    }
  }
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  copy_terms();
  copied_all_.store(true, std::memory_order_release);
  copied_all_.notify_all();
}

template <class Element>
void FewRowsTerms<Element>::copy_terms() {
  for (size_t i = 0; i < copied_.size(); ++i) copy_rows_of(args_.terms[i].a, rows_, copied_[i]);
}

template <class Element>
void FewRowsTerms<Element>::wait() {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (copied_all_.load(std::memory_order_acquire)) return;
    cpu_pause();
  }
  copied_all_.wait(false, std::memory_order_acquire);
}

template <class Element>
void FewRowsTerms<Element>::add(int64_t first, int64_t columns, float* sums, int64_t stride) {
  if (copied_.empty()) return;
  wait();
  for (size_t i = 0; i < copied_.size(); ++i) add_term(i, first, columns, sums, stride);
}

template <class Element>
void FewRowsTerms<Element>::add_term(size_t index, int64_t first, int64_t columns, float* sums,
                                     int64_t stride) const {
  const GemmTerm& term = args_.terms[index];
  const int64_t width = term.b.dim(args_.form == GemmForm::forward ? 0 : 1);
  const int64_t from = std::max(first, term.first_column);
  const int64_t end = std::min(first + columns, term.first_column + width);
  if (from >= end) return;
  FewRowsProductOf<Element> product = product_of_rows(term.a, term.b, kSumSteps, copied_[index]);
  product.c_stride = stride;
  product.accumulate = true;
  if ((from - first) % kTileColumns == 0) {
    product.columns = end - from;
    product.b = columns_of(term.b, from - term.first_column, product.b_stride);
    product.c = sums + (from - first);
    return rows_.product(product);
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
    rows_.product(product);
    for_each([](float& sum, float& there) { sum = there; });
  }
}

template class FewRowsTerms<bfloat16>;
template class FewRowsTerms<float>;

}  // namespace viaduct::cpu
