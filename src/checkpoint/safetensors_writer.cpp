#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/save_folder.h"
#include "tensor/contiguous_runs.h"

namespace viaduct {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Divides the tensors, in order, into runs of at most `max_bytes` (or one tensor).
std::vector<std::vector<TensorInfo>> cut_into_shards(const std::vector<TensorInfo>& tensors,
                                                     int64_t max_bytes) {
  std::vector<std::vector<TensorInfo>> shards(1);
  int64_t bytes = 0;
  for (const auto& info : tensors) {
    if (!shards.back().empty() && bytes + info.bytes() > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(info);
    bytes += info.bytes();
  }
  return shards;
}

void remove_other_weights(const std::filesystem::path& folder, const std::set<std::string>& kept) {
  static const std::regex weights(R"(model(-\d{5,}-of-\d{5,})?\.safetensors(\.index\.json)?)");
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (std::regex_match(name, weights) && !kept.contains(name))
      std::filesystem::remove(file.path());
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                       GetTensor get, const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    const int64_t bytes_a = dtype_bytes(a.dtype), bytes_b = dtype_bytes(b.dtype);
    return bytes_a != bytes_b ? bytes_a > bytes_b : a.name < b.name;
  });
  OutputFile file(path);
  file.write(make_safetensors_header(tensors, metadata));
  for (const auto& info : tensors) {
    const Tensor tensor = get(info.name);
    VIADUCT_CHECK(ShapeError, tensor.dtype() == info.dtype && tensor.shape() == info.shape,
                  "{}: tensor \"{}\" is {}, but {} {} was announced", path.string(),
                  shown_name(info.name), describe(tensor), dtype_name(info.dtype),
                  to_string(info.shape));
    for_each_run(tensor, [&](const void* data, size_t bytes) { file.write(data, bytes); });
  }
  file.commit();
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors)
    infos.push_back({name, tensor.dtype(), tensor.shape()});
  write_safetensors(
      path, infos, [&](const std::string& name) { return tensors.at(name); }, metadata);
}

void write_safetensors_folder(const std::filesystem::path& folder,
                              const std::vector<TensorInfo>& tensors, GetTensor get,
                              int64_t max_shard_bytes) {
  VIADUCT_CHECK(IoError, max_shard_bytes > 0, "{}: shards of {} bytes", folder.string(),
                max_shard_bytes);
  create_folder(folder);
  const auto shards = cut_into_shards(tensors, max_shard_bytes);
  if (shards.size() == 1) {
    write_safetensors(folder / kSingle, tensors, get);
    remove_other_weights(folder, {kSingle});
    return;
  }
  std::set<std::string> written{kIndex};
  nlohmann::json weight_map = nlohmann::json::object();
  int64_t total_bytes = 0, total_elements = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_safetensors(folder / name, shards[i], get);
    written.insert(name);
    for (const auto& info : shards[i]) {
      VIADUCT_CHECK(IoError, weight_map.emplace(info.name, name).second,
                    "{}: two tensors called \"{}\"", folder.string(), shown_name(info.name));
      total_bytes += info.bytes();
      total_elements += info.shape.elements();
    }
  }
  const nlohmann::json index{
      {"metadata", {{"total_parameters", total_elements}, {"total_size", total_bytes}}},
      {"weight_map", weight_map}};
  write_file_atomically(folder / kIndex, index.dump(2) + "\n");
  remove_other_weights(folder, written);
}

}  // namespace viaduct
