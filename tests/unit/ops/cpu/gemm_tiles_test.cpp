// Products of linear layers on tiles, with the AMX loops on emulated registers and with this
// machine's: blocks, chunks and edges do not depend on the instruction set.

#include "ops/cpu/gemm/gemm_tiles.h"

#include <gtest/gtest.h>

#include <span>

#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/reference/reference.h"
#include "support/emulated_tiles.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::random_strided;
using test::random_tensor;

// Small blocks, so that small products have several blocks and several visits to a block of C; and
// the same with A packed once for wide blocks, and results written past the caches.
constexpr cpu::TileBlocking kSmall{32, 64, 64};
constexpr cpu::TileBlocking kWide{32, 64, 64, 1 << 16, 256, false, 1};

template <class Element>
void run_with(const cpu::TileBlocking& blocking, const GemmArgs& args,
              const cpu::TileKernelsOf<Element>& tiles, int threads) {
  const int64_t bytes = cpu::tile_workspace_bytes<Element>(args, blocking);
  const Tensor workspace = host_tensor(DType::u8, {std::max<int64_t>(bytes, 1)});
  ThreadPool pool(threads);
  // Every machine has the stores and epilogues of the portable kernels.
  cpu::gemms_on_tiles<Element>(pool, {&args, 1}, blocking, tiles,
                               cpu::finish_kernels(CpuIsa::portable, args.c.dtype()),
                               workspace.raw(), 1);
}

/// Runs `args` with small blocks, and expects the same bits of wide ones.
template <class Element>
void run(const GemmArgs& args, const cpu::TileKernelsOf<Element>& tiles, int threads) {
  GemmArgs wide = args;
  wide.c = test::converted(args.c, args.c.dtype());
  if (const Tensor& activated = args.epilogue.activated)
    wide.epilogue.activated = host_tensor(activated.dtype(), activated.shape());
  run_with(kWide, wide, tiles, threads);
  run_with(kSmall, args, tiles, threads);
  test::expect_same_bits(wide.c, test::converted(args.c, args.c.dtype()));
  if (const Tensor& activated = args.epilogue.activated)
    test::expect_same_bits(wide.epilogue.activated, activated);
}

struct Shapes {
  Shape a, b, c;
};
Shapes shapes_of(GemmForm form, int64_t m, int64_t n, int64_t k) {
  if (form == GemmForm::forward) return {{m, k}, {n, k}, {m, n}};
  if (form == GemmForm::data_gradient) return {{m, n}, {n, k}, {m, k}};
  return {{m, n}, {m, k}, {n, k}};
}

template <class Element>
void compare(const cpu::TileKernelsOf<Element>& tiles, DType dtype) {
  uint64_t seed = 1;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {5, 130, 70},
                                {40, 97, 33},
                                {70, 33, 200},
                                {33, 64, 128},
                                {3, 8, 0}}) {
    for (const GemmForm form :
         {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient}) {
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        for (const DType out : {dtype, DType::f32}) {
          const Shapes s = shapes_of(form, m, n, k);
          GemmArgs args{form,
                        random_strided(dtype, s.a, 3, ++seed),
                        random_strided(dtype, s.b, 5, ++seed),
                        random_strided(out, s.c, 2, ++seed),
                        {},
                        mode};
          if (form == GemmForm::forward && mode == WriteMode::assign)
            args.bias = random_tensor(DType::f32, {n}, ++seed);
          const Tensor before = test::to_f64(args.c);
          GemmArgs exact = args;
          exact.a = test::to_f64(args.a.tensor()), exact.b = test::to_f64(args.b.tensor());
          exact.c = test::to_f64(args.c), exact.bias = test::to_f64(args.bias);
          GemmArgs sums = exact;
          sums.a = test::magnitudes(exact.a.tensor());
          sums.b = test::magnitudes(exact.b.tensor());
          sums.c = test::magnitudes(exact.c);
          if (exact.bias) sums.bias = test::magnitudes(exact.bias);
          reference::gemm(exact);
          reference::gemm(sums);
          run(args, tiles, 2);
          SCOPED_TRACE(testing::Message()
                       << m << " x " << n << " x " << k << " form " << static_cast<int>(form));
          test::expect_close(args.c, exact.c, static_cast<double>(std::max({m, n, k})), sums.c);
          if (testing::Test::HasFatalFailure()) return;
          if constexpr (std::is_same_v<Element, bfloat16>) {
            if (form == GemmForm::weight_gradient) continue;
            GemmArgs packed = args;
            packed.c = test::converted(before, out);
            const OperandForm as_tiles = cpu::bf16_tiles(
                form == GemmForm::forward ? Orientation::row_wise : Orientation::column_wise);
            const Shape shape = args.b.shape();
            packed.b = Operand(as_tiles, dtype, shape,
                               random_tensor(dtype, values_shape(as_tiles, shape), ++seed), {});
            ThreadPool pool(2);
            cpu::pack_bf16_tiles(pool, {args.b.tensor(), packed.b}, tiles);
            run(packed, tiles, 2);
            test::expect_same_bits(packed.c, test::converted(args.c, out));
          }
        }
      }
    }
  }
}

