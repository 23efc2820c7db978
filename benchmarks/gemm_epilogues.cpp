// GEMMs with epilogues compared with the same GEMMs and separate ops, alternating in each round, in
// BF16, on operands that are not cached at the beginning of a round.
//
//   gemm_epilogues [threads] [tokens]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"

namespace viaduct {
namespace {

constexpr int kRounds = 15;

double microseconds(const std::function<void()>& run) {
  using namespace std::chrono;
  const auto begin = steady_clock::now();
  run();
  return duration<double, std::micro>(steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Operands {
 public:
  Operands(OpContext& context, int64_t tokens)
      : context_(context), flush_(random({int64_t{48} << 20, 1})), tokens_(tokens) {}

  Tensor random(const Shape& shape) {
    const Tensor x = context_.allocate(DType::bf16, shape, MemoryTag::activations);
    random_normal(context_, {x, 0, 1, {1, ++stream_}, 0, 0, shape[1]});
    return x;
  }

  /// The product alone, followed by `op`, and with the epilogue.
  void compare(const std::string& name, const GemmArgs& fused, const std::function<void()>& op,
               const Tensor& apart) {
    GemmArgs plain = fused;
    plain.epilogue = {};
    if (apart) plain.c = apart;
    std::vector<double> alone, followed, together, ratio;
    for (int round = 0; round < kRounds; ++round) {
      scale(context_, {flush_, flush_, 1});
      alone.push_back(microseconds([&] { gemm(context_, plain); }));
      scale(context_, {flush_, flush_, 1});
      followed.push_back(microseconds([&] { gemm(context_, plain), op(); }));
      scale(context_, {flush_, flush_, 1});
      together.push_back(microseconds([&] { gemm(context_, fused); }));
      ratio.push_back(together.back() / followed.back());
    }
    std::printf("%-44s %9.0f %9.0f %9.0f %8.3f\n", name.c_str(), median(alone), median(followed),
                median(together), median(ratio));
    std::fflush(stdout);
  }

  void activation(const std::string& label, ActivationKind kind, bool gated, int64_t hidden,
                  int64_t width) {
    const int64_t raised_width = gated ? 2 * width : width;
    GemmArgs up{GemmForm::forward, random({tokens_, hidden}), random({raised_width, hidden}),
                random({tokens_, raised_width})};
    up.epilogue = {{}, random({tokens_, width}), {}, kind, gated};
    compare(label + ", forward", up,
            [&] {
              activation_forward(context_, {kind, gated, up.c, up.epilogue.activated});
            },
            {});
    GemmArgs down{GemmForm::data_gradient, random({tokens_, hidden}), random({hidden, width}),
                  up.c};
    down.epilogue = {{}, {}, up.c, kind, gated};
    const Tensor apart = random({tokens_, width});
    compare(
        label + ", backward", down,
        [&] {
          activation_backward(context_, {kind, gated, apart, up.c, up.c});
        },
        apart);
  }

  void residual(int64_t hidden, int64_t width) {
    GemmArgs down{GemmForm::forward, random({tokens_, width}), random({hidden, width}),
                  random({tokens_, hidden})};
    down.epilogue.residual = random({tokens_, hidden});
    const Tensor branch = random({tokens_, hidden});
    compare(
        "residual, " + std::to_string(width) + " to " + std::to_string(hidden), down,
        [&] {
          add(context_, {down.epilogue.residual, branch, down.c});
        },
        branch);
  }

 private:
  OpContext& context_;
  uint64_t stream_ = 0;
  Tensor flush_;
  int64_t tokens_;
};

void measure(int threads, int64_t tokens) {
  const auto device = make_cpu_device(threads);
  const OpTable ops = cpu_ops(best_cpu_isa());
  OpContext context{*device, ops};
  Operands operands(context, tokens);
  std::printf("%-44s %9s %9s %9s %8s\n", "microseconds, medians", "product", "and op", "epilogue",
              "ratio");
  operands.activation("GELU by tanh, 384 x 1536", ActivationKind::gelu_tanh, false, 384, 1536);
  operands.activation("GELU by tanh, 768 x 3072", ActivationKind::gelu_tanh, false, 768, 3072);
  operands.activation("SwiGLU, 384 x 2 x 1024", ActivationKind::silu, true, 384, 1024);
  operands.activation("SwiGLU, 768 x 2 x 2048", ActivationKind::silu, true, 768, 2048);
  operands.residual(384, 384);
  operands.residual(384, 1536);
  operands.residual(768, 3072);
}

}  // namespace
}  // namespace viaduct

int main(int argc, char** argv) {
  viaduct::measure(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 4096);
  return 0;
}
