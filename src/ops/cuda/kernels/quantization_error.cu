// Measurements of quantized operands: a block has a part of a matrix, a warp the rows of it that
// are summed one after the other, and a lane runs of 8 columns. A second launch adds the parts in
// order.

#include "ops/cuda/kernels/quantization_error.h"

#include "ops/cuda/kernels/expert_codes.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

static_assert(kErrorRows * kErrorLanes == kRowThreads && kErrorLanes == kWarpLanes);

constexpr uint32_t kInfinity = 0x7f800000u;

/// What a thread, or a block, has found.
struct Found {
  double square = 0, error_square = 0;
  uint32_t nonzero = 0, underflows = 0, overflows = 0, not_finite = 0;
  // The bits of numbers that are not negative, which order as the numbers do, NaN above them.
  uint32_t most = 0, least_scale = kInfinity, most_scale = 0;
};

struct LeastOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

/// Compares an element with its number. A scale that is not a number is neither least nor most.
__device__ void compare(Found& found, float x, float number, float scale, float largest) {
  const uint32_t magnitude = __float_as_uint(x) & 0x7fffffffu;
  if (magnitude >= kInfinity) {
    ++found.not_finite;
    return;
  }
  const float value = number * scale;
  const double exact = x, error = static_cast<double>(value) - exact;
  found.square += exact * exact;
  found.error_square += error * error;
  found.nonzero += x != 0;
  found.underflows += x != 0 && value == 0;
  const double size = __uint_as_float(magnitude);
  found.overflows += size > static_cast<double>(largest) * static_cast<double>(scale);
  found.most = LargestOf{}(found.most, magnitude);
  const uint32_t bits = __float_as_uint(scale) & 0x7fffffffu;
  found.least_scale = LeastOf{}(found.least_scale, bits);
  if (bits < kInfinity) found.most_scale = LargestOf{}(found.most_scale, bits);
}

/// The scale of an element of matrix `own`.
__device__ float scale_of_element(const CodedOperand& from, const ExpertCodes& own,
                                  float matrix_scale, int64_t row, int64_t column) {
  if (from.form == GroupScales::none) return matrix_scale;
  const float scale = group_scale(from, own, row, column);
  return from.matrix_scales != nullptr ? scale * matrix_scale : scale;
}

/// Number `at` of the codes at `bytes`.
template <bool kHalves>
__device__ float number_of(const uint8_t* bytes, int at, bool e5m2) {
  if constexpr (kHalves) {
    return decode_e2m1(uint32_t{bytes[at / 2]} >> at % 2 * 4);
  } else {
    return decode_float8(bytes[at], e5m2);
  }
}

/// Compares a run of 8 columns, or what is there of it.
template <bool kWide, bool kHalves>
__device__ void compare_run(const MeasuredRows& args, const ExpertCodes& own, float matrix_scale,
                            int64_t row, int64_t first_row, int64_t column, Found& found) {
  constexpr int kBytes = kHalves ? kErrorRun / 2 : kErrorRun;
  const CodedOperand& from = args.operand;
  const void* const matrix = address_of(args.matrix, first_row + row);
  const uint8_t* const codes = own.values + (row * from.stride + column) / (kHalves ? 2 : 1);
  const bool one_scale = from.form == GroupScales::none || from.group_columns % kErrorRun == 0;
  float scale = scale_of_element(from, own, matrix_scale, row, column);
  const int64_t left = args.columns - column;
  if (kWide && left >= kErrorRun) {
    float x[kErrorRun];
    load(matrix, args.matrix.format, column, x);
    const Run<uint8_t, kBytes> own_codes = *reinterpret_cast<const Run<uint8_t, kBytes>*>(codes);
#pragma unroll
    for (int j = 0; j < kErrorRun; ++j) {
      if (!one_scale) scale = scale_of_element(from, own, matrix_scale, row, column + j);
      compare(found, x[j], number_of<kHalves>(own_codes.values, j, from.e5m2), scale, args.largest);
    }
    return;
  }
#pragma unroll 1
  for (int j = 0; j < kErrorRun && j < left; ++j) {
    float x[1];
    load(matrix, args.matrix.format, column + j, x);
    if (!one_scale) scale = scale_of_element(from, own, matrix_scale, row, column + j);
    compare(found, x[0], number_of<kHalves>(codes, j, from.e5m2), scale, args.largest);
  }
}

/// The sum of numbers of all threads.
__device__ double count_of_block(uint32_t count) {
  return join_block<kRowThreads>(static_cast<double>(count), SumOf{});
}

