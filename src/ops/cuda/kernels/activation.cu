// Activation functions, gated or not, forward and backward.

#include "ops/cuda/kernels/activation.h"

#include "ops/cuda/kernels/activation_functions.cuh"
#include "ops/cuda/kernels/produced_rows.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = kRowThreads;

/// Where gate and up of the elements from i on are in a row of 2 · width.
struct Places {
  int64_t gate, up;
  __device__ Places(const ActivationRows& args, int64_t i)
      : gate(args.interleaved ? 2 * i : i), up(args.interleaved ? 2 * i + 1 : args.width + i) {}
};

/// Gate and up as they enter the product, with the slopes of their clamps.
struct Gated {
  float gate, up, gate_slope = 1, up_slope = 1;
  __device__ Gated(const ActivationRows& args, float g, float u) : gate(g), up(u) {
    if (args.clamp > 0) {
      gate_slope = g > args.clamp ? 0.0f : 1.0f;
      up_slope = u > args.clamp || u < -args.clamp ? 0.0f : 1.0f;
      gate = g > args.clamp ? args.clamp : g;
      up = bounded(u, args.clamp);
    }
    up += args.offset;
  }
};

/// Makes and stores the elements [i, i + n) of a row of the result.
template <int n>
__device__ void activate(const ActivationRows& args, int64_t row, int64_t i, float (&out)[n]) {
  const void* const in = address_of(args.in, row);
  const Places at(args, i);
  float gate[n], up[n] = {};
  load(in, args.in.format, args.gated ? at.gate : i, gate);
  if (args.gated) load(in, args.in.format, at.up, up);
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if (args.gated) {
      const Gated x(args, gate[j], up[j]);
      out[j] = activation_at(args.function, x.gate).value * x.up;
    } else {
      out[j] = activation_at(args.function, gate[j]).value;
    }
  }
  store(address_of(args.out, row), args.out.format, i, out);
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) activation_forward_kernel(ActivationRows args) {
  for_elements<kRun>(args.rows, args.width, kThreads, [&](int64_t row, int64_t i, auto count) {
    float out[decltype(count)::value];
    activate(args, row, i, out);
  });
}

/// What a block makes at once with other forms: 16 rows, which are rotated together.
constexpr int kTileRows = kRotatedRows, kTileColumns = kThreads / kTileRows * kFormRun;
static_assert(kTileColumns % kMostGroupColumns == 0);

int64_t tiles_of(const ActivationRows& args) {
  return blocks_for(args.rows, kTileRows) * blocks_for(args.width, kTileColumns);
}

/// The same with other forms of the result. Blocks take several tiles each.
template <int kRun>
__global__ void __launch_bounds__(kThreads, 4)
    activation_forms_kernel(ActivationRows args, int64_t tiles) {
  constexpr int kThreadsOfRow = kThreads / kTileRows;
  BlockForms forms(args.forms);
  const int64_t across = (args.width + kTileColumns - 1) / kTileColumns;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first_row = tile / across * kTileRows, first = tile % across * kTileColumns;
    const int64_t row = first_row + threadIdx.x / kThreadsOfRow;
    const int64_t i = row < args.rows ? first + threadIdx.x % kThreadsOfRow * kFormRun : args.width;
    float out[kFormRun];
    make_run<kRun>(i, args.width, out,
                   [&](int64_t at, auto& part) { activate(args, row, at, part); });
    forms.add(args.out.format, row, i, args.width, out);
    if (!forms.rotates()) continue;
    __syncthreads();
    const int64_t column = first + threadIdx.x;
    if (threadIdx.x < kTileColumns && column < args.width)
      forms.add_rotated(args.out, first_row, column);
  }
  forms.finish();
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) activation_backward_kernel(ActivationRows args) {
  for_elements<kRun>(args.rows, args.width, kThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    const void* const in = address_of(args.in, row);
    void* const d_in = address_of(args.d_in, row);
    const Places at(args, i);
    float gate[n], up[n] = {}, d[n], d_gate[n], d_up[n];
    load(in, args.in.format, args.gated ? at.gate : i, gate);
    if (args.gated) load(in, args.in.format, at.up, up);
    load(address_of(args.out, row), args.out.format, i, d);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      if (args.gated) {
        const Gated x(args, gate[j], up[j]);
        const Point p = activation_at(args.function, x.gate);
        d_gate[j] = d[j] * x.up * x.gate_slope * p.derivative;
        d_up[j] = d[j] * x.up_slope * p.value;
      } else {
        d_gate[j] = d[j] * activation_at(args.function, gate[j]).derivative;
      }
    }
    store(d_in, args.d_in.format, args.gated ? at.gate : i, d_gate);
    if (args.gated) store(d_in, args.d_in.format, at.up, d_up);
  });
}

/// Neighbours of interleaved rows are read one by one: a warp's accesses still cover whole lines.
bool is_wide(const ActivationRows& args) {
  return is_wide(args.in) && is_wide(args.out) && is_wide(args.d_in) && !args.interleaved &&
         (!args.gated || args.width % 8 == 0);
}

}  // namespace

void activation_forward(const ActivationRows& args, Stream stream) {
  const bool wide = is_wide(args);
  if (args.forms.any()) {
    const int64_t tiles = tiles_of(args), blocks = tiles < kMostProducers ? tiles : kMostProducers;
    launch("activation_forward", wide ? activation_forms_kernel<8> : activation_forms_kernel<1>,
           Grid(blocks), kThreads, stream, args, tiles);
    return finish_forms(args.forms, blocks, stream);
  }
  launch("activation_forward", wide ? activation_forward_kernel<8> : activation_forward_kernel<1>,
         grid_for_elements(args.rows, args.width, wide ? 8 : 1, kThreads), kThreads, stream, args);
}

void activation_backward(const ActivationRows& args, Stream stream) {
  const bool wide = is_wide(args);
  launch("activation_backward",
         wide ? activation_backward_kernel<8> : activation_backward_kernel<1>,
         grid_for_elements(args.rows, args.width, wide ? 8 : 1, kThreads), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(activation)

}  // namespace viaduct::cuda
