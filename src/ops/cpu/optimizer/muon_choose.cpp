#include <algorithm>
#include <cmath>

#include "ops/cpu/optimizer/optimizer_tasks.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {
namespace {

template <CpuIsa isa, class Args>
Choice choose(std::string_view op, const Args& args) {
  Choice choice = vector_choice(op, isa, DType::f32);
  choice.cost = cost_of(args);
  return choice;
}

template <CpuIsa isa>
Choice choose_momentum(const MuonMomentumArgs& args, const Traits&) {
  return choose<isa>("muon_momentum", args);
}

void launch_momentum(OpContext& context, const Choice& choice, const MuonMomentumArgs& args,
                     void*) {
  if (scalar_of(args.scalars, StepScalar::skip) != 0) return;
  const MuonMomentumRun run{args.gradient.data<float>(),
                            args.state.data<float>(),
                            args.out.data<float>(),
                            static_cast<float>(scalar_of(args.scalars, StepScalar::clip_factor)),
                            static_cast<float>(args.momentum),
                            static_cast<float>(1 - args.momentum),
                            args.nesterov};
  for_tasks(context, args.state.elements(), [&](int64_t begin, int64_t end) {
    state_kernels_of(choice).muon_momentum(run, begin, end);
  });
}

template <CpuIsa isa>
Choice choose_normalize(const NormalizeArgs& args, const Traits&) {
  return choose<isa>("normalize", args);
}

void launch_normalize(OpContext& context, const Choice& choice, const NormalizeArgs& args, void*) {
  const double norm = std::sqrt(*args.sum.data<double>());
  const auto factor = static_cast<float>(1 / std::max(norm, args.epsilon));
  auto* x = args.x.data<float>();
  for_tasks(context, args.x.elements(), [&](int64_t begin, int64_t end) {
    state_kernels_of(choice).multiply(x + begin, end - begin, factor);
  });
}

template <CpuIsa isa>
Choice choose_update(const MuonUpdateArgs& args, const Traits&) {
  return choose<isa>("muon_update", args);
}

void launch_update(OpContext& context, const Choice& choice, const MuonUpdateArgs& args, void*) {
  if (scalar_of(args.scalars, StepScalar::skip) != 0) return;
  const double lr = scalar_of(args.scalars, StepScalar::learning_rate);
  const double decay = args.weight_decay * scalar_of(args.scalars, StepScalar::weight_decay_factor);
  const MuonUpdateRun run{args.master.data<float>(),
                          args.update.data<float>(),
                          args.weight ? args.weight.raw() : nullptr,
                          args.weight ? args.weight.dtype() : DType::f32,
                          static_cast<float>(lr),
                          static_cast<float>(lr * decay)};
  for_tasks(context, args.master.elements(), [&](int64_t begin, int64_t end) {
    state_kernels_of(choice).muon_update(run, begin, end);
  });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.muon_momentum = {choose_momentum<isa>, launch_momentum};
  table.normalize = {choose_normalize<isa>, launch_normalize};
  table.muon_update = {choose_update<isa>, launch_update};
}

}  // namespace

void add_muon(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill<CpuIsa::portable>, fill<CpuIsa::avx2>, fill<CpuIsa::avx512>)(table);
}

}  // namespace viaduct::cpu
