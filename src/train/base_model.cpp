#include "train/base_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "checkpoint/peft_folder.h"
#include "run/adapter_setup.h"

namespace viaduct {
namespace {

std::string content_hash(const ModelFolder& folder) {
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
  }
  weights->check_read();
  return fmt::format("{:016x}", hash.digest());
}

/// With peft.adapter rank and scale are those of its folder, which may have changed since.
void check_adapter_folder(const CheckpointReader& checkpoint, const RunSetup& setup) {
  const std::string where = (checkpoint.folder() / kAdapterConfigFile).string();
  const auto then = parse_json<nlohmann::json>(read_file(where), where);
  const auto now = parse_json<nlohmann::json>(adapter_config_of(setup), "the adapter of the run");
  for (const char* name : {"r", "lora_alpha", "use_rslora", "use_dora", "rank_pattern",
                           "alpha_pattern", "target_modules", "modules_to_save"}) {
    const auto *before = find_member(then, name), *after = find_member(now, name);
    VIADUCT_CHECK(
        ConfigError,
        (before == nullptr) == (after == nullptr) && (before == nullptr || *before == *after),
        "peft.adapter: {} of {} is {}, and was {} in {}: the adapters were trained so; "
        "put the folder back as it was, or start anew with another checkpoint.save",
        name, *setup.config.peft.adapter, after ? after->dump() : "absent",
        before ? before->dump() : "absent", checkpoint.where());
  }
}

}  // namespace

std::string base_text(const RunSetup& setup) {
  nlohmann::ordered_json json;
  if (setup.pretrained) {
    json["path"] = std::filesystem::absolute(setup.pretrained->path).string();
    json["hash"] = content_hash(*setup.pretrained);
  } else {
    json["seed"] = setup.config.rng.seed;
  }
  return json.dump(2) + "\n";
}

void check_base(const CheckpointReader& checkpoint, const RunSetup& setup, const std::string& now) {
  const bool adapted = std::ranges::any_of(checkpoint.files(),
                                           [](const StoredFile& f) { return f.name == kBaseFile; });
  const bool adapts = setup.config.peft.any();
  VIADUCT_CHECK(ConfigError, adapted == adapts,
                "{}: the checkpoint holds {}, but the run {}; start anew with another "
                "checkpoint.save",
                checkpoint.where(), adapted ? "adapters (peft.scheme)" : "all weights",
                adapts ? "trains adapters (peft.scheme)" : "trains all weights");
  if (!adapted) return;
  const std::string where = (checkpoint.folder() / kBaseFile).string();
  const auto then = parse_json<nlohmann::json>(read_file(where), where);
  const auto here = parse_json<nlohmann::json>(now, "the base of the run");
  const auto same = [&](const char* name) {
    const auto *before = find_member(then, name), *after = find_member(here, name);
    return (before == nullptr) == (after == nullptr) && (before == nullptr || *before == *after);
  };
  VIADUCT_CHECK(ConfigError, same("hash") && same("seed"),
                "checkpoint.pretrained_checkpoint: the frozen model of {} was {}, hash {}; that of "
                "this run, {}, has {}: its adapters belong to another model",
                checkpoint.where(), string_member(then, "path", where, "random"),
                string_member(then, "hash", where, "none"),
                string_member(here, "path", where, "random"),
                string_member(here, "hash", where, "none"));
  if (setup.config.peft.adapter) check_adapter_folder(checkpoint, setup);
}

}  // namespace viaduct
