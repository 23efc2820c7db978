// GGUF's blocks as an op: the decoder's bits in every format, rows of any number.

#include "ops/dequantize_blocks.h"

#include <gmock/gmock.h>

#include <random>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/op_testing.h"
#include "tensor/gguf_blocks.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Type = GgufTensorType;

/// [rows, columns] of random codes and scales.
Tensor random_blocks(Type type, int64_t rows, int64_t columns) {
  const GgufBlockForm form = gguf_block_form(type);
  const Tensor blocks = host_tensor(DType::u8, {rows, gguf_bytes(type, columns)});
  std::mt19937 random(3);
  const auto number = [&](const GgufBlockForm::Range& range) {
    return static_cast<int16_t>(
        std::uniform_int_distribution<int>(range.least, range.largest)(random));
  };
  auto* to = static_cast<std::byte*>(blocks.raw());
  for (int64_t i = 0; i < rows * columns / form.elements; ++i) {
    GgufBlock block;
    block.scale = static_cast<float16>(0.01f + 0.001f * static_cast<float>(i % 7));
    block.minimum = static_cast<float16>(0.02f);
    for (int g = 0; g < form.groups; ++g)
      block.scales[g] = number(form.scales), block.minimums[g] = number(form.minimums);
    for (int e = 0; e < form.elements; ++e) block.codes[e] = number(form.codes);
    encode_gguf_block(type, block, to + i * gguf_type(type).bytes);
  }
  return blocks;
}

TEST(DequantizeBlocks, HasTheBitsOfTheDecoder) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  OpContext context{*device, ops};
  for (const Type type : {Type::q8_0, Type::q4_0, Type::q4_1, Type::q5_0, Type::q5_1, Type::q2_k,
                          Type::q3_k, Type::q4_k, Type::q5_k, Type::q6_k}) {
    SCOPED_TRACE(gguf_type_name(type));
    const int64_t rows = 71, columns = 512;  // more than a task has
    const Tensor blocks = random_blocks(type, rows, columns);
    const Tensor expected = host_tensor(DType::f32, {rows, columns});
    decode_gguf_elements(type, static_cast<const std::byte*>(blocks.raw()), 0, rows * columns,
                         expected.data<float>());
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const Tensor out = host_tensor(dtype, {rows, columns});
      dequantize_blocks(context, {blocks, out, type});
      test::expect_same_bits(out, test::converted(expected, dtype));
    }
  }
}

TEST(DequantizeBlocks, RefusesWhatIsNoBlocks) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  OpContext context{*device, ops};
  const auto run = [&](Type type, Shape blocks, Shape out) {
    dequantize_blocks(context,
                      {host_tensor(DType::u8, blocks), host_tensor(DType::f32, out), type});
  };
  EXPECT_THAT(
      [&] {
        run(Type::q4_k, {2, 18}, {2, 32});
      },
      ThrowsMessage<ShapeError>(HasSubstr("no blocks of Q4_K, which have 256")));
  EXPECT_THROW(run(Type::q8_0, {2, 33}, {2, 32}), ShapeError);
  EXPECT_THROW(run(Type::f32, {2, 128}, {2, 32}), ShapeError);
}

}  // namespace
}  // namespace viaduct
