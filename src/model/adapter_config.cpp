#include "model/adapter_config.h"

namespace viaduct {
namespace {

constexpr std::string_view kAdapterScale = "the adapters were trained with the old scale";

}  // namespace

FieldGroup peft_fields(PeftConfig& config) {
  FieldGroup group("peft", "Fine-tuning with adapters: the model's own weights are frozen.");
  const auto from_files = [&config] { return config.adapter.has_value(); };
  group
      .field("scheme", config.scheme,
             "Kind of adapter: lora adds s · B · A to the weights of linear layers, and trains A "
             "and B alone (canonical_lora, Megatron-Bridge's name of adapters that q, k, v have "
             "each, is the same); dora gives each row of the sum a trained norm; null: all weights "
             "are trained.")
      .on_resume(resume::refused("the checkpoint's adapters are of the old kind"));
  group
      .field("adapter", config.adapter,
             "Folder of an adapter, as PEFT writes it or of a run with adapters: training "
             "continues it, and its own file says rank, alpha and layers.")
      .on_resume(resume::free);  // where the run began; its own adapters are in its checkpoints
  group
      .field("target_modules", config.target_modules,
             "Linear layers with an adapter: names of modules or their last parts, with "
             "wildcards; linear_qkv, linear_proj, linear_fc1, linear_fc2; all-linear; mtp for the "
             "layers of multi-token prediction, which the others leave out.")
      .constraint("each matches a layer")
      .on_resume(resume::other_shapes)
      .idle(from_files, kSaidByAdapter);
  group
      .field("exclude_modules", config.exclude_modules,
             "Linear layers without one; names as in target_modules.")
      .constraint("each matches a layer")
      .on_resume(resume::other_shapes)
      .idle(from_files, kSaidByAdapter);
  group.field("dim", config.dim, "Rank r of an adapter.")
      .range(1)
      .alias("r")
      .on_resume(resume::other_shapes)
      .idle(from_files, kSaidByAdapter);
  group.field("alpha", config.alpha, "An adapter's part of the weight is scaled by alpha / dim.")
      .positive()
      .alias("lora_alpha")
      .on_resume(resume::refused(kAdapterScale))
      .idle(from_files, kSaidByAdapter);
  group.field("rslora", config.rslora, "It is scaled by alpha / √dim instead (rank-stabilized).")
      .alias("use_rslora")
      .on_resume(resume::refused(kAdapterScale))
      .idle(from_files, kSaidByAdapter);
  group
      .field("rank_pattern", config.rank_pattern,
             "Ranks of single layers: a regular expression for the end of a module's name, and "
             "the rank; the first that matches counts.")
      .constraint("whole numbers of at least 1")
      .on_resume(resume::other_shapes)
      .idle(from_files, kSaidByAdapter);
  group.field("alpha_pattern", config.alpha_pattern, "The same of alpha.")
      .constraint("positive numbers")
      .on_resume(resume::refused(kAdapterScale))
      .idle(from_files, kSaidByAdapter);
  group
      .field("lora_A_init_method", config.lora_A_init_method,
             "How A begins: kaiming, uniform within 1/√in; xavier, normal of variance "
             "2 / (in + r); normal, of standard deviation 1/r. B begins with zeros.")
      .on_resume(resume::said("it has no effect: the checkpoint's adapters have begun"))
      .idle(from_files, kSaidByAdapter);
  group
      .field("lora_plus_ratio", config.lora_plus_ratio,
             "Learning rate of B, and of dora's norms, over that of A (LoRA+).")
      .positive()
      .on_resume(resume::free);
  group
      .field(
          "dropout", config.dropout,
          "Dropout of adapters, in training: by default on their input, and layers that share it "
          "(q, k, v; the experts of a token) share what is dropped.")
      .alias("lora_dropout")
      .from_below(0, 1)
      .on_resume(resume::said("dropout has this rate from here on"))
      .idle(from_files, kSaidByAdapter);
  group
      .field("train", config.train,
             "Modules of the model itself that train as well, PEFT's modules_to_save: norms, token "
             "and position table, head; names as in target_modules.")
      .alias("modules_to_save")
      .constraint("each matches a module")
      .on_resume(resume::other_shapes)
      .idle(from_files, kSaidByAdapter);
  group
      .field("dropout_position", config.dropout_position,
             "Where that dropout is: pre, on what adapters read; post, on what they add "
             "(Megatron-Bridge's; PEFT has pre alone).")
      .on_resume(resume::said("dropout is there from here on"))
      .idle([&config] { return config.resolved.dropout == 0; },
            "nothing is dropped (peft.dropout: 0)");
  constexpr const char* kLater = "further kinds of adapters";
  group.field("lora_B_init_method", config.lora_B_init_method, "How B begins.")
      .accepts({"zero"})  // as it does
      .planned(kLater);
  group
      .field(
          "base_format", config.base_format,
          "How the frozen linear layers of the blocks are stored: bf16, fp8 (blocks of 128), nf4 "
          "(QLoRA: 4 bits with double quantization), blocks (as a GGUF file has them: Q8_0, Q4_K, "
          "…); null: in the format of the recipe, and of a run that trains on a GGUF file blocks.")
      .on_resume(resume::said("the frozen weights are rounded otherwise from here on"));
  return group;
}

}  // namespace viaduct