TEST(GemmOnTiles, EmulatedAmxMatchesTheReference) {
  compare(test::emulated_amx_kernels(), DType::bf16);
}

TEST(GemmOnTiles, Avx512Bf16MatchesTheReference) {
  if (!cpu_supports(CpuIsa::avx512_bf16)) GTEST_SKIP() << "no AVX512-BF16 here";
  compare(cpu::avx512_bf16::tile_kernels(), DType::bf16);
}

TEST(GemmOnTiles, PortableMatchesTheReference) {
  for (const DType dtype : test::kKernelDTypes) compare(cpu::portable::float_tile_kernels(), dtype);
}

TEST(GemmOnTiles, Avx2MatchesTheReference) {
  if (!cpu_supports(CpuIsa::avx2)) GTEST_SKIP() << "no AVX2 here";
  for (const DType dtype : test::kKernelDTypes) compare(cpu::avx2::float_tile_kernels(), dtype);
}

TEST(GemmOnTiles, Avx512MatchesTheReference) {
  if (!cpu_supports(CpuIsa::avx512)) GTEST_SKIP() << "no AVX-512 here";
  for (const DType dtype : test::kKernelDTypes) compare(cpu::avx512::float_tile_kernels(), dtype);
}

TEST(GemmOnTiles, EmulatedAmxBitsDoNotDependOnThreadsOrPlace) {
  const Tensor a = random_tensor(DType::bf16, {90, 150}, 1);
  const Tensor b = random_tensor(DType::bf16, {100, 150}, 2);
  const Tensor whole = host_tensor(DType::f32, {90, 100});
  run({GemmForm::forward, a, b, whole}, test::emulated_amx_kernels(), 2);
  const Tensor alone = host_tensor(DType::f32, {90, 100});
  run({GemmForm::forward, a, b, alone}, test::emulated_amx_kernels(), 1);
  test::expect_same_bits(alone, whole);
  for (const int64_t begin : {1, 33, 89}) {
    const Tensor row = host_tensor(DType::f32, {1, 100});
    run({GemmForm::forward, a.slice(0, begin, 1), b, row}, test::emulated_amx_kernels(), 1);
    test::expect_same_bits(row, whole.slice(0, begin, 1));
    const Tensor column = host_tensor(DType::f32, {90, 1});
    run({GemmForm::forward, a, b.slice(0, begin, 1), column}, test::emulated_amx_kernels(), 1);
    test::expect_same_bits(column, whole.slice(1, begin, 1));
  }
}

/// Runs products together.
template <class Element>
void run_together(std::span<const GemmArgs> products, const cpu::TileKernelsOf<Element>& tiles) {
  int64_t bytes = 0;
  for (const GemmArgs& product : products)
    bytes += cpu::tile_workspace_bytes<Element>(product, kSmall);
  const Tensor workspace = host_tensor(DType::u8, {std::max<int64_t>(bytes, 1)});
  ThreadPool pool(2);
  cpu::gemms_on_tiles<Element>(pool, products, kSmall, tiles,
                               cpu::finish_kernels(CpuIsa::portable, products.front().c.dtype()),
                               workspace.raw(), 1);
}

