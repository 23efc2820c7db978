#include "ops/cpu/random_normal.h"

#include <cmath>
#include <numbers>

#include "ops/cpu/runs.h"

namespace viaduct::cpu {
namespace {

/// Uniform in (0, 1) in steps of 2^-52 from two words.
double uniform52(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

/// The two values of one counter (Box and Muller 1958).
struct NormalPair {
  double first, second;
};
NormalPair normal_pair(uint64_t key, uint64_t counter) {
  const auto w = philox4x32(key, counter, 0);
  const double radius = std::sqrt(-2 * std::log(uniform52(w[0], w[1])));
  const double angle = 2 * std::numbers::pi * uniform52(w[2], w[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// One run of a row of `out`; its elements lie `step` apart in the logical tensor.
template <class T>
void fill_run(const RandomNormalArgs& args, uint64_t key, uint64_t element, uint64_t step, T* out,
              int64_t n) {
  const auto rounded = [&](double value) {
    const double x = args.mean + args.standard_deviation * value;
    if constexpr (std::is_same_v<T, double>) {
      return x;
    } else {
      return static_cast<T>(static_cast<float>(x));
    }
  };
  for (int64_t i = 0; i < n;) {
    const NormalPair pair = normal_pair(key, element / 2);
    if (element % 2 == 0) {
      out[i++] = rounded(pair.first);
      element += step;
      if (step == 1 && i < n) {
        out[i++] = rounded(pair.second);
        ++element;
      }
    } else {
      out[i++] = rounded(pair.second);
      element += step;
    }
  }
}

}  // namespace

void fill_random_normal(ThreadPool& pool, const RandomNormalArgs& args) {
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
                   fill_run(args, key, element, step, static_cast<decltype(type)*>(to), n);
                 });
               });
}

}  // namespace viaduct::cpu
