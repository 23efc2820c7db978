#pragma once
// Adapters of experts in PEFT's files. With transformers 5 the experts of a layer are two
// parameters, gate and up of all of them and down of all of them, which PEFT adapts by
// `target_parameters`: with both, "….experts.base_layer.lora_A" and "….lora_B" are those of gate
// and up and "….experts.lora_A" and "….lora_B" those of down; with one of them the latter are its.
// Of E experts A is [E · r, in] with row e · r + j, and B [out, r · E] with column j · E + e (the
// expert runs fastest). The names are those of transformers' modules: "mlp.experts" also where the
// model's folder has "block_sparse_moe.experts".
//
// Here each expert has tensors of its own, A [r, in] and B [out, r], under the folder's names:
// those that PEFT wrote with transformers 4. Gate and up with one A are a module of their own
// (model/expert_adapters.h).

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/tensor_source.h"
#include "model/model_config.h"
#include "nn/adapter_settings.h"

namespace viaduct {

/// An adapter's tensors, of each expert.
struct SplitExperts {
  std::unique_ptr<TensorSource> tensors;
  /// By module, the parameter that PEFT adapts ("model.layers.0.mlp.experts.down_proj"), where the
  /// file has one for all experts.
  std::map<std::string, std::string> parameters;
};

/// `targets`: PEFT's target_parameters. IoError for tensors of experts that do not fit the model,
/// and for those of these parameters that are missing.
SplitExperts split_expert_adapter(std::unique_ptr<TensorSource> stored,
                                  const std::vector<std::string>& targets,
                                  const ModelConfig& model);

/// The inverse.
struct FusedExperts {
  std::map<std::string, Tensor> tensors;           // f32, by PEFT's names
  std::map<std::string, AdapterShape> parameters;  // by the names of what PEFT adapts
};

/// Why PEFT cannot hold the adapters of experts together: gate without up, or with another rank or
/// alpha, or experts of a layer that differ; "" if it can.
std::string experts_apart(const AdapterSettings& settings, const ModelConfig& model);

/// Where gate and up of experts have adapters of their own, they become one of twice the rank and
/// twice alpha (the scale stays) with a block-diagonal B. `read`: the tensor of a name; undefined
/// ones are left out. ConfigError for experts that are apart.
FusedExperts fuse_expert_adapters(const AdapterSettings& settings, const ModelConfig& model,
                                  FunctionRef<Tensor(const std::string&)> read);

}  // namespace viaduct
