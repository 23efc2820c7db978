#include "run/adapter_setup.h"

#include "base/error.h"
#include "checkpoint/parameter_io.h"
#include "model/adapter_base.h"
#include "model/adapter_modules.h"

namespace viaduct {

namespace {

/// What frozen weights in another format are not built for, beyond what adapters are not.
void validate_base_format(const RunConfig& config, Problems& problems) {
  const auto& format = config.peft.base_format;
  if (!format) return;
  const auto refuse = [&](bool asked, const std::string& setting, const std::string& instead) {
    if (asked)
      problems.add("peft.base_format: {} with {} is not built yet; expected {}", *format, setting,
                   instead);
  };
  refuse(config.ddp.shards_weights(),
         "ddp.data_parallel_sharding_strategy: " + config.ddp.strategy(),
         "optim or no_shard: each rank has all codes");
  refuse(precision_recipe(config.mixed_precision).products.any(),
         "mixed_precision.recipe: " + config.mixed_precision.recipe +
             ", whose products are quantized,",
         "fp32, bf16_mixed, fp16_mixed or another recipe without them");
  refuse(config.dist.device.value_or("cpu") == "cuda", "dist.device: cuda", "cpu or sim");
}

}  // namespace

void validate_adapters(const RunConfig& config, Problems& problems) {
  const PeftConfig& peft = config.peft;
  if (!peft.any()) return;
  const auto later = [&](bool asked, const std::string& setting, const std::string& instead) {
    if (asked)
      problems.add("{} with adapters (section peft) is not built yet; expected {}", setting,
                   instead);
  };
  later(config.offload.moves_weights(), "model.cpu_offloading_weights: true", "false");
  later(precision_recipe(config.mixed_precision).products.any(),
        "mixed_precision.recipe: " + config.mixed_precision.recipe + ", with quantized products,",
        "fp32, bf16_mixed, fp16_mixed or another recipe without them");
  later(config.optimizer.optimizer == "muon" && peft.lora_plus_ratio != 1,
        "peft.lora_plus_ratio with optimizer.optimizer: muon", "1");
  later(config.dist.device.value_or("cpu") == "cuda", "dist.device: cuda", "cpu or sim");
  validate_base_format(config, problems);
  if (config.optimizer.decoupled_lr &&
      *config.optimizer.decoupled_lr != peft.lora_plus_ratio * config.optimizer.lr) {
    problems.add(
        "optimizer.decoupled_lr: {}, but token table and head are frozen beside adapters; "
        "peft.lora_plus_ratio gives B a rate of its own",
        *config.optimizer.decoupled_lr);
  }
}

void resolve_adapters(RunConfig& config, const ModelConfig& model) {
  PeftConfig& peft = config.peft;
  if (!peft.any()) return;
  peft.resolved =
      peft.adapter ? open_adapter(*peft.adapter, model).settings : choose_adapters(peft, model);
  peft.resolved.base_format = base_format(peft);
  if (peft.resolved.base_format)
    check_base_format(*peft.resolved.base_format, model,
                      config.parallel.tensor_model_parallel_size);
  if (peft.scheme) peft.scheme = "lora";  // both names are of one kind
  if (peft.lora_plus_ratio == 1) return;
  config.optimizer.decoupled_lr = peft.lora_plus_ratio * config.optimizer.lr;
  if (!config.optimizer.decoupled_min_lr)
    config.optimizer.decoupled_min_lr = peft.lora_plus_ratio * config.optimizer.min_lr.value();
}

void read_run_weights(OpContext& context, ParameterStore& store, const RunSetup& setup) {
  load_parameters(context, store, *open_weights(*setup.pretrained), setup.model);
  const auto& adapter = setup.config.peft.adapter;
  if (adapter) load_adapter(context, store, *open_adapter(*adapter, setup.model).tensors);
}

std::string adapter_config_of(const RunSetup& setup) {
  return peft_config_text(setup.config.peft.resolved, setup.model,
                          setup.pretrained ? setup.pretrained->path.string() : "");
}

}  // namespace viaduct
