#pragma once
// Safetensors files and Hugging Face folders of them, written tensor by tensor: each tensor is
// requested, written and freed before the next, so a model is never held twice.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/tensor_source.h"

namespace viaduct {

/// Returns the elements of an announced tensor: in host memory, any strides, with the announced
/// dtype and shape (ShapeError otherwise).
using GetTensor = FunctionRef<Tensor(const std::string& name)>;

/// The metadata that Hugging Face's reader expects in a file of PyTorch weights.
inline const std::map<std::string, std::string> kPyTorchMetadata{{"format", "pt"}};

/// Writes one file, whole or not at all. Tensors with larger elements come first, then by name (so
/// each is aligned, and the file depends on the set of tensors only). Calls `get` once for each, in
/// that order. IoError if the file cannot be written or two tensors share a name.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                       GetTensor get,
                       const std::map<std::string, std::string>& metadata = kPyTorchMetadata);

/// The same for tensors at hand.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata = kPyTorchMetadata);

/// 5 GB, Hugging Face's default.
inline constexpr int64_t kDefaultShardBytes = 5'000'000'000;

/// Writes the weights of a Hugging Face folder (created if needed): model.safetensors, or, if the
/// tensors exceed `max_shard_bytes`, model-00001-of-0000N.safetensors and
/// model.safetensors.index.json. Shards are filled in the given order of `tensors`; a larger tensor
/// gets its own shard. Weight files of an earlier save that are not part of the new one are removed
/// at the end.
void write_safetensors_folder(const std::filesystem::path& folder,
                              const std::vector<TensorInfo>& tensors, GetTensor get,
                              int64_t max_shard_bytes = kDefaultShardBytes);

}  // namespace viaduct
