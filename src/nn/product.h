#pragma once
// Matrix products of layers: layers have tensors, and operands are converted to the forms that the
// ops read. Weights already come in their forms (access.h).

#include "nn/context.h"
#include "nn/delayed_scales.h"
#include "nn/saved.h"
#include "ops/gemm.h"

namespace viaduct {

/// What quantized operands need in addition to their matrix: the largest magnitude from which they
/// get the
/// scale of the whole matrix, f32 [1], or [2] with that of the rotated matrix. Undefined where
/// there is no such scale.
struct ProductAmax {
  Tensor a, b;
};

/// `gemm`; converts operands that are still tensors. `rounding`: of a.
void run_product(OpContext& context, GemmArgs args, const ProductAmax& amax = {},
                 const StochasticRounding& rounding = {});

/// The largest magnitude of an operand of which this rank has a part and the tensor and context
/// ranks of its micro-batch the rest (or the same): all of them call this. With AmaxSource::own, of
/// the rank's own part; `gathered`: of the tensor ranks' rows, which are multiplied together. f32
/// [1]; [2] with that of the rotated matrix if `quantization` rotates; undefined unless it has
/// scales of whole matrices.
///
/// `found`: of the rank's own part, if the producer of the matrix has found it.
Tensor amax_over_ranks(RankContext& context, const Quantization& quantization, const Tensor& matrix,
                       bool gathered, const Tensor& found = {});
/// How many magnitudes that are of a matrix of `rows`: 0, 1 or 2.
int magnitudes_of(const Quantization& quantization, int64_t rows);
/// A micro-batch with a backward has a multiple of this many tokens: those that are rotated
/// together in products of weight gradients; 1 where none are.
int64_t tokens_together(const Quantization& products);

/// The same from the histories of delayed scaling (context.delayed): recorded in the first run of a
/// step, and not in evaluation. f32 [1]; of experts' weights [E'] for those here, whose rows of the
/// matrix are those of `offsets` (ops/largest_magnitude.h).
Tensor delayed_amax(RankContext& context, const Parameter& parameter, LayerOperand operand,
                    const Tensor& matrix, const SavedStore& saved, const Tensor& offsets = {},
                    const Tensor& found = {});

/// The forms in which dy [T, N] (a) and x [T, K] (b) are kept for their weight gradient: those that
/// its product reads, if these have their matrix's shape; else tensors, which the product converts.
GemmForms waiting_forms(const RankContext& context, int64_t n, int64_t k,
                        const Quantization& quantization = {});

/// Keeps a matrix in the activation format for its weight gradient, in `form`. `amax`,
/// `rounding`: as in operand_in. Returns what is kept; the matrix if nothing is.
Operand keep_operand(RankContext& context, SavedStore& saved, const void* owner,
                     std::string_view name, const Tensor& matrix, const OperandForm& form,
                     const Tensor& amax = {}, const StochasticRounding& rounding = {});
/// Keeps an operand that already has its form.
void keep_operand(SavedStore& saved, const void* owner, std::string_view name,
                  const Operand& operand);
/// `kept`, if it has the form in which a product reads a matrix as its a; else the matrix. Operands
/// with one scale for the whole matrix are read by several products.
Operand kept_or_matrix(const RankContext& context, GemmForm form, const Quantization& quantization,
                       const Operand& kept, const Tensor& matrix);
/// Takes it from the store for its last reader, which passes the same form.
Operand take_operand(const RankContext& context, SavedStore& saved, const void* owner,
                     std::string_view name, const OperandForm& form);

}  // namespace viaduct
