// BF16 attention on tiles compared with the FP64 reference: the same loops on AVX512-BF16, on AMX
// and on emulated tile registers.

#include "ops/cpu/attention/attention_tiles.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/emulated_tiles.h"
#include "unit/ops/attention_bounds.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using cpu::TileKernels;
using test::AttentionBounds;
using test::AttentionCase;
using test::AttentionData;

struct NamedTiles {
  const char* name;
  bool runs;
  const TileKernels& (*kernels)();
};

void PrintTo(const NamedTiles& tiles, std::ostream* out) {
  *out << tiles.name;
}

class AttentionTiles : public testing::TestWithParam<NamedTiles> {
 protected:
  void SetUp() override {
    // Softmax runs on AVX-512 vectors for every kind of tile.
    if (!GetParam().runs || !cpu_supports(CpuIsa::avx512_bf16))
      GTEST_SKIP() << "this machine cannot run it";
  }
  /// With a workspace of the requested size, followed by a guard area that must stay unchanged.
  template <class F>
  static void with_workspace(int64_t bytes, F&& f) {
    constexpr int64_t kBorder = 4096;
    const Tensor memory = host_tensor(DType::f32, {(bytes + kBorder + 64) / 4});
    std::fill_n(memory.data<float>(), memory.elements(), std::numeric_limits<float>::quiet_NaN());
    auto* at = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.raw()) + 63) / 64 * 64);
    std::fill_n(at + bytes, kBorder, 'x');
    f(at);
    EXPECT_EQ(std::count(at + bytes, at + bytes + kBorder, 'x'), kBorder)
        << "wrote beyond the workspace";
  }
  void forward(ThreadPool& pool, const AttentionForwardArgs& args) const {
    with_workspace(cpu::attention_tiles_forward_bytes(args), [&](void* workspace) {
      cpu::attention_forward_on_tiles(pool, args, GetParam().kernels(), workspace);
    });
  }
  void backward(ThreadPool& pool, const AttentionBackwardArgs& args) const {
    with_workspace(cpu::attention_tiles_backward_bytes(args), [&](void* workspace) {
      cpu::attention_backward_on_tiles(pool, args, GetParam().kernels(), workspace);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(
    Isa, AttentionTiles,
    testing::Values(NamedTiles{"emulated_amx", true, test::emulated_amx_kernels},
                    NamedTiles{"avx512_bf16", cpu_supports(CpuIsa::avx512_bf16),
                               cpu::avx512_bf16::tile_kernels},
                    NamedTiles{"amx", cpu_supports(CpuIsa::amx), cpu::amx::tile_kernels}),
    [](const auto& info) { return std::string(info.param.name); });

/// The cases of all kernels, and sizes at the borders of tile blocks.
std::vector<AttentionCase> tile_cases() {
  std::vector<AttentionCase> list = test::attention_cases();
  const auto add = [&](const std::string& name, auto&& change) {
    AttentionCase c;
    c.name = name;
    change(c);
    list.push_back(c);
  };
  const auto tokens = [](AttentionCase& c, int64_t count) {
    c.q_offsets = c.kv_offsets = {0, count};
    c.heads = c.kv_heads = 1;
  };
  add("blocks end with tiles", [&](auto& c) { tokens(c, 256), c.width = c.value_width = 32; });
  add("one more than blocks", [&](auto& c) { tokens(c, 257), c.width = 33, c.value_width = 65; });
  add("one less, not causal", [&](auto& c) { tokens(c, 511), c.causal = false; });
  add("window over blocks", [&](auto& c) { tokens(c, 400), c.window = 100; });
  add("window and full", [&](auto& c) { tokens(c, 300), c.window = 70, c.causal = false; });
  add("grouped, dropout, cap", [&](auto& c) {
    tokens(c, 290), c.heads = 4, c.kv_heads = 2, c.dropout = 0.2, c.softcap = 1.5, c.gap = 8;
  });
  add("queries far behind", [&](auto& c) {
    tokens(c, 140), c.kv_offsets = {0, 500}, c.diagonal = {360};
  });
  return list;
}

TEST_P(AttentionTiles, FollowTheReference) {
  ThreadPool pool(2);
  for (const AttentionCase& c : tile_cases()) {
    SCOPED_TRACE(c.name);
    AttentionData data(c, DType::bf16);
    AttentionData expected = data.in_f64();
    forward(pool, data.forward());
    reference::attention_forward(expected.forward());
    AttentionBounds bounds(expected);
    bounds.allow_rounded_factors();
    test::expect_close(data.out, expected.out, bounds.terms, bounds.out);
    test::expect_close(data.lse, expected.lse, bounds.terms, bounds.lse);

    // The backward from the reference's forward, rounded: lse and delta as given.
    const Tensor delta = test::random_tensor(DType::f32, data.delta.shape(), 9);
    data.delta = delta;
    expected = data.in_f64();
    AttentionBounds gradient_bounds(expected);
    gradient_bounds.allow_rounded_factors();
    backward(pool, data.backward());
    reference::attention_backward(expected.backward());
    test::expect_close(data.dq, expected.dq, gradient_bounds.terms, gradient_bounds.dq);
    test::expect_close(data.dk, expected.dk, gradient_bounds.terms, gradient_bounds.dk);
    test::expect_close(data.dv, expected.dv, gradient_bounds.terms, gradient_bounds.dv);
  }
}

// Probabilities are rounded as the contract says and not more: a sum of FP32 probabilities over
// many equal keys has no error at all.
TEST_P(AttentionTiles, EqualKeysGiveTheMeanOfTheValues) {
  ThreadPool pool(1);
  AttentionCase c;
  c.q_offsets = c.kv_offsets = {0, 600};
  c.heads = c.kv_heads = 1, c.causal = false;
  AttentionData data(c, DType::bf16);
  for (int64_t i = 0; i < data.k.elements(); ++i) {
    test::set_element(data.k, i, 0);
    test::set_element(data.v, i, i / 16 % 2 == 0 ? 1 : -0.5);
  }
  forward(pool, data.forward());
  for (int64_t i = 0; i < data.out.elements(); ++i) ASSERT_EQ(test::element(data.out, i), 0.25);
  for (int64_t i = 0; i < data.lse.elements(); ++i)
    ASSERT_NEAR(test::element(data.lse, i), std::log(600.0), 1e-6);
}

TEST_P(AttentionTiles, ThreadsDoNotChangeABit) {
  AttentionCase c;
  c.q_offsets = c.kv_offsets = {0, 60, 200};
  c.softcap = 1.5, c.dropout = 0.2;
  const auto run = [&](int threads) {
    ThreadPool pool(threads);
    AttentionData data(c, DType::bf16);
    forward(pool, data.forward());
    backward(pool, data.backward());
    return data;
  };
  const AttentionData one = run(1);
  for (int threads : {2, 5}) {
    const AttentionData many = run(threads);
    for (Tensor AttentionData::*t : {&AttentionData::out, &AttentionData::lse, &AttentionData::dq,
                                     &AttentionData::dk, &AttentionData::dv})
      test::expect_same_bits(many.*t, one.*t);
  }
}

// Many short documents are packed by the tasks that use them, one task for each head of a document;
// without a bound of their lengths, all are packed before.
TEST_P(AttentionTiles, PackingInTasksDoesNotChangeABit) {
  AttentionCase c;
  c.q_offsets = c.kv_offsets = {0, 1, 40, 104, 107, 300, 365, 397, 460, 470};
  c.heads = 8, c.kv_heads = 4, c.gap = 3;
  const auto run = [&](int64_t max_keys) {
    ThreadPool pool(2);
    AttentionData data(c, DType::bf16);
    data.problem.max_keys = max_keys;
    forward(pool, data.forward());
    return data;
  };
  const AttentionData in_tasks = run(193), before = run(0);
  test::expect_same_bits(in_tasks.out, before.out);
  test::expect_same_bits(in_tasks.lse, before.lse);
  EXPECT_THROW(run(192), ShapeError);
}

TEST_P(AttentionTiles, OneQueryHasTheBitsOfBlocks) {
  for (const int64_t window : {0, 270}) {
    AttentionCase c;
    c.heads = 6, c.width = 64, c.value_width = 40, c.gap = 3;
    c.q_offsets = {0, 1, 2, 3}, c.kv_offsets = {0, 64, 400, 1100}, c.diagonal = {0, 299, 650};
    c.window = window;
    const auto run = [&](int64_t max_queries) {
      ThreadPool pool(2);
      AttentionData data(c, DType::bf16);
      data.problem.max_queries = max_queries;
      forward(pool, data.forward());
      return data;
    };
    const AttentionData one = run(1), blocks = run(2);
    test::expect_same_bits(one.out, blocks.out);
    test::expect_same_bits(one.lse, blocks.lse);
  }
}

}  // namespace
}  // namespace viaduct
