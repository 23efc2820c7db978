#include "ops/cpu/gemm/gemm_few_rows.h"

#include <algorithm>

#include "ops/cpu/gemm/few_rows_terms.h"

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
  FewRowsProductOf<Element> shared = product_of_rows(args.a, args.b, visit, copied);
  copy_rows_of(args.a, rows, copied);
  FewRowsTerms<Element> terms(args, shared, rows, kernels,
                              copied + copied_elements<Element>(args.a));
  shared.c_stride = cut.halves * cut.columns();
  const auto run_task = [&](int64_t index, int) {
    if (index < terms.tasks()) return terms.run_task(index);
    const int64_t task = index - terms.tasks();
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
      product.b = columns_of(args.b, half * cut.width + begin, product.b_stride);
      product.c = sums + half * cut.columns();
      rows.product(product);
    }
    for (int64_t half = 0; half < cut.halves; ++half)
      terms.add(half * cut.width + begin, product.columns, sums + half * cut.columns(),
                product.c_stride);
    finish_block(args, kernels, block);
  };
  const int64_t tasks = terms.tasks() + cut.tasks();
  if (!cut.small(args)) return pool.run(tasks, run_task);
  for (int64_t task = 0; task < tasks; ++task) run_task(task, 0);
}

template int64_t few_rows_workspace_bytes<bfloat16>(const GemmArgs&);
template int64_t few_rows_workspace_bytes<float>(const GemmArgs&);
template void gemm_of_few_rows(ThreadPool&, const GemmArgs&, int64_t,
                               const FewRowsKernelsOf<bfloat16>&, const FinishKernels&, void*,
                               float);
template void gemm_of_few_rows(ThreadPool&, const GemmArgs&, int64_t,
                               const FewRowsKernelsOf<float>&, const FinishKernels&, void*, float);

}  // namespace viaduct::cpu
