#pragma once
// Frozen matrices that are stored in fewer bits than products read (Parameter::stored): QLoRA's
// bases. Their codes are the store's weights, and their scales are here; those that stay in the
// blocks of a GGUF file, which have both, are all here. A matrix in a format that
// products read exists while a layer has it: forward and data gradient expand it each time, so that
// there is one such matrix at a time.
//
// Codes and statistics are those of the logical tensor, however it is cut: every rank reads all of
// a tensor in NF4 for them, some rows at a time, and keeps the codes of its own part. So all
// layouts have the bits of one rank.

#include <map>
#include <vector>

#include "base/function_ref.h"
#include "ops/nf4.h"
#include "sharding/by_path.h"
#include "sharding/shard_run.h"
#include "tensor/operand.h"

namespace viaduct {

/// The format of a stored parameter's weight; of NF4 codes that of two in a byte, of blocks bytes.
DType stored_dtype(BaseFormat format);
/// Elements of a row that a tensor rank's part of a stored matrix is a multiple of, where it has
/// not all columns; 1: any. Of blocks: those of the largest ones.
int64_t stored_columns(BaseFormat format);

class FrozenWeights {
 public:
  /// For those of `parameters` that are stored so; scales on the context's device. ShapeError for a
  /// part that cuts blocks.
  FrozenWeights(const OpContext& context, const std::vector<const Parameter*>& parameters);

  /// The matrix in `dtype`, made of the parameter's whole codes (undefined where these are blocks).
  Tensor matrix(const Parameter& parameter, const Tensor& codes, DType dtype);
  /// Writes `codes` and scales of values that `fill` writes: into the run's f32 master, elements of
  /// the run's parameter, which is the whole logical tensor.
  void write(const Parameter& parameter, const Tensor& codes,
             FunctionRef<void(const ShardRun&)> fill);

  /// Fills `to` u8 [rows, bytes], in host memory, with the blocks of rows of a part, from the row
  /// `first` of its own on.
  using ReadBlocks =
      FunctionRef<void(const Part& part, GgufTensorType type, int64_t first, const Tensor& to)>;
  /// Writes the blocks of a parameter that is stored so.
  void write_blocks(const Parameter& parameter, ReadBlocks read);

 private:
  /// What a part of a parameter in NF4 has besides codes.
  struct Nf4Part {
    Tensor scales, offset;  // f32, of the logical tensor
    Nf4Blocks blocks;
  };
  struct Stored {
    Tensor scales;  // FP8: f32 [rows, groups in a row]; NF4: u8, the codes of absmax
    std::vector<Nf4Part> parts;
    std::vector<Tensor> blocks;  // by part: u8 [rows, bytes]
  };
  /// The logical tensor of a part as W [out, in].
  struct Logical;

  void add_blocks(const Parameter& parameter, Stored& stored) const;
  Operand fp8_operand(const Parameter& parameter, const Tensor& codes, DType dtype) const;
  void write_nf4(const Parameter& parameter, size_t part, const Tensor& codes,
                 FunctionRef<void(const ShardRun&)> fill);
  void write_rows(const Parameter& parameter, const Part& part, const Tensor& codes,
                  FunctionRef<void(const ShardRun&)> fill);

  OpContext context_;
  std::map<const Parameter*, Stored, ByPath> stored_;
};

}  // namespace viaduct
