#include <algorithm>
#include <cmath>

#include "ops/cpu/optimizer/state_kernels.h"

namespace viaduct::cpu {
namespace {

const StateKernels& kernels(const Choice& choice) {
  return choice.variant == kAvx2Kernel ? avx2::state_kernels : avx512::state_kernels;
}

template <class F>
void for_tasks(OpContext& context, int64_t elements, F&& f) {
  constexpr int64_t kTask = 65536;
  context.device.pool().run((elements + kTask - 1) / kTask, [&](int64_t i, int) {
    f(i * kTask, std::min(elements, (i + 1) * kTask));
  });
}

double scalar(const Tensor& scalars, StepScalar name) {
  return scalars.data<double>()[static_cast<int>(name)];
}

template <CpuIsa isa>
Choice choose(std::string_view op, int64_t elements, int64_t read, int64_t written) {
  Choice choice = vector_choice(op, isa, DType::f32);
  add_flops(choice, DType::f32, 4.0 * static_cast<double>(elements));
  choice.cost.bytes_read = read;
  choice.cost.bytes_written = written;
  return choice;
}

template <CpuIsa isa>
Choice choose_momentum(const MuonMomentumArgs& args, const Traits&) {
  const int64_t bytes = bytes_of(args.state);
  return choose<isa>("muon_momentum", args.state.elements(), 2 * bytes + bytes_of(args.scalars),
                     2 * bytes);
}

void launch_momentum(OpContext& context, const Choice& choice, const MuonMomentumArgs& args,
                     void*) {
  if (scalar(args.scalars, StepScalar::skip) != 0) return;
  const MuonMomentumRun run{args.gradient.data<float>(),
                            args.state.data<float>(),
                            args.out.data<float>(),
                            static_cast<float>(scalar(args.scalars, StepScalar::clip_factor)),
                            static_cast<float>(args.momentum),
                            static_cast<float>(1 - args.momentum),
                            args.nesterov};
  for_tasks(context, args.state.elements(),
            [&](int64_t begin, int64_t end) { kernels(choice).muon_momentum(run, begin, end); });
}

template <CpuIsa isa>
Choice choose_normalize(const NormalizeArgs& args, const Traits&) {
  return choose<isa>("normalize", args.x.elements(), bytes_of(args.x) + bytes_of(args.sum),
                     bytes_of(args.x));
}

void launch_normalize(OpContext& context, const Choice& choice, const NormalizeArgs& args, void*) {
  const double norm = std::sqrt(*args.sum.data<double>());
  const auto factor = static_cast<float>(1 / std::max(norm, args.epsilon));
  auto* x = args.x.data<float>();
  for_tasks(context, args.x.elements(), [&](int64_t begin, int64_t end) {
    kernels(choice).multiply(x + begin, end - begin, factor);
  });
}

template <CpuIsa isa>
Choice choose_update(const MuonUpdateArgs& args, const Traits&) {
  const int64_t bytes = bytes_of(args.master);
  return choose<isa>("muon_update", args.master.elements(), 2 * bytes + bytes_of(args.scalars),
                     bytes + bytes_of(args.weight));
}

void launch_update(OpContext& context, const Choice& choice, const MuonUpdateArgs& args, void*) {
  if (scalar(args.scalars, StepScalar::skip) != 0) return;
  const double lr = scalar(args.scalars, StepScalar::learning_rate);
  const double decay = args.weight_decay * scalar(args.scalars, StepScalar::weight_decay_factor);
  const MuonUpdateRun run{args.master.data<float>(),
                          args.update.data<float>(),
                          args.weight ? args.weight.raw() : nullptr,
                          args.weight ? args.weight.dtype() : DType::f32,
                          static_cast<float>(lr),
                          static_cast<float>(lr * decay)};
  for_tasks(context, args.master.elements(),
            [&](int64_t begin, int64_t end) { kernels(choice).muon_update(run, begin, end); });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.muon_momentum = {choose_momentum<isa>, launch_momentum};
  table.normalize = {choose_normalize<isa>, launch_normalize};
  table.muon_update = {choose_update<isa>, launch_update};
}

}  // namespace

void add_muon(OpTable& table, CpuIsa isa) {
  isa == CpuIsa::avx2 ? fill<CpuIsa::avx2>(table) : fill<CpuIsa::avx512>(table);
}

}  // namespace viaduct::cpu