// Experts with many and few rows and none, and one whose packed operand has several chunks.
TEST(GemmOnTiles, ProductsThatRunTogetherHaveTheBitsOfEachAlone) {
  const auto& tiles = cpu::portable::float_tile_kernels();
  constexpr int64_t kDeep = 40'000;
  for (const GemmForm form :
       {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient}) {
    std::vector<GemmArgs> together, alone;
    uint64_t seed = 1;
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{70, 40, 96},
                                  {0, 40, 96},
                                  {3, 40, 96},
                                  {130, 65, 70},
                                  {48, 130, kDeep}}) {
      // The deep one is deep in the contracted dim of each form.
      const bool deep = k == kDeep;
      const Shapes s = shapes_of(form, deep && form == GemmForm::weight_gradient ? kDeep : m,
                                 deep && form == GemmForm::data_gradient ? kDeep : n,
                                 deep && form != GemmForm::forward ? 130 : k);
      GemmArgs args{form, random_tensor(DType::f32, s.a, ++seed),
                    random_tensor(DType::f32, s.b, ++seed), host_tensor(DType::f32, s.c)};
      together.push_back(args);
      args.c = host_tensor(DType::f32, s.c);
      alone.push_back(args);
    }
    run_together<float>(together, tiles);
    for (size_t i = 0; i < alone.size(); ++i) {
      // Cut by columns, each part with one chunk.
      const int64_t columns = alone[i].c.dim(1);
      for (int64_t begin = 0; begin < columns; begin += 64) {
        const int64_t count = std::min<int64_t>(64, columns - begin);
        GemmArgs part = alone[i];
        part.b = part.b.slice(form == GemmForm::forward ? 0 : 1, begin, count);
        part.c = part.c.slice(1, begin, count);
        run(part, tiles, 1);
      }
      test::expect_same_bits(together[i].c, alone[i].c);
    }
  }
}

