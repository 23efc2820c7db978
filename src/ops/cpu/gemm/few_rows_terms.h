#pragma once
// The terms of a product with few rows (GemmArgs::terms), and what they read where the product
// makes it (GemmArgs::reduction): by its first tasks, while other threads multiply; a task that
// comes to its terms waits for them. The bits are those of a product of its own and `scale`.

#include <atomic>
#include <vector>

#include "ops/cpu/gemm/few_rows.h"
#include "ops/cpu/gemm/gemm_epilogue.h"

namespace viaduct::cpu {

/// Where column `column` of the product begins in b.
const void* columns_of(const Operand& b, int64_t column, int64_t stride);

/// Whether the kernels read b in place.
bool reads_in_place(GemmForm form, const Operand& b);

/// Elements of the copied rows of A.
template <class Element>
int64_t copied_elements(const Operand& a) {
  return few_rows_computed(a.dim(0)) * few_rows_stride<Element>(a.dim(1));
}

template <class Element>
void copy_rows_of(const Operand& a, const FewRowsKernelsOf<Element>& rows, Element* copied) {
  const Tensor& from = a.tensor();
  rows.copy_rows(from.raw(), from.dtype(), from.stride(0), from.dim(0), from.dim(1), copied);
}

/// A product of A's rows, at `copied`, with all columns of b: its part of C is not set.
template <class Element>
FewRowsProductOf<Element> product_of_rows(const Operand& a, const Operand& b, int64_t visit,
                                          const Element* copied) {
  FewRowsProductOf<Element> product{.rows = a.dim(0), .depth = a.dim(1), .visit = visit};
  product.a = copied;
  product.b_dtype = b.dtype();
  product.tiles = !b.form().plain();
  product.b_stride = product.tiles ? tile_steps(a.dim(1)) * kTileElements : b.tensor().stride(0);
  return product;
}

template <class Element>
class FewRowsTerms {
 public:
  /// `product`: of the rows of `args.a`, which have been copied; `room`: for the copied rows of
  /// what the terms read. All outlive this.
  FewRowsTerms(const GemmArgs& args, const FewRowsProductOf<Element>& product,
               const FewRowsKernelsOf<Element>& rows, const FinishKernels& kernels, Element* room);

  /// The number of tasks that make what the terms read: begun before all others.
  int64_t tasks() const { return tasks_; }
  void run_task(int64_t task);

  /// Adds the terms to the sums of `columns` columns from column `first` of the product on.
  void add(int64_t first, int64_t columns, float* sums, int64_t stride);

 private:
  void copy_terms();
  void wait();
  void add_term(size_t index, int64_t first, int64_t columns, float* sums, int64_t stride) const;

  const GemmArgs& args_;
  const FewRowsProductOf<Element>& product_;
  const FewRowsKernelsOf<Element>& rows_;
  const FinishKernels& kernels_;
  std::vector<Element*> copied_;  // rows that each term reads
  int64_t tasks_ = 0;
  std::atomic<int64_t> unfinished_{0};
  std::atomic<bool> copied_all_{true};
};

}  // namespace viaduct::cpu
