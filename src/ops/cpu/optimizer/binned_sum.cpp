#include "ops/cpu/optimizer/binned_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/optimizer.h"

namespace viaduct::cpu {

static_assert(kWideSumSize == 3 * kAllBins + 1);

void BinnedSum::add(const BinnedSum& other) {
  finite = finite && other.finite;
  if (other.top < 0) return;
  const int shift = std::max(top, other.top) - top;
  if (shift > 0) {  // parts below the lowest bin are dropped
    for (int i = kBins - 1; i >= 0; --i) bins[i] = i >= shift && top >= 0 ? bins[i - shift] : 0;
    top += shift;
  }
  const int down = top - other.top;
  for (int i = down; i < kBins; ++i) bins[i] += other.bins[i - down];
}

int top_bin(double x) {
  const int exponent = std::ilogb(x) + 1;  // |x| < 2^exponent
  // |x| < 2^(exponent of the bin + 39); values below the lowest three bins start there as well and
  // lose their part below 2^-1070.
  const int above = exponent - (kBinBits - 1) - kLowestExponent;
  const int bin = above <= 0 ? 0 : (above + kBinBits - 1) / kBinBits;
  return std::max(bin, kBins - 1);
}

BinnedSum read_sum(const double* state) {
  BinnedSum sum;
  sum.top = static_cast<int>(state[0]) - 1;
  for (int i = 0; i < kBins; ++i) {
    sum.bins[i] = (static_cast<__int128>(state[1 + 2 * i]) << kBinBits) +
                  static_cast<__int128>(state[2 + 2 * i]);
  }
  sum.finite = state[7] == 0;
  return sum;
}

void write_sum(const BinnedSum& sum, double* state) {
  constexpr __int128 kHalf = __int128{1} << (kBinBits - 1);
  std::fill(state, state + 8, 0.0);
  if (!sum.finite) {
    state[7] = 1;
    return;
  }
  state[0] = sum.top + 1;
  for (int i = 0; i < kBins; ++i) {
    const __int128 high = (sum.bins[i] + kHalf) >> kBinBits;  // rounds down for negative sums too
    const __int128 low = sum.bins[i] - (high << kBinBits);
    state[1 + 2 * i] = static_cast<double>(high);
    state[2 + 2 * i] = static_cast<double>(low);
  }
}

void widen(const double* state, int64_t* wide) {
  std::fill(wide, wide + kWideSumSize, 0);
  wide[kWideSumSize - 1] = static_cast<int64_t>(state[7]);
  const int top = static_cast<int>(state[0]) - 1;
  if (top < 0) return;
  wide[2 * kAllBins + top] = 1;
  for (int i = 0; i < kBins; ++i) {
    wide[2 * (top - i)] = static_cast<int64_t>(state[1 + 2 * i]);
    wide[2 * (top - i) + 1] = static_cast<int64_t>(state[2 + 2 * i]);
  }
}

BinnedSum narrow(const int64_t* wide) {
  BinnedSum sum;
  sum.finite = wide[kWideSumSize - 1] == 0;
  sum.top = kAllBins - 1;
  while (sum.top >= 0 && wide[2 * kAllBins + sum.top] == 0) --sum.top;
  for (int i = 0; i < kBins && sum.top >= 0; ++i) {
    const int64_t* bin = wide + 2 * (sum.top - i);
    sum.bins[i] = (static_cast<__int128>(bin[0]) << kBinBits) + bin[1];
  }
  return sum;
}

double value_of(const BinnedSum& sum) {
  if (!sum.finite) return std::numeric_limits<double>::quiet_NaN();
  if (sum.top < 0) return 0;
  // Carried so that lower bins are at most half a unit of the next one: then only the last
  // additions round.
  constexpr __int128 kHalf = __int128{1} << (kBinBits - 1);
  __int128 bins[kBins];
  std::copy(sum.bins, sum.bins + kBins, bins);
  for (int i = kBins - 1; i > 0; --i) {
    const __int128 carry = (bins[i] + kHalf) >> kBinBits;
    bins[i] -= carry << kBinBits;
    bins[i - 1] += carry;
  }
  double value = 0;
  for (int i = kBins - 1; i >= 0; --i) {
    value += std::ldexp(static_cast<double>(bins[i]), bin_exponent(sum.top - i));
  }
  return value;
}

}  // namespace viaduct::cpu
