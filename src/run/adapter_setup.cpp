#include "run/adapter_setup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/hub_cache.h"
#include "base/units.h"
#include "checkpoint/adapter_base.h"
#include "checkpoint/adapter_tokenizer.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/save_folder.h"
#include "config/choice.h"
#include "model/adapter_base.h"
#include "model/adapter_modules.h"
#include "model/adapter_trained.h"
#include "model/image_adapters.h"
#include "run/adapter_fields.h"
#include "run/graph_config.h"
#include "run/grown_vocabulary.h"
#include "run/rules/product_sizes.h"

namespace viaduct {
namespace {

/// Settings of adapters without adapters. A run's own config.yaml, which has every field, says
/// scheme: null and the defaults.
void refuse_without_scheme(PeftConfig peft, const ConfigOutcome& outcome, Problems& problems) {
  PeftConfig unset;
  const FieldGroup fields = peft_fields(peft), defaults = peft_fields(unset);
  for (size_t i = 0; i < fields.fields().size(); ++i) {
    const Field& field = fields.fields()[i];
    const std::string name = field.full_name();
    if (!field.current || !outcome.is_given(name) || name == "peft.scheme") continue;
    const bool is_default = same_value(field.current(), defaults.fields()[i].default_value);
    if (is_default && outcome.is_given("peft.scheme")) continue;
    problems.add(
        "{}: {}, but peft.scheme is null, which trains all weights; expected peft.scheme=lora (or "
        "peft.adapter=DIR), or no setting of section peft",
        name, to_flow_yaml(field.current()));
  }
}

/// Where dropout is, which no file of an adapter says.
void take_dropout_position(RunConfig& config) {
  const PeftConfig& peft = config.peft;
  AdapterSettings& adapters = config.peft.resolved;
  adapters.dropout_after = peft.dropout_position == DropoutPosition::post;
  if (adapters.dropout == 0) return;
  VIADUCT_CHECK(ConfigError, !adapters.dropout_after || !adapters.magnitudes,
                "peft.dropout_position: post with dora, whose norms are those of the whole sum; "
                "expected pre, or peft.scheme=lora");
}

/// The types of the matrices that a GGUF file stores in blocks; nothing of other models.
BlockTypes block_types(const std::optional<std::string>& pretrained) {
  BlockTypes types;
  if (!pretrained) return types;
  const ModelFolder folder = resolve_model_folder(*pretrained);
  if (folder.kind != ModelFolderKind::gguf) return types;
  const auto weights = open_weights(folder);
  for (const TensorInfo& info : weights->tensors())
    if (const auto type = weights->block_type(info.name)) types.emplace(info.name, *type);
  return types;
}

/// "Q4_K, Q6_K".
std::string types_text(const BlockTypes& types) {
  std::set<std::string_view> names;
  for (const auto& [tensor, type] : types) names.insert(gguf_type_name(type));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// peft.base_format, and what its absence means: a run that trains leaves the blocks of a GGUF file
/// as they are, where that can be; forwards alone are faster on the recipe's format.
void take_base_format(RunConfig& config, const ModelConfig& model,
                      std::vector<std::string>& notes) {
  AdapterSettings& adapters = config.peft.resolved;
  adapters.base_format = config.peft.base_format;
  const int ranks = config.parallel.tensor_model_parallel_size;
  const bool asks = adapters.base_format == BaseFormat::blocks;
  if (adapters.base_format && !asks)
    return check_base_format(*adapters.base_format, model, ranks, {},
                             config.parallel.expert_tensor());
  if (!asks && config.train.skip_train) return;
  const auto& pretrained = config.checkpoint.pretrained_checkpoint;
  BlockTypes types = block_types(pretrained);
  if (types.empty()) {
    VIADUCT_CHECK(ConfigError, !asks,
                  "peft.base_format: blocks are those of a quantized GGUF file, and {} has none; "
                  "expected bf16, fp8, nf4 or null",
                  pretrained ? *pretrained : std::string("a model without a folder"));
    return;
  }
  std::string problem = base_format_problem(BaseFormat::blocks, model, ranks, types);
  if (config.ddp.shards_weights())
    problem = fmt::format(
        "ddp.data_parallel_sharding_strategy: {} cuts weights, and each rank has all of its blocks",
        choice_name(config.ddp.strategy()));
  const Scaling products = precision_recipe(config.mixed_precision).products.scaling;
  if (products != Scaling::none)
    problem = "the recipe has " + std::string(product_format_name(products)) +
              " products, which read weights that are quantized once";
  if (launches_kernels(config)) problem = "no kernel of GPUs expands them";
  VIADUCT_CHECK(ConfigError, problem.empty() || !asks, "{}", problem);
  if (!problem.empty()) {
    notes.push_back(fmt::format(
        "the frozen weights are expanded to the recipe's format and do not stay in the blocks of "
        "{}: {}",
        *pretrained, problem));
    return;
  }
  notes.push_back(fmt::format("the frozen linear layers stay in the blocks of {} ({})", *pretrained,
                              types_text(types)));
  adapters.base_format = BaseFormat::blocks;
  adapters.blocks = std::move(types);
}

/// What a run with adapters does with the layers of multi-token prediction.
std::string further_layers(const RunConfig& config, const ModelConfig& model) {
  int64_t adapted = 0;
  for (const AdaptableModule& module : adaptable_modules(model))
    adapted += module.further >= 0 && config.peft.resolved.of(module.name) != nullptr ? 1 : 0;
  if (adapted > 0)
    return fmt::format(
        "the layers of multi-token prediction have adapters on {}; models of transformers, and so "
        "PEFT, have none of these layers and leave them out",
        counted(adapted, "matrix", "matrices"));
  return "layers of multi-token prediction are frozen and have no adapters (peft.target_modules "
         "with mtp gives them some); their losses train those of the model's blocks "
         "(model.mtp_num_layers=null leaves them out)";
}

/// Where the files of peft.adapter are read: its folder, or where that is gone the step that the
/// run resumes from. Nothing without peft.adapter.
std::optional<std::filesystem::path> adapter_place(const RunConfig& config) {
  if (!config.peft.adapter) return std::nullopt;
  const std::filesystem::path given = *config.peft.adapter;
  const CheckpointConfig& checkpoint = config.checkpoint;
  const std::optional<std::string> load = checkpoint.load.value_or(checkpoint.save);
  if (find_model(given) || !load || !has_latest(*load)) return given;
  const auto& step = checkpoint.ckpt_step;
  std::filesystem::path own =
      std::filesystem::path(*load) / step_folder_name(step.value_or(latest_step(*load)));
  return holds_adapter(own) ? own : given;
}

/// The adapter that peft.adapter names. A run that resumes has its own copy of what its files say.
PeftAdapter named_adapter(const RunConfig& config, const ModelConfig& model,
                          std::vector<std::string>& notes) {
  const std::filesystem::path given = *config.peft.adapter, own = *adapter_place(config);
  if (own == given) return open_adapter(given, model);
  notes.push_back(
      fmt::format("peft.adapter: {} is gone; rank, alpha and layers are those of {}, which the run "
                  "resumes from",
                  given.string(), own.string()));
  return open_adapter(own, model);
}

}  // namespace

void note_trained_format(const std::filesystem::path& adapter, const AdapterSettings& adapters,
                         std::vector<std::string>& notes) {
  const auto then = trained_base_format(adapter_folder(adapter));
  if (!then || adapters.base_format == then) return;
  notes.push_back(
      fmt::format("{}: the adapter was trained beside frozen weights in {}, and they are in {} "
                  "here; peft.base_format={} gives it those that it knows",
                  adapter.string(), choice_name(*then),
                  choice_name_or(adapters.base_format, "the recipe's format"), choice_name(*then)));
}

bool take_adapter_tokenizer(RunSetup& setup) {
  const auto adapter = adapter_place(setup.config);
  if (!adapter || !setup.pretrained) return false;
  const auto own = tokenizer_of_adapter(*adapter, setup.pretrained->path);
  if (!own) return false;
  setup.tokenizer_folder = own->folder;
  setup.tokenizer_files = own->files(read_config_text(*setup.pretrained));
  setup.tokenizer.emplace(load_tokenizer(setup.tokenizer_files));
  setup.notes.push_back(
      fmt::format("tokenizer and chat template are those of the adapter, {}, which differ from "
                  "those of {} (tokenizer.tokenizer_model={} takes the model's)",
                  own->text(), setup.pretrained->path.string(), setup.pretrained->path.string()));
  return true;
}

void validate_adapters(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems) {
  const PeftConfig& peft = config.peft;
  if (!peft.any()) return refuse_without_scheme(peft, outcome, problems);
  const auto later = [&](bool asked, const std::string& setting, const std::string& instead) {
    if (asked)
      problems.add("{} with adapters (section peft) is not built yet; expected {}", setting,
                   instead);
  };
  later(config.offload.moves_weights(), "model.cpu_offloading_weights: true", "false");
  const PrecisionRecipe recipe = precision_recipe(config.mixed_precision);
  const std::string products(product_format_name(recipe.products.scaling));
  // Frozen weights have no masters that codes could be written from.
  later(recipe.stores_codes,
        recipe.products.scaling == Scaling::nvfp4 ? "mixed_precision.fp4_param_gather: true"
                                                  : "mixed_precision.fp8_param_gather: true",
        "false: frozen weights are quantized once, beside those in 16 bits");
  later(recipe.products.attended, "mixed_precision.fp8_multi_head_attention: true",
        "false: an adapter of the projection reads attention's output in 16 bits");
  later(peft.base_format && recipe.products.any(),
        fmt::format("peft.base_format: {}, beside {} products (mixed_precision),",
                    choice_name_or(peft.base_format, "null"), products),
        "null, or a recipe without quantized products");
  later(config.optimizer.optimizer == OptimizerKind::muon && peft.lora_plus_ratio != 1,
        "peft.lora_plus_ratio with optimizer.optimizer: muon", "1");
  const bool expands =
      peft.base_format == BaseFormat::nf4 || peft.base_format == BaseFormat::blocks;
  later(expands && launches_kernels(config),
        fmt::format(
            "peft.base_format: {}, on GPUs ({})", choice_name_or(peft.base_format, "null"),
            config.dist.on_cuda() ? "dist.device: cuda" : "the target of this plan or dry run"),
        "bf16, fp8 or null: no kernel expands its codes");
  later(peft.base_format && config.ddp.shards_weights(),
        fmt::format("ddp.data_parallel_sharding_strategy: {} and peft.base_format",
                    choice_name(config.ddp.strategy())),
        "no_shard, optim or optim_grads: each rank has all codes");
  if (config.optimizer.decoupled_lr &&
      *config.optimizer.decoupled_lr != peft.lora_plus_ratio * config.optimizer.lr) {
    problems.add(
        "optimizer.decoupled_lr: {}, but beside adapters it is the rate of B, which "
        "peft.lora_plus_ratio sets; token table and head have optimizer.lr",
        *config.optimizer.decoupled_lr);
  }
}

std::vector<std::string> resolve_adapters(RunConfig& config, ModelConfig& model) {
  PeftConfig& peft = config.peft;
  std::vector<std::string> notes;
  if (!peft.any()) return notes;
  if (peft.adapts())
    peft.resolved =
        peft.adapter ? named_adapter(config, model, notes).settings : choose_adapters(peft, model);
  if (std::string frozen = frozen_matches(peft.train, model, peft.resolved); !frozen.empty())
    notes.push_back(std::move(frozen));
  freeze_images(peft.resolved, model.vision);
  take_dropout_position(config);
  if (model.mtp_layers > 0 && !config.train.skip_train)
    notes.push_back(further_layers(config, model));
  take_base_format(config, model, notes);
  if (peft.adapter) note_trained_format(*adapter_place(config), peft.resolved, notes);
  const AdapterScheme scheme = peft.resolved.magnitudes ? AdapterScheme::dora : AdapterScheme::lora;
  if (peft.scheme) {
    const bool asks_magnitudes = *peft.scheme == AdapterScheme::dora;
    VIADUCT_CHECK(ConfigError, asks_magnitudes == peft.resolved.magnitudes,
                  "peft.scheme: {}, but the adapter of {} is {}; leave peft.scheme out, or begin "
                  "without peft.adapter",
                  choice_name(*peft.scheme), *peft.adapter, choice_name(scheme));
    peft.scheme = scheme;  // lora has two names
  }
  if (peft.adapter) take_adapter_fields(peft, model);
  if (peft.lora_plus_ratio == 1) return notes;
  config.optimizer.decoupled_lr = peft.lora_plus_ratio * config.optimizer.lr;
  if (!config.optimizer.decoupled_min_lr)
    config.optimizer.decoupled_min_lr = peft.lora_plus_ratio * config.optimizer.min_lr.value();
  return notes;
}

void read_run_weights(OpContext& context, ParameterStore& store, const RunSetup& setup) {
  load_parameters(context, store, *open_pretrained(setup), setup.model);
  const auto& adapter = setup.config.peft.adapter;
  if (adapter) load_adapter(context, store, *open_adapter(*adapter, setup.model).tensors);
}

void read_adapter_weights(OpContext& context, ParameterStore& store, const RunSetup& setup,
                          const NamedAdapter& adapter) {
  load_parameters(context, store, *open_pretrained(setup), setup.model);
  load_adapter(context, store, *open_adapter(adapter.folder, setup.model).tensors);
}

std::string adapter_config_of(const RunSetup& setup) {
  std::string base;
  if (setup.pretrained) {
    // PEFT takes a name of the Hub as well, on any machine.
    base = hub_repository(setup.pretrained->path);
    // The folder that a command runs in is another one later.
    if (base.empty())
      base = std::filesystem::absolute(setup.pretrained->path).lexically_normal().string();
  }
  return peft_config_text(setup.config.peft.resolved, setup.model, base);
}

}  // namespace viaduct
