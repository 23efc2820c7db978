// Products of quantized operands compared with the same products in BF16, alternating in each
// round, in processor time of one thread:
//
//   inside   only the product: its operands are made before (a weight's once a step)
//   all      including the quantization of this product's operands: x or dy, and for the weight
//            gradient also x
//
// Speeds are shares of the BF16 product's.
//
//   quantized_gemms [isa] [tokens]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/convert_operand.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"
#include "ops/largest_magnitude.h"
#include "ops/quantized_forms.h"

namespace viaduct {
namespace {

constexpr int kRounds = 9;

struct Recipe {
  const char* name;
  Quantization products;
};
const Recipe kRecipes[] = {
    {"current scaling", {Scaling::tensor, DType::e4m3, DType::e5m2}},
    {"blockwise", {Scaling::blocks, DType::e4m3, DType::e5m2}},
    {"MXFP8", {Scaling::mx, DType::e4m3, DType::e4m3}},
    {"NVFP4", {Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}},
};

double seconds(const std::function<void()>& run) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double begin = now();
  run();
  return now() - begin;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

class Products {
 public:
  Products(OpContext& context, int64_t tokens) : context_(context), tokens_(tokens) {}

  void compare(GemmForm form, const char* name, int64_t n, int64_t k) {
    const bool weight_gradient = form == GemmForm::weight_gradient;
    const Tensor a = random({tokens_, form == GemmForm::forward ? k : n});
    const Tensor b = random({weight_gradient ? tokens_ : n, k});
    GemmArgs plain{
        form, a, b,
        context_.allocate(weight_gradient ? DType::f32 : DType::bf16,
                          weight_gradient ? Shape{n, k} : Shape{tokens_, a.dim(1) == k ? n : k},
                          MemoryTag::activations)};
    std::printf("%-16s %5ld x %-5ld", name, n, k);
    for (const Recipe& recipe : kRecipes) {
      const GemmForms forms = quantized_forms(form, recipe.products);
      const bool draws = form != GemmForm::forward;
      GemmArgs args = plain;
      args.quantization = recipe.products;
      const Making make_a = making(a, forms.a, draws), make_b = making(b, forms.b, false);
      args.a = make_a.out, args.b = make_b.out;
      make(make_a), make(make_b);
      std::vector<double> inside, all;
      for (int round = 0; round < kRounds; ++round) {
        const double bf16 = seconds([&] { gemm(context_, plain); });
        inside.push_back(bf16 / seconds([&] { gemm(context_, args); }));
        all.push_back(bf16 / seconds([&] {
                        make(make_a);
                        if (weight_gradient) make(make_b);
                        gemm(context_, args);
                      }));
      }
      std::printf("   %5.2f %5.2f", median(inside), median(all));
      std::fflush(stdout);
    }
    std::printf("\n");
  }

 private:
  Tensor random(const Shape& shape) {
    const Tensor x = context_.allocate(DType::bf16, shape, MemoryTag::activations);
    random_normal(context_, {x, 0, 1, {1, ++stream_}, 0, 0, shape[1]});
    return x;
  }

  /// An operand in memory that is already allocated, as in a step whose memory is planned.
  using Making = ConvertOperandArgs;

  Making making(const Tensor& matrix, const OperandForm& form, bool gradient) {
    const auto allocate = [&](DType dtype, const Shape& shape) {
      return context_.allocate(dtype, shape, MemoryTag::activations);
    };
    Making making;
    making.matrix = matrix;
    const Tensor values = allocate(*form.element, values_shape(form, matrix.shape()));
    const Tensor scales = allocate(form.scales->dtype, scales_shape(form, matrix.shape()));
    if (has_matrix_scale(form)) making.amax = allocate(DType::f32, {1});
    Tensor matrix_scale;
    if (has_matrix_scale(form) && !has_one_scale(form)) matrix_scale = allocate(DType::f32, {1});
    making.out = {form, matrix.dtype(), matrix.shape(), values, scales, matrix_scale};
    if (gradient && form.element == DType::e2m1x2) {
      making.rounding.token_index = allocate(DType::i64, {tokens_});
      for (int64_t t = 0; t < tokens_; ++t) making.rounding.token_index.data<int64_t>()[t] = t;
      making.rounding.features = {{0, 0}};
    }
    return making;
  }

  void make(const Making& making) {
    if (making.amax)
      largest_magnitude(context_, {making.matrix, making.amax, making.out.form().rotated});
    convert_operand(context_, making);
  }

  OpContext& context_;
  int64_t tokens_;
  uint64_t stream_ = 0;
};

void measure(CpuIsa isa, int64_t tokens) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(isa);
  OpContext context{*device, ops};
  Products products(context, tokens);
  std::printf("%s, %ld tokens; speed, BF16 = 1\n%-30s", std::string(cpu_isa_name(isa)).c_str(),
              tokens, "");
  for (const Recipe& recipe : kRecipes) std::printf("%14s", recipe.name);
  std::printf("\n%-30s", "");
  for (size_t i = 0; i < std::size(kRecipes); ++i) std::printf("  inside   all");
  std::printf("\n");
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}}) {
    products.compare(GemmForm::forward, "forward", n, k);
    products.compare(GemmForm::data_gradient, "data gradient", n, k);
    products.compare(GemmForm::weight_gradient, "weight gradient", n, k);
  }
}

}  // namespace
}  // namespace viaduct

int main(int argc, char** argv) {
  using namespace viaduct;
  CpuIsa isa = best_cpu_isa();
  if (argc > 1) {
    const auto named = std::find_if(std::begin(kCpuIsas), std::end(kCpuIsas),
                                    [&](CpuIsa each) { return cpu_isa_name(each) == argv[1]; });
    if (named == std::end(kCpuIsas)) {
      std::fprintf(stderr, "quantized_gemms: unknown instruction set \"%s\"\n", argv[1]);
      return 2;
    }
    isa = *named;
  }
  measure(isa, argc > 2 ? std::atol(argv[2]) : 2048);
}
