#include "ops/cpu/rows/random_normal.h"

#include <algorithm>
#include <type_traits>

#include "ops/cpu/rows/runs.h"

namespace viaduct::cpu {
namespace {

// Numbers drawn at a time: a buffer in the L1 cache.
constexpr int64_t kDrawn = 1024;

/// One run of a row of `out`; its elements lie `step` apart in the logical tensor.
template <class T>
void fill_run(const ElementwiseKernels& kernels, const RandomNormalArgs& args, uint64_t key,
              uint64_t element, uint64_t step, T* out, int64_t n) {
  double drawn[kDrawn];
  for (int64_t begin = 0; begin < n; begin += kDrawn) {
    const int64_t count = std::min(kDrawn, n - begin);
    kernels.normal(key, element + static_cast<uint64_t>(begin) * step, step, count, drawn);
    for (int64_t i = 0; i < count; ++i) {
      const double x = args.mean + args.standard_deviation * drawn[i];
      if constexpr (std::is_same_v<T, double>) {
        out[begin + i] = x;
      } else {
        out[begin + i] = static_cast<T>(static_cast<float>(x));
      }
    }
  }
}

}  // namespace

void fill_random_normal(ThreadPool& pool, const ElementwiseKernels& kernels,
                        const RandomNormalArgs& args) {
  const Tensor& out = args.out;
  const uint64_t key = philox_key(args.key);
  const auto row_elements = static_cast<uint64_t>(args.row_elements);
  for_row_runs(pool, out.rank() == 2 ? out.dim(0) : 1, out.dim(-1),
               [&](int64_t row, int64_t begin, int64_t n) {
                 const auto r = static_cast<uint64_t>(args.first_row),
                            c = static_cast<uint64_t>(args.first_column);
                 const auto i = static_cast<uint64_t>(row), j = static_cast<uint64_t>(begin);
                 const uint64_t element = args.transposed ? (r + j) * row_elements + c + i
                                                          : (r + i) * row_elements + c + j;
                 const uint64_t step = args.transposed ? row_elements : 1;
                 void* to = row_address(out, row, begin);
                 dispatch_floating(out.dtype(), [&](auto type) {
                   fill_run(kernels, args, key, element, step, static_cast<decltype(type)*>(to), n);
                 });
               });
}

}  // namespace viaduct::cpu