/// Joins what the threads of a block have found, and stores it.
__device__ void store_found(const Found& found, double* to) {
  const double nonzero = count_of_block(found.nonzero);
  const double underflows = count_of_block(found.underflows);
  const double overflows = count_of_block(found.overflows);
  const double not_finite = count_of_block(found.not_finite);
  const double square = join_block<kRowThreads>(found.square, SumOf{});
  const double error_square = join_block<kRowThreads>(found.error_square, SumOf{});
  const uint32_t most = join_block<kRowThreads>(found.most, LargestOf{});
  const uint32_t least_scale = join_block<kRowThreads>(found.least_scale, LeastOf{});
  const uint32_t most_scale = join_block<kRowThreads>(found.most_scale, LargestOf{});
  if (threadIdx.x != 0) return;
  to[kErrorElements] = 0;  // known to the second launch
  to[kErrorNonzero] = nonzero, to[kErrorUnderflows] = underflows;
  to[kErrorOverflows] = overflows, to[kErrorNotFinite] = not_finite;
  to[kErrorSquare] = square, to[kErrorErrorSquare] = error_square;
  to[kErrorAmax] = __uint_as_float(most);
  to[kErrorLeastScale] = __uint_as_float(least_scale);
  to[kErrorMostScale] = __uint_as_float(most_scale);
}

template <bool kWide, bool kHalves>
__global__ void __launch_bounds__(kRowThreads, 4) quantization_error_kernel(MeasuredRows args) {
  const int64_t part = blockIdx.x, parts = gridDim.x, matrix = blockIdx.y;
  const MatrixRows& of = args.operand.rows;
  const int64_t begin = first_row(of, matrix), count = first_row(of, matrix + 1) - begin;
  const ExpertCodes own = codes_of_expert(args.operand, kHalves, matrix, count, args.columns);
  const float* const scales = args.operand.matrix_scales;
  const float matrix_scale = scales != nullptr ? scales[matrix] : 1.0f;
  const int64_t warp = threadIdx.x / kWarpLanes, lane = threadIdx.x % kWarpLanes;
  Found found;
  for (int64_t row = part * kErrorRows + warp; row < count; row += parts * kErrorRows) {
    for (int64_t column = lane * kErrorRun; column < args.columns;
         column += kErrorLanes * kErrorRun)
      compare_run<kWide, kHalves>(args, own, matrix_scale, row, begin, column, found);
  }
  store_found(found, args.workspace + (matrix * parts + part) * kErrorSums);
}

__device__ double joined_sums(int sum, double a, double b) {
  if (sum == kErrorAmax || sum == kErrorMostScale) return a < b ? b : a;
  if (sum == kErrorLeastScale) return LeastOf{}(a, b);
  return a + b;
}

/// A warp for each matrix, a lane for each of its sums.
__global__ void __launch_bounds__(kWarpLanes) join_errors_kernel(MeasuredRows args, int64_t parts) {
  const int64_t matrix = blockIdx.x;
  const int sum = static_cast<int>(threadIdx.x);
  const MatrixRows& of = args.operand.rows;
  const int64_t elements = (first_row(of, matrix + 1) - first_row(of, matrix)) * args.columns;
  if (elements <= 0) return;  // the whole warp
  double* const sums = args.sums + matrix * kErrorSums;
  const bool any = sums[kErrorElements] > 0;
  __syncwarp();
  if (sum >= kErrorSums) return;
  const double* const found = args.workspace + matrix * parts * kErrorSums + sum;
  double all = found[0];
  for (int64_t part = 1; part < parts; ++part)
    all = joined_sums(sum, all, found[part * kErrorSums]);
  if (sum == kErrorElements) all = static_cast<double>(elements);
  if (any) all = joined_sums(sum, sums[sum], all);
  sums[sum] = all == all ? all : __longlong_as_double(0x7ff8000000000000ll);
}

}  // namespace

void quantization_error(const MeasuredRows& args, Stream stream) {
  const MatrixRows& of = args.operand.rows;
  const int64_t parts = error_parts(of.rows, of.count);
  const bool wide =
      is_wide(args.matrix) && is_wide(args.operand.values) && args.operand.stride % kErrorRun == 0;
  const auto run = [&](auto kernel) {
    launch("quantization_error", kernel, Grid(parts, of.count), kRowThreads, stream, args);
  };
  if (args.halves) {
    wide ? run(quantization_error_kernel<true, true>) : run(quantization_error_kernel<false, true>);
  } else {
    wide ? run(quantization_error_kernel<true, false>)
         : run(quantization_error_kernel<false, false>);
  }
  launch("join_errors", join_errors_kernel, Grid(of.count), kWarpLanes, stream, args, parts);
}

VIADUCT_KERNEL_FILE(quantization_error)

}  // namespace viaduct::cuda
