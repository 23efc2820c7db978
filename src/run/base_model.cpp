#include "run/base_model.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/peft_folder.h"
#include "run/adapter_setup.h"

namespace viaduct {
namespace {

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

/// What to do about another base. A run without a model has most likely lost that setting.
std::string base_advice(const RunSetup& setup) {
  return fmt::format("; {}, or start anew with another checkpoint.save",
                     setup.pretrained
                         ? "put the model back"
                         : "give that model with checkpoint.pretrained_checkpoint=DIR");
}

}  // namespace

AdapterBase base_of(const RunSetup& setup) {
  return {setup.pretrained, static_cast<uint64_t>(setup.config.rng.seed)};
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
  check_same_base(read_file(where), now, where, base_advice(setup));
  if (setup.config.peft.adapter) check_adapter_folder(checkpoint, setup);
}

void check_adapter_bases_on_all(Communicator& world, const RunSetup& setup) {
  std::vector<std::filesystem::path> given;
  if (const auto& adapter = setup.config.peft.adapter) given.emplace_back(*adapter);
  for (const NamedAdapter& adapter : setup.adapters) given.push_back(adapter.folder);
  if (given.empty()) return;
  const auto check = [&] {
    if (world.rank() != 0) return;
    std::vector<std::filesystem::path> folders;
    for (const auto& adapter : given) folders.push_back(open_adapter(adapter, setup.model).folder);
    check_adapter_bases(folders, base_of(setup));
  };
  run_on_all(world, check, "comparing the model with the one that the adapter was trained on");
}

void read_checked_weights(OpContext& context, ParameterStore& store, const RunSetup& setup,
                          Communicator& world) {
  check_adapter_bases_on_all(world, setup);
  read_run_weights(context, store, setup);
}

}  // namespace viaduct
