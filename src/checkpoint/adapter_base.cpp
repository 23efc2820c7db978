#include "checkpoint/adapter_base.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "config/choice.h"
#include "config/value.h"

namespace viaduct {
namespace {

/// Of names, formats, shapes and bytes of all tensors, in the order of names: with those for
/// images, also where the model's text half alone is used.
std::string content_hash(ModelFolder folder) {
  folder.images = ImageLayers::read;
  const auto weights = open_weights(folder);
  std::vector<TensorInfo> tensors = weights->tensors();
  std::ranges::sort(tensors, {}, &TensorInfo::name);
  Hasher64 hash;
  for (const TensorInfo& info : tensors) {
    const std::string head =
        fmt::format("{} {} {};", info.name, dtype_name(info.dtype), to_string(info.shape));
    hash.update(head.data(), head.size());
    const Tensor values = weights->tensor(info.name);
    hash.update(values.raw(), static_cast<size_t>(values.bytes()));
    weights->check_read();
  }
  return fmt::format("{:016x}", hash.digest());
}

std::string described(const nlohmann::json& base, const std::string& where) {
  const auto* seed = find_member(base, "seed");
  if (seed != nullptr) return fmt::format("random weights of rng.seed={}", seed->dump());
  return fmt::format("{}, hash {}", string_member(base, "path", where, "?"),
                     string_member(base, "hash", where, "none"));
}

}  // namespace

std::string base_text(const AdapterBase& base) {
  nlohmann::ordered_json json;
  if (base.folder) {
    json["path"] = std::filesystem::absolute(base.folder->path).string();
    json["hash"] = content_hash(*base.folder);
  } else {
    json["seed"] = base.seed;
  }
  return json.dump(2) + "\n";
}

void check_same_base(const std::string& stored, const std::string& now, const std::string& where,
                     const std::string& advice) {
  const auto then = parse_json<nlohmann::json>(stored, where);
  const auto here = parse_json<nlohmann::json>(now, "the model under the adapters");
  const auto same = [&](const char* name) {
    const auto *before = find_member(then, name), *after = find_member(here, name);
    return (before == nullptr) == (after == nullptr) && (before == nullptr || *before == *after);
  };
  VIADUCT_CHECK(ConfigError, same("hash") && same("seed"),
                "{}: its adapters were trained on {}, but the model here is {}: they belong to "
                "another model, or its weights changed{}",
                where, described(then, where), described(here, where), advice);
}

void check_adapter_bases(const std::vector<std::filesystem::path>& adapters,
                         const AdapterBase& base) {
  std::string now;
  for (const std::filesystem::path& adapter : adapters) {
    const std::filesystem::path file = adapter / kBaseFile;
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    if (now.empty()) now = base_text(base);
    constexpr size_t kLargest = size_t{1} << 20;
    check_same_base(
        read_file(file, kLargest), now, file.string(),
        "; give the model that it names, or take the adapter off its run: viaduct convert "
        "--from " +
            adapter.string() +
            " --to DIR writes a folder of PEFT, which is used on any model that it fits");
  }
}

std::optional<BaseFormat> trained_base_format(const std::filesystem::path& adapter) {
  const std::filesystem::path file = adapter / "config.yaml";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  const Value config = parse_yaml(read_file(file, kMaxYamlBytes), file.string());
  const Value* section = config.find("peft");
  const Value* said = section != nullptr ? section->find("base_format") : nullptr;
  if (said == nullptr) return std::nullopt;
  for (const BaseFormat format : {BaseFormat::nf4, BaseFormat::fp8})
    if (said->is_plain(choice_name(format))) return format;
  return std::nullopt;
}

}  // namespace viaduct