// Blocks of both halves of a gate, edges and a single row of blocks: the bits of the product and of
// the op after it.
template <class Element>
void compare_epilogues(const cpu::TileKernelsOf<Element>& tiles, DType dtype) {
  test::OpMachine machine(CpuIsa::portable, 2, {cpu::add_activation, cpu::add_elementwise});
  OpContext context = machine.context();
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {5, 130, 70},
                                {40, 97, 33},
                                {70, 33, 200},
                                {33, 64, 128},
                                {3, 8, 0}}) {
    SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
    const Tensor x = random_strided(dtype, {m, k}, 3, 1);
    for (const bool gated : {false, true}) {
      const int64_t columns = gated ? 2 * n : n;
      GemmArgs args{GemmForm::forward, x, random_strided(dtype, {columns, k}, 5, 2),
                    test::strided_zeros(dtype, {m, columns}, 1),
                    random_tensor(DType::f32, {columns}, 3)};
      const Tensor raised = host_tensor(dtype, {m, columns}),
                   activated = host_tensor(dtype, {m, n});
      run({args.form, args.a, args.b, raised, args.bias}, tiles, 1);
      activation_forward(context, {ActivationKind::silu, gated, raised, activated});
      args.epilogue.activated = host_tensor(dtype, {m, n});
      args.epilogue.gated = gated;
      run(args, tiles, 2);
      test::expect_same_bits(args.c, raised);
      test::expect_same_bits(args.epilogue.activated, activated);

      GemmArgs back{GemmForm::data_gradient, x, random_strided(dtype, {k, n}, 5, 4), args.c};
      back.epilogue = {.raised = args.c, .gated = gated};
      const Tensor d_activated = host_tensor(dtype, {m, n});
      run({back.form, back.a, back.b, d_activated}, tiles, 1);
      activation_backward(context, {ActivationKind::silu, gated, d_activated, raised, raised});
      run(back, tiles, 2);
      test::expect_same_bits(back.c, raised);
    }
    GemmArgs args{GemmForm::forward, x, random_strided(dtype, {n, k}, 5, 2),
                  host_tensor(dtype, {m, n})};
    const Tensor sum = host_tensor(dtype, {m, n});
    run({args.form, args.a, args.b, sum}, tiles, 1);
    args.epilogue.residual = random_strided(dtype, {m, n}, 2, 5);
    add(context, {args.epilogue.residual, sum, sum});
    run(args, tiles, 2);
    test::expect_same_bits(args.c, sum);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(GemmOnTiles, EmulatedAmxEpilogues) {
  compare_epilogues(test::emulated_amx_kernels(), DType::bf16);
}

TEST(GemmOnTiles, Avx512Bf16Epilogues) {
  if (!cpu_supports(CpuIsa::avx512_bf16)) GTEST_SKIP() << "no AVX512-BF16 here";
  compare_epilogues(cpu::avx512_bf16::tile_kernels(), DType::bf16);
}

TEST(GemmOnTiles, PortableEpilogues) {
  for (const DType dtype : test::kKernelDTypes)
    compare_epilogues(cpu::portable::float_tile_kernels(), dtype);
}

TEST(GemmOnTiles, Avx2Epilogues) {
  if (!cpu_supports(CpuIsa::avx2)) GTEST_SKIP() << "no AVX2 here";
  for (const DType dtype : test::kKernelDTypes)
    compare_epilogues(cpu::avx2::float_tile_kernels(), dtype);
}

TEST(GemmOnTiles, Avx512Epilogues) {
  if (!cpu_supports(CpuIsa::avx512)) GTEST_SKIP() << "no AVX-512 here";
  for (const DType dtype : test::kKernelDTypes)
    compare_epilogues(cpu::avx512::float_tile_kernels(), dtype);
}

// A simulated machine may have instruction sets that this one lacks.
TEST(GemmOnTiles, EveryInstructionSetChoosesOnSim) {
  const std::pair<CpuIsa, const char*> expected[] = {{CpuIsa::portable, "tiles_portable"},
                                                     {CpuIsa::avx2, "tiles_avx2"},
                                                     {CpuIsa::avx512, "tiles_avx512"},
                                                     {CpuIsa::avx512_bf16, "tiles_avx512_bf16"},
                                                     {CpuIsa::amx, "tiles_amx"}};
  for (const auto& [isa, kernel] : expected) {
    const auto device = make_sim_device();
    const OpTable ops = cpu_ops(isa, true);
    OpContext context{*device, ops};
    StepRecord record;
    device->set_record(&record);
    const auto tensor = [&](const Shape& shape) {
      return device->allocate(DType::bf16, shape, MemoryTag::other);
    };
    gemm(context, {GemmForm::forward, tensor({600, 32}), tensor({40, 32}), tensor({600, 40})});
    ASSERT_EQ(record.ops().size(), 1u);
    EXPECT_EQ(record.ops()[0].kernel, kernel);
    // Packed B: three strips of 16 columns; a strip is one tile in BF16, two in FP32.
    const int64_t tiles = isa <= CpuIsa::avx512 ? 6 : 3;
    EXPECT_EQ(record.ops()[0].workspace_bytes, tiles * 1024) << kernel;
    const auto format =
        static_cast<size_t>(isa >= CpuIsa::avx512_bf16 ? FlopFormat::bf16 : FlopFormat::f32);
    EXPECT_EQ(record.ops()[0].cost.flops[format], 2.0 * 600 * 40 * 32);
  }
}

// Large operands are packed in chunks: the bits are those of products that fit in one.
template <class Element>
void compare_chunks(const cpu::TileKernelsOf<Element>& tiles, int64_t depth) {
  constexpr int64_t kWide = 700;  // 11 MB packed: two chunks
  const Tensor few = random_tensor(DType::bf16, {40, depth}, 1);
  const Tensor many = random_tensor(DType::bf16, {kWide, depth}, 2);
  const Tensor c = host_tensor(DType::f32, {40, kWide}), d = host_tensor(DType::f32, {kWide, 40});
  run({GemmForm::forward, few, many, c}, tiles, 2);
  run({GemmForm::forward, many, few, d}, tiles, 2);
  for (const int64_t begin : {0, 330, 650}) {
    const Tensor part = many.slice(0, begin, 50);
    const Tensor columns = host_tensor(DType::f32, {40, 50}),
                 rows = host_tensor(DType::f32, {50, 40});
    run({GemmForm::forward, few, part, columns}, tiles, 1);
    test::expect_same_bits(columns, c.slice(1, begin, 50));
    run({GemmForm::forward, part, few, rows}, tiles, 1);
    test::expect_same_bits(rows, d.slice(0, begin, 50));
  }
}

TEST(GemmOnTiles, ChunksChangeNoBit) {
  compare_chunks(cpu::portable::float_tile_kernels(), 4096);
  if (cpu_supports(CpuIsa::avx2)) compare_chunks(cpu::avx2::float_tile_kernels(), 4096);
  if (!cpu_supports(CpuIsa::avx512_bf16)) GTEST_SKIP() << "no AVX512-BF16 here";
  compare_chunks(cpu::avx512_bf16::tile_kernels(), 8192);
}

}  // namespace
}  // namespace viaduct
