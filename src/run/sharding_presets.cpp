#include "run/sharding_presets.h"

#include <fmt/ranges.h>

#include "run/parallel_settings.h"

namespace viaduct {
namespace {

/// The settings of one preset.
class Preset {
 public:
  Preset(std::string setting, ConfigOutcome& outcome)
      : setting_(std::move(setting)), outcome_(outcome) {}

  template <class T>
  void set(const char* field, T& member, const T& value) {
    if (!outcome_.is_given(field)) replace(field, member, value);
  }
  template <class T>
  void set(const char* field, Auto<T>& member, const T& value) {
    if (member.is_auto()) replace(field, member, value);
  }
  void note() {
    if (!set_.empty())
      outcome_.notes.push_back(fmt::format("{} sets {}", setting_, fmt::join(set_, ", ")));
  }

 private:
  template <class Member, class T>
  void replace(const char* field, Member& member, const T& value) {
    member = value;
    set_.push_back(fmt::format("{}={}", field, write_value(value).scalar));
  }

  std::string setting_;
  ConfigOutcome& outcome_;
  std::vector<std::string> set_;
};

constexpr const char* kStrategy = "ddp.data_parallel_sharding_strategy";
constexpr ShardingStrategy kFull = ShardingStrategy::optim_grads_params;

void set_kind(DdpConfig& ddp, ConfigOutcome& outcome) {
  if (!ddp.fsdp) return;
  Preset preset(fmt::format("dist.fsdp={}", choice_name(*ddp.fsdp)), outcome);
  if (*ddp.fsdp == FsdpKind::megatron)
    preset.set("dist.use_megatron_fsdp", ddp.use_megatron_fsdp, true);
  else
    preset.set("dist.use_torch_fsdp2", ddp.use_torch_fsdp2, true);
  preset.note();
}

void set_strategy(DdpConfig& ddp, ConfigOutcome& outcome) {
  if (!ddp.use_megatron_fsdp && !ddp.use_torch_fsdp2) return;
  Preset preset(ddp.use_megatron_fsdp ? "dist.use_megatron_fsdp=true" : "dist.use_torch_fsdp2=true",
                outcome);
  preset.set(kStrategy, ddp.data_parallel_sharding_strategy, kFull);
  preset.note();
}

void set_weight_shards(RunConfig& config, ConfigOutcome& outcome) {
  DdpConfig& ddp = config.ddp;
  const int64_t ranks = weight_shard_ranks(config);
  if (ranks < 2) return;
  Preset preset(fmt::format("model.tensor_parallel_num_weight_shards={}",
                            ddp.tensor_parallel_num_weight_shards.value_or(0)),
                outcome);
  preset.set(kStrategy, ddp.data_parallel_sharding_strategy, kFull);
  const int64_t instances = document_ranks(config) / ranks;
  if (ddp.num_distributed_optimizer_instances != instances) {
    preset.set("ddp.num_distributed_optimizer_instances", ddp.num_distributed_optimizer_instances,
               static_cast<int>(instances));
  }
  preset.note();
}

void set_formats(RunConfig& config, ConfigOutcome& outcome) {
  DdpConfig& ddp = config.ddp;
  StateConfig& state = config.optimizer_state;
  if (const auto& format = ddp.megatron_fsdp_main_params_dtype;
      format && *format != state.main_params_dtype) {
    Preset preset(fmt::format("ddp.megatron_fsdp_main_params_dtype={}", choice_name(*format)),
                  outcome);
    preset.set("optimizer.main_params_dtype", state.main_params_dtype, *format);
    if (*format != NumberFormat::fp32) {
      preset.set("optimizer.use_precision_aware_optimizer", state.use_precision_aware_optimizer,
                 true);
    }
    preset.note();
  }
  if (const auto& format = ddp.megatron_fsdp_main_grads_dtype;
      format && (*format == NumberFormat::fp32) != ddp.grad_reduce_in_fp32) {
    Preset preset(fmt::format("ddp.megatron_fsdp_main_grads_dtype={}", choice_name(*format)),
                  outcome);
    preset.set("ddp.grad_reduce_in_fp32", ddp.grad_reduce_in_fp32, *format == NumberFormat::fp32);
    preset.note();
  }
  if (ddp.grad_reduce_in_bf16 && !outcome.is_given("ddp.grad_reduce_in_fp32"))
    ddp.grad_reduce_in_fp32 = false;
}

}  // namespace

void apply_sharding_presets(RunConfig& config, ConfigOutcome& outcome) {
  DdpConfig& ddp = config.ddp;
  set_kind(ddp, outcome);
  set_strategy(ddp, outcome);
  set_weight_shards(config, outcome);
  set_formats(config, outcome);
  if (!outcome.is_given("ddp.use_distributed_optimizer"))
    ddp.use_distributed_optimizer = ddp.strategy() != ShardingStrategy::no_shard;
}

int64_t weight_shard_ranks(const RunConfig& config) {
  const int64_t shards = config.ddp.tensor_parallel_num_weight_shards.value_or(0);
  const int64_t tp = config.parallel.tensor_model_parallel_size;
  const int64_t ranks = document_ranks(config);
  if (shards == 0 || shards % tp != 0 || ranks == 0 || ranks % (shards / tp) != 0) return 0;
  return shards / tp;
}

}  // namespace viaduct
