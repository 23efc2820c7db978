#include "run/adapter_setup.h"

#include "base/error.h"
#include "checkpoint/parameter_io.h"
#include "model/adapter_modules.h"

namespace viaduct {

void validate_adapters(const RunConfig& config, Problems& problems) {
  const PeftConfig& peft = config.peft;
  if (!peft.any()) return;
  const auto later = [&](bool asked, const std::string& setting, const std::string& instead) {
    if (asked)
      problems.add("{} with adapters (section peft) is not built yet; expected {}", setting,
                   instead);
  };
  later(config.ddp.shards_gradients(),
        "ddp.data_parallel_sharding_strategy: " + config.ddp.strategy(), "optim or no_shard");
  later(config.tensor_overlap.tp_comm_overlap.value_or(false), "comm_overlap.tp_comm_overlap: true",
        "false");
  later(precision_recipe(config.mixed_precision).products.any(),
        "mixed_precision.recipe: " + config.mixed_precision.recipe + ", with quantized products,",
        "fp32, bf16_mixed, fp16_mixed or another recipe without them");
  const std::string& optimizer = config.optimizer.optimizer;
  later(optimizer == "muon" || optimizer == "adafactor", "optimizer.optimizer: " + optimizer,
        "adam, sgd or lion");
  later(config.dist.device.value_or("cpu") == "cuda", "dist.device: cuda", "cpu or sim");
  if (config.optimizer.decoupled_lr &&
      *config.optimizer.decoupled_lr != peft.lora_plus_ratio * config.optimizer.lr) {
    problems.add(
        "optimizer.decoupled_lr: {}, but beside adapters it is the rate of B, which "
        "peft.lora_plus_ratio sets; token table and head have optimizer.lr",
        *config.optimizer.decoupled_lr);
  }
}

void resolve_adapters(RunConfig& config, const ModelConfig& model) {
  PeftConfig& peft = config.peft;
  if (!peft.any()) return;
  peft.resolved =
      peft.adapter ? open_adapter(*peft.adapter, model).settings : choose_adapters(peft, model);
  const std::string scheme = peft.resolved.magnitudes ? "dora" : "lora";
  if (peft.scheme) {
    const bool asks_magnitudes = *peft.scheme == "dora";
    VIADUCT_CHECK(ConfigError, asks_magnitudes == peft.resolved.magnitudes,
                  "peft.scheme: {}, but the adapter of {} is {}; leave peft.scheme out, or begin "
                  "without peft.adapter",
                  *peft.scheme, *peft.adapter, scheme);
    peft.scheme = scheme;  // lora has two names
  }
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
