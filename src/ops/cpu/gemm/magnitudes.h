#pragma once
// The largest magnitude of a matrix of f32, bf16 or f16, as the bits of an f32: magnitudes compare
// as their bits do, and NaN is above all numbers.

#include "ops/cpu/gemm/nvfp4_kernels.h"
#include "ops/cpu/gemm/quantize_kernels.h"
#include "tensor/tensor.h"

namespace viaduct::cpu {

/// `matrix` [R, C], whose rows are contiguous; 0 if it has no elements.
int32_t largest_bits(const Tensor& matrix, const QuantizeKernels& kernels);

/// Of the rotated matrix (tensor/hadamard.h). Its first row begins a rotation; rows that the last
/// one lacks are zeros.
int32_t largest_rotated_bits(const Tensor& matrix, const Nvfp4Kernels& kernels);

}  // namespace viaduct::cpu
