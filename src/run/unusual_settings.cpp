#include "run/unusual_settings.h"

#include <fmt/format.h>

#include "base/units.h"

namespace viaduct {
namespace {

/// An update of these optimizers moves each weight by about the learning rate, whatever the size of
/// its gradient.
bool steps_by_rate(OptimizerKind optimizer) {
  return optimizer == OptimizerKind::adam || optimizer == OptimizerKind::lion;
}

}  // namespace

std::vector<std::string> unusual_settings(const RunConfig& config) {
  std::vector<std::string> lines;
  if (config.train.skip_train) return lines;
  if (config.peft.any() && !config.checkpoint.pretrained_checkpoint) {
    lines.push_back(
        fmt::format("{}: the adapters are on random weights, which stay random: give the model to "
                    "fine-tune, checkpoint.pretrained_checkpoint=DIR",
                    config.peft.adapter ? "peft.adapter" : "peft.scheme"));
  }
  const OptimizerConfig& optimizer = config.optimizer;
  // Published runs have at most 0.01 with these; others multiply a gradient, or a matrix that is
  // scaled to norm 1.
  const bool by_rate = steps_by_rate(optimizer.optimizer);
  const double most = by_rate ? 0.1 : 1;
  const auto check_rate = [&](const char* name, double rate) {
    if (rate < most) return;
    lines.push_back(fmt::format(
        "{} = {}: {}; usual are {}", name, rate,
        by_rate ? fmt::format("{} moves each weight by about this much in a step, and weights "
                              "begin near {}",
                              choice_name(optimizer.optimizer),
                              config.model.init_method_std.value_or(0.02))
                : "a step this long makes most models diverge",
        by_rate ? "1e-5 to 1e-2" : "values below 1"));
  };
  check_rate("optimizer.lr", optimizer.lr);
  if (optimizer.decoupled_lr)
    check_rate(config.peft.lora_plus_ratio == 1 ? "optimizer.decoupled_lr"
                                                : "peft.lora_plus_ratio · optimizer.lr",
               *optimizer.decoupled_lr);
  if (optimizer.lr == 0) lines.push_back("optimizer.lr = 0: the weights stay what they are");
  if (optimizer.weight_decay * optimizer.lr >= 1) {
    lines.push_back(
        fmt::format("optimizer.weight_decay = {}: times optimizer.lr = {} this is {}: a step takes "
                    "away all of a weight; usual are 0 to 0.3",
                    optimizer.weight_decay, optimizer.lr, optimizer.weight_decay * optimizer.lr));
  }
  const int64_t warmup = config.scheduler.lr_warmup_iters.value_or(0);
  if (warmup > 0 && warmup >= config.train.train_iters) {
    lines.push_back(
        fmt::format("scheduler.lr_warmup_iters = {}: the run of {} ends before the learning "
                    "rate reaches optimizer.lr",
                    warmup, counted(config.train.train_iters, "step")));
  }
  return lines;
}

}  // namespace viaduct
