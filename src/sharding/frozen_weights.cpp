#include "sharding/frozen_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/convert_operand.h"
#include "ops/dequantize_blocks.h"
#include "ops/elementwise.h"
#include "tensor/gguf_blocks.h"
#include "tensor/nf4.h"

namespace viaduct {
namespace {

/// Elements of a tensor that are quantized at a time.
constexpr int64_t kAtOnce = int64_t{1} << 22;
constexpr int64_t kFp8Group = 128;

OperandForm fp8_form() {
  return {kRowMajor, Orientation::row_wise, {}, DType::e4m3, ScaleForm{DType::f32, {1, kFp8Group}}};
}

/// Two codes a byte as bytes; `codes` is contiguous.
Tensor as_bytes(const Tensor& codes) {
  return {codes.storage(), DType::u8, codes.shape(), codes.offset_bytes()};
}

Tensor flat(const Tensor& tensor) {
  return tensor.view({tensor.elements()});
}

/// The elements of a part among those of its parameter, in units of `each`.
Tensor of_part(const Tensor& flat, const Parameter& parameter, const Part& part, int64_t each) {
  const int64_t columns = parameter.shape[1];
  return flat.slice(0, part.storage_row * columns / each, part.rows() * columns / each);
}

}  // namespace

DType stored_dtype(BaseFormat format) {
  switch (format) {
    case BaseFormat::fp8:
      return DType::e4m3;
    case BaseFormat::nf4:
      return DType::e2m1x2;
    case BaseFormat::blocks:
      return DType::u8;
    case BaseFormat::bf16:
      break;
  }
  return DType::bf16;
}

int64_t stored_columns(BaseFormat format) {
  if (format == BaseFormat::blocks) return kLargestGgufBlock;
  return format == BaseFormat::nf4 ? kNf4Block : format == BaseFormat::fp8 ? kFp8Group : 1;
}

struct FrozenWeights::Logical {
  explicit Logical(const Parameter& parameter, const Part& part) {
    const int out_dim = part.transposed ? 1 : 0, in_dim = 1 - out_dim;
    out = part.logical_shape[out_dim], in = part.logical_shape[in_dim];
    row = part.box.begin[out_dim], rows = part.rows();
    column = part.box.begin[in_dim], columns = part.box.size[in_dim];
    whole.path = part.name;
    whole.shape = {out, in};
    whole.init = parameter.init;
    whole.parts = {whole_part(part.name, part.logical_shape, part.transposed)};
  }

  /// Calls body(first row, values f32 [rows, in]) for the rows [begin, end), a multiple of 64 at a
  /// time. One memory holds the values of each call.
  template <class Body>
  void for_rows(const OpContext& context, int64_t begin, int64_t end,
                FunctionRef<void(const ShardRun&)> fill, const Body& body) const {
    const int64_t most = std::max<int64_t>(kNf4Block, kAtOnce / in / kNf4Block * kNf4Block);
    const Tensor memory =
        context.allocate(DType::f32, {std::min(most, end - begin) * in}, MemoryTag::workspace);
    for (int64_t at = begin; at < end; at += most) {
      const int64_t count = std::min(most, end - at);
      const Tensor values = memory.slice(0, 0, count * in);
      fill({&whole, {at * in, (at + count) * in}, values, values});
      body(at, values.view({count, in}));
    }
  }

