#pragma once
// A parameter's storage is made of parts. A part says which box of which logical tensor (its
// Hugging Face name and true, unpadded shape) lies where in the storage. Initialization, reduction,
// norm, clipping, decay, checkpoints and Hugging Face maps read parts and nothing else.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/group_kinds.h"
#include "comm/mesh.h"
#include "tensor/box.h"
#include "tensor/dtype.h"
#include "tensor/gguf_types.h"

namespace viaduct {

/// Which ranks of the tensor axis hold the same box of a part.
enum class Replicas {
  none,       // each rank another box
  tp_kv,      // those that share key-value heads (fewer heads than ranks)
  tp,         // all
  expert_tp,  // those that share each expert, where experts have a grid of their own
};

/// How the gradients that the replicas of a part compute are related. Over data-parallel and
/// context ranks a dense parameter's gradient is always partial.
enum class ReplicaGradient {
  equal,    // each computes the whole gradient
  partial,  // each computes a part of it: summed over the replicas after the backward
};

/// Where a box of a logical tensor lies in the storage: rows [storage_row, storage_row + rows of
/// the box), all columns.
struct Part {
  std::string name;         // Hugging Face name of the logical tensor
  Shape logical_shape;      // as Hugging Face stores it
  Box box;                  // in coordinates of the logical tensor
  bool transposed = false;  // the logical tensor is [in, out], the storage [out, in]
  int64_t storage_row = 0;
  Replicas replicas = Replicas::none;
  ReplicaGradient replica_gradient = ReplicaGradient::equal;
  /// This rank's copy is the one of its replicas (and of other stages that hold it) that counts in
  /// norms and is saved.
  bool owned = true;

  /// Rows of the storage that the part takes.
  int64_t rows() const { return box.size.rank() == 0 ? 1 : box.size[transposed ? 1 : 0]; }
};

/// The part that is a whole logical tensor at the start of the storage.
Part whole_part(std::string name, const Shape& logical_shape, bool transposed = false);

enum class InitKind {
  normal,
  constant,
  // Of an adapter's A [r, in], by the shape of the logical tensor:
  kaiming_uniform,  // within ± 1/√in (He et al. 2015, with a = √5)
  xavier_normal,    // of variance 2/(in + r) (Glorot and Bengio 2010)
  rank_normal,      // of standard deviation 1/r
};

struct Initialization {
  InitKind kind = InitKind::normal;
  double standard_deviation = 0.02;
  double value = 0;  // constant
};

/// The experts of a layer whose matrices a parameter has, one after the other.
struct ExpertRange {
  int64_t first = 0, here = 0;
  int64_t of = 0;  // of the layer, on all ranks; 0: it has no experts' matrices
  bool any() const { return of > 0; }
};

/// How a frozen weight is stored where it is not in its own format (sharding/frozen_weights.h).
enum class BaseFormat {
  bf16,
  fp8,     // E4M3 codes, an FP32 scale for each 128 elements of a row
  nf4,     // codes of 4 bits with double quantization (ops/nf4.h)
  blocks,  // as a GGUF file has it (tensor/gguf_blocks.h): each part in a type of its own
};
constexpr auto choice_names(BaseFormat) {
  return std::to_array<std::string_view>({"bf16", "fp8", "nf4", "blocks"});
}

struct Parameter {
  std::string path;  // module path with the global layer number: "blocks.3.attention.qkv.weight"
  Shape shape;       // of the storage here, [rows] or [rows, columns]
  std::vector<Part> parts;  // rows of the storage in no part are padding: always 0
  /// Pipeline stages that hold this parameter too (a tied head): gradients are summed over them, in
  /// groups of this kind.
  std::vector<int> holders;
  GroupKind holders_group = GroupKind::embedding;
  Initialization init;
  /// False: frozen. No update changes it, and it has no gradient, master or moments.
  bool trained = true;
  /// Frozen, and stored like this: its matrix exists only while it is acquired.
  std::optional<BaseFormat> stored = {};
  /// With BaseFormat::blocks: of each part.
  std::vector<GgufTensorType> block_types = {};
  /// Of a low-rank term beside a weight (nn/low_rank.h): no folder of the base model has it.
  bool adapter = false;
  /// Magnitudes of the rows [magnitude_row, magnitude_row + shape[0]) of the weight of this path.
  std::string magnitude_of = {};
  int64_t magnitude_row = 0;
  bool decay = true;        // takes weight decay (matrices do; norms and biases do not)
  bool vocabulary = false;  // the token table or the head
  /// Has optimizer.decoupled_lr: the token table and the head; in a run with adapters their second
  /// factors, B, and magnitudes instead (peft.lora_plus_ratio).
  bool decoupled_rate = false;
  bool weight_gradient =
      true;  // its gradient comes from backward_weight (GEMM and embedding weights)
  /// An operand of matrix products; tables that are only looked up are not.
  bool multiplied = false;
  /// Its products read quantized operands, as the recipe says.
  bool quantized = false;
  /// Its matrices are those of these experts: each is an operand of its own.
  ExpertRange experts = {};
  /// The projection of an attention layer, whose operands have scales under its name.
  bool projects_attention = false;
  /// The grid whose groups share it: experts' weights are on the expert grid, all others are dense.
  Grid grid = Grid::attention;
  std::optional<DType> format = {};  // of the weight, where it is not the recipe's
  /// Set: a bias that balances experts (ops/load_bias.h). Each update moves it by this much, or
  /// sets it (nn/moe/quantile_balance.h). Instead of a gradient it has load errors, or nothing
  /// where it is set; optimizers, norms and clipping skip it. 0: also of other numbers that come
  /// with the weights and that no update moves (nn/output_scale.h).
  std::optional<double> load_bias_rate = {};
};

/// The matrices that a parameter has, one after the other, each an operand of its own.
inline int64_t operands_of(const Parameter& parameter) {
  return parameter.experts.any() ? parameter.experts.here : 1;
}

}  // namespace viaduct
