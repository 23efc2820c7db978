#pragma once
// The state of a reproducible sum (Demmel and Nguyen 2013). Fixed bins of 40 bits cover the number
// line; every value is cut at the boundaries of three bins, from the bin of the largest value down,
// and each bin holds the exact integer sum of its pieces, in units of its lowest bit. The pieces of
// a value depend only on the value, so neither order nor grouping can change a bin.
//
// Slots of the state: 0: 0 for the empty sum, else number of the top bin + 1; 1–6: the sums of the
// bins from the top down, each as (high, low) with sum = high · 2^40 + low, −2^39 ≤ low < 2^39; 7:
// 1 if a value was not finite.

#include <cstdint>

namespace viaduct::cpu {

inline constexpr int kBinBits = 40;
inline constexpr int kBins = 3;
/// Exponent of the lowest bit of bin 0.
inline constexpr int kLowestExponent = -1070;

/// Sums of up to three neighbouring bins.
struct BinnedSum {
  int top = -1;            // −1: empty
  __int128 bins[kBins]{};  // from the top down
  bool finite = true;

  void add(const BinnedSum& other);
};

/// The top bin for values of largest magnitude `x` (finite, > 0): the lowest bin with |x| < 2^(39 +
/// exponent of its lowest bit).
int top_bin(double x);
/// Exponent of the lowest bit of a bin.
inline int bin_exponent(int bin) {
  return kLowestExponent + bin * kBinBits;
}

/// Total number of bins: the top one holds the largest FP64 values.
inline constexpr int kAllBins = 53;

BinnedSum read_sum(const double* state);
void write_sum(const BinnedSum& sum, double* state);
/// The wide form of a state (ops/optimizer.h): high and low part of bin b at [2b] and [2b + 1], 1
/// at [2 kAllBins + b] if b is the top bin, and slot 7 of the state at the end.
void widen(const double* state, int64_t* wide);
/// The sum whose wide form is `wide`, or the sum of those whose wide forms were added there: its
/// top bin is the highest of theirs; their parts below its lowest bin are dropped.
BinnedSum narrow(const int64_t* wide);
/// The value, rounded a few times in FP64; NaN if a value was not finite.
double value_of(const BinnedSum& sum);

}  // namespace viaduct::cpu