  Parameter whole;
  int64_t out = 0, in = 0;                             // of the tensor
  int64_t row = 0, rows = 0, column = 0, columns = 0;  // of the part
};

FrozenWeights::FrozenWeights(const OpContext& context,
                             const std::vector<const Parameter*>& parameters)
    : context_(context) {
  for (const Parameter* parameter : parameters) {
    if (!parameter->stored) continue;
    const BaseFormat format = *parameter->stored;
    Stored& stored = stored_[parameter];
    if (format == BaseFormat::blocks) {
      add_blocks(*parameter, stored);
      continue;
    }
    if (format == BaseFormat::fp8)
      stored.scales = context.allocate(DType::f32, scales_shape(fp8_form(), parameter->shape),
                                       MemoryTag::weights);
    if (format == BaseFormat::nf4)
      stored.scales = context.allocate(DType::u8, {parameter->shape.elements() / kNf4Block},
                                       MemoryTag::weights);
    for (const Part& part : parameter->parts) {
      const Logical of(*parameter, part);
      const int64_t multiple = stored_columns(format);
      const bool whole_rows = of.columns == of.in;
      const bool nf4 = format == BaseFormat::nf4;
      const bool fits =
          whole_rows ? !nf4 || (of.row * of.in % kNf4Block == 0 && of.rows * of.in % kNf4Block == 0)
                     : of.column % multiple == 0 && of.columns % multiple == 0 &&
                           (!nf4 || of.in % kNf4Block == 0);
      VIADUCT_CHECK(
          ShapeError, fits && (!nf4 || of.columns % 2 == 0),
          "{}: rows {} to {} and columns {} to {} of {} [{}, {}] cut blocks of {} elements",
          parameter->path, of.row, of.row + of.rows, of.column, of.column + of.columns, part.name,
          of.out, of.in, multiple);
      if (!nf4) continue;
      const int64_t blocks = of.out * of.in / kNf4Block;
      Nf4Part& made = stored.parts.emplace_back();
      made.scales =
          context.allocate(DType::f32, {(blocks + kNf4Group - 1) / kNf4Group}, MemoryTag::weights);
      made.offset = context.allocate(DType::f32, {1}, MemoryTag::weights);
      const int64_t own = of.rows * of.columns / kNf4Block;
      made.blocks = whole_rows ? Nf4Blocks{of.row * of.in / kNf4Block, own, own}
                               : Nf4Blocks{(of.row * of.in + of.column) / kNf4Block,
                                           of.columns / kNf4Block, of.in / kNf4Block};
    }
  }
}

void FrozenWeights::add_blocks(const Parameter& parameter, Stored& stored) const {
  for (size_t i = 0; i < parameter.parts.size(); ++i) {
    const Logical of(parameter, parameter.parts[i]);
    const GgufType& type = gguf_type(parameter.block_types[i]);
    VIADUCT_CHECK(
        ShapeError,
        of.in % type.block == 0 && of.column % type.block == 0 && of.columns % type.block == 0,
        "{}: columns {} to {} of {} [{}, {}] cut blocks of {} elements ({})", parameter.path,
        of.column, of.column + of.columns, parameter.parts[i].name, of.out, of.in, type.block,
        type.name);
    stored.blocks.push_back(context_.allocate(
        DType::u8, {of.rows, gguf_bytes(type.type, of.columns)}, MemoryTag::weights));
  }
}

void FrozenWeights::write_blocks(const Parameter& parameter, ReadBlocks read) {
  for (size_t i = 0; i < parameter.parts.size(); ++i) {
    const Tensor& blocks = stored_.at(&parameter).blocks[i];
    const int64_t step = std::max<int64_t>(1, kAtOnce / blocks.dim(1));
    for (int64_t row = 0; row < blocks.dim(0); row += step) {
      const int64_t rows = std::min(step, blocks.dim(0) - row);
      const Tensor some = host_tensor(DType::u8, {rows, blocks.dim(1)});
      read(parameter.parts[i], parameter.block_types[i], row, some);
      context_.device.copy_from_host(some, blocks.slice(0, row, rows));
    }
  }
}

Operand FrozenWeights::fp8_operand(const Parameter& parameter, const Tensor& codes,
                                   DType dtype) const {
  return {fp8_form(), dtype, parameter.shape, codes, stored_.at(&parameter).scales};
}

Tensor FrozenWeights::matrix(const Parameter& parameter, const Tensor& codes, DType dtype) {
  const Tensor out = context_.allocate(dtype, parameter.shape, MemoryTag::workspace);
  switch (*parameter.stored) {
    case BaseFormat::bf16:
      copy(context_, {codes, out});
      return out;
    case BaseFormat::fp8: {
      // An E4M3 code times a power of two is a BF16 number.
      const bool direct = dtype == DType::bf16;
      const Tensor wide =
          direct ? out : context_.allocate(DType::bf16, parameter.shape, MemoryTag::workspace);
      expand_operand(context_, {fp8_operand(parameter, codes, DType::bf16), wide});
      if (!direct) copy(context_, {wide, out});
      return out;
    }
    case BaseFormat::nf4:
    case BaseFormat::blocks:
      break;
  }
  const Stored& stored = stored_.at(&parameter);
  for (size_t i = 0; i < parameter.parts.size(); ++i) {
    const Part& part = parameter.parts[i];
    if (*parameter.stored == BaseFormat::blocks) {
      dequantize_blocks(context_, {stored.blocks[i], out.slice(0, part.storage_row, part.rows()),
                                   parameter.block_types[i]});
      continue;
    }
    const Nf4Part& of = stored.parts[i];
    dequantize_nf4(context_, {of_part(flat(codes), parameter, part, 2),
                              of_part(stored.scales, parameter, part, kNf4Block), of.scales,
                              of.offset, of_part(flat(out), parameter, part, 1), of.blocks});
  }
  return out;
}

void FrozenWeights::write(const Parameter& parameter, const Tensor& codes,
                          FunctionRef<void(const ShardRun&)> fill) {
  for (size_t i = 0; i < parameter.parts.size(); ++i) {
    if (*parameter.stored == BaseFormat::nf4)
      write_nf4(parameter, i, codes, fill);
    else
      write_rows(parameter, parameter.parts[i], codes, fill);
  }
}

void FrozenWeights::write_nf4(const Parameter& parameter, size_t index, const Tensor& codes,
                              FunctionRef<void(const ShardRun&)> fill) {
  const Part& part = parameter.parts[index];
  const Stored& stored = stored_.at(&parameter);
  const Nf4Part& made = stored.parts[index];
  const Logical of(parameter, part);
  const int64_t blocks = of.out * of.in / kNf4Block;
  const Tensor absmax = context_.allocate(DType::f32, {blocks}, MemoryTag::workspace);
  const Tensor own =
      of_part(flat(as_bytes(codes)), parameter, part, 2).view({of.rows, of.columns / 2});
  of.for_rows(context_, 0, of.out, fill, [&](int64_t row, const Tensor& values) {
    const int64_t count = values.dim(0), elements = values.elements();
    const Tensor made_codes =
        context_.allocate(DType::u8, {count, of.in / 2}, MemoryTag::workspace);
    quantize_nf4(context_, {flat(values), flat(made_codes),
                            absmax.slice(0, row * of.in / kNf4Block,
                                         (elements + kNf4Block - 1) / kNf4Block)});
    const int64_t begin = std::max(row, of.row), end = std::min(row + count, of.row + of.rows);
    if (begin >= end) return;
    copy(context_,
         {made_codes.slice(0, begin - row, end - begin).slice(1, of.column / 2, of.columns / 2),
          own.slice(0, begin - of.row, end - begin)});
  });
  const Tensor all = context_.allocate(DType::u8, {blocks}, MemoryTag::workspace);
  quantize_absmax(context_, {absmax, made.offset, all, made.scales});
  const Tensor own_absmax = of_part(stored.scales, parameter, part, kNf4Block);
  if (of.columns == of.in) {
    copy(context_, {all.slice(0, made.blocks.first, own_absmax.elements()), own_absmax});
    return;
  }
  copy(context_, {all.view({of.out, made.blocks.stride})
                      .slice(0, of.row, of.rows)
                      .slice(1, of.column / kNf4Block, made.blocks.run),
                  own_absmax.view({of.rows, made.blocks.run})});
}

void FrozenWeights::write_rows(const Parameter& parameter, const Part& part, const Tensor& codes,
                               FunctionRef<void(const ShardRun&)> fill) {
  const Logical of(parameter, part);
  const bool fp8 = *parameter.stored == BaseFormat::fp8;
  const Operand all = fp8 ? fp8_operand(parameter, codes, DType::f32) : Operand(codes);
  of.for_rows(context_, of.row, of.row + of.rows, fill, [&](int64_t row, const Tensor& values) {
    const Tensor own = values.slice(1, of.column, of.columns);
    const Operand to = all.slice(0, part.storage_row + row - of.row, values.dim(0));
    if (fp8)
      convert_operand(context_, {own, to});
    else
      copy(context_, {own, to.tensor()});
  });
}

}  // namespace viaduct
