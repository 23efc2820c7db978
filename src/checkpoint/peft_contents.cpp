#include "checkpoint/peft_contents.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/round_tensor.h"
#include "model/adapter_trained.h"
#include "model/family.h"

namespace viaduct {
namespace {

/// The module of a tensor's name, and which of its tensors that is; nothing for other names.
std::optional<std::pair<std::string, const TensorInfo * PeftFactors::*>> module_of(
    const std::string& name) {
  const std::string_view prefix = kAdapterPrefix;
  if (!name.starts_with(prefix)) return std::nullopt;
  for (const auto& [suffix, factor] :
       {std::pair(std::string_view(kAdapterA), &PeftFactors::a),
        std::pair(std::string_view(kAdapterB), &PeftFactors::b),
        std::pair(std::string_view(kAdapterMagnitude), &PeftFactors::m)}) {
    if (name.ends_with(suffix) && name.size() > prefix.size() + suffix.size())
      return std::pair(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()),
                       factor);
  }
  return std::nullopt;
}

/// The table or head that target_modules names, whose adapter is not built; "" if it names none.
std::string targeted_table(const PeftSettings& settings, const TensorNames& names) {
  for (const std::string& part : settings.targets.modules.parts)
    for (const std::string& table : {names.token_embedding, names.position_embedding, names.head})
      if (!table.empty() && (table == part || table.ends_with("." + part))) return part;
  return "";
}

void refuse_tensor(const TensorInfo& info, const PeftSettings& settings, const ModelConfig& model,
                   const std::string& where) {
  const TensorNames& names = model_family(model.family).names;
  std::string module = module_of_parameter(without_adapter_prefix(info.name));
  constexpr std::string_view kBase = ".base_layer";
  if (module.ends_with(kBase)) module.resize(module.size() - kBase.size());
  // PEFT writes tables and heads as well where one of them has an adapter.
  const bool of_table =
      module == names.token_embedding || module == names.position_embedding || module == names.head;
  if (const std::string table = targeted_table(settings, names); of_table && !table.empty()) {
    fail<ConfigError>(
        "{}: target_modules has {}: adapters of embeddings and heads are not supported; expected "
        "it in modules_to_save, which trains it whole",
        where, shown_name(table));
  }
  for (const std::string& end : settings.saved) {
    if (!is_saved_as(module, end)) continue;
    VIADUCT_CHECK(ConfigError, module != names.head || !model.tied_embeddings,
                  "{}: modules_to_save has {}, which is the token table in this model (tied): PEFT "
                  "trained a copy apart from it, which such a model cannot hold; train with "
                  "ensure_weight_tying=True",
                  where, shown_name(end));
    fail<ConfigError>(
        "{}: modules_to_save has {}: {} trained whole, which is not supported: beside adapters "
        "that can norms, token and position table, and the head",
        where, shown_name(end), shown_name(module));
  }
  const char* what = info.name.find("lora_embedding_") != std::string::npos
                         ? "the adapter of an embedding, which is not built yet"
                         : "nothing that adapter_config.json explains";
  fail<IoError>("{}: {} ({} {}) is {}", where, shown_name(info.name), dtype_name(info.dtype),
                to_string(info.shape), what);
}

/// Whether `settings` says that a module was saved whole; a tied table also as the head.
bool says_saved(const std::string& module, const PeftSettings& settings, const ModelConfig& model) {
  const std::string& head = model_family(model.family).names.head;
  const bool shared = settings.ties_saved && is_tied_table(model, module);
  return std::ranges::any_of(settings.saved, [&](const std::string& end) {
    return is_saved_as(module, end) || (shared && head.ends_with(end));
  });
}

/// The module of a tensor that `settings` says was saved whole; "" for others.
std::string saved_module(const std::string& tensor, const PeftSettings& settings,
                         const std::vector<std::string>& trainable, const ModelConfig& model) {
  const std::string name = without_adapter_prefix(tensor);
  if (name == tensor) return "";
  const std::string module = module_of_parameter(name);
  const bool said = says_saved(module, settings, model);
  return said && std::ranges::find(trainable, module) != trainable.end() ? module : "";
}

/// The tensors of PEFT's files that are the token table: its own first.
std::vector<std::string> table_tensors(const ModelConfig& model) {
  std::vector<std::string> modules = table_copies(model);
  modules.insert(modules.begin(), model_family(model.family).names.token_embedding);
  for (std::string& module : modules) module = kAdapterPrefix + module + ".weight";
  return modules;
}

/// Whether `settings` explains `tensor`, a further one of the token table.
bool is_table_copy(const std::string& tensor, const PeftSettings& settings,
                   const ModelConfig& model) {
  const std::vector<std::string> tables = table_tensors(model);
  if (std::find(tables.begin() + 1, tables.end(), tensor) == tables.end()) return false;
  const std::string module = module_of_parameter(without_adapter_prefix(tensor));
  if (!model.encoder.any()) return settings.ties_saved;
  return std::ranges::any_of(settings.saved,
                             [&](const auto& end) { return is_saved_as(module, end); });
}

/// How a model whose stacks read modules of their own trains its table.
std::string shared_table_advice(const ModelConfig& model) {
  return fmt::format(
      "; no setting of PEFT trains them as one: viaduct train peft.train=[{}] does, and viaduct "
      "convert --from RUN writes equal copies",
      model_family(model.family).names.token_embedding);
}

/// The stacks of an encoder-decoder read modules of their own, which PEFT trains one by one.
void check_all_tables(const TensorSource& source, const ModelConfig& model) {
  std::vector<std::string> missing, found;
  for (const std::string& tensor : table_tensors(model))
    (source.contains(tensor) ? found : missing).push_back(tensor);
  VIADUCT_CHECK(ConfigError, missing.empty() || found.empty(),
                "{}: has {} and not {}: PEFT's model has the token table in each of these modules, "
                "and this one has one table for all; expected equal tensors of all{}",
                source.where(), fmt::join(found, ", "), fmt::join(missing, ", "),
                shared_table_advice(model));
}

/// PEFT trains a saved token table and the head that shares it as one only if its file has both.
void check_tied_head(const TensorSource& source, const std::string& table, bool ties_saved,
                     const ModelConfig& model) {
  const std::string head = kAdapterPrefix + model_family(model.family).names.head + ".weight";
  VIADUCT_CHECK(ConfigError, ties_saved && source.contains(head),
                "{}: modules_to_save has {}, which the model's head shares, and not the head ({}): "
                "PEFT trained one of them apart from the other, which such a model cannot hold; "
                "train with ensure_weight_tying=True{}",
                source.where(), table, head,
                table.ends_with("embed_tokens") ? "" : " and modules_to_save=[\"lm_head\"]");
}

void check_equal_tables(const TensorSource& source, const ModelConfig& model) {
  const std::vector<std::string> tables = table_tensors(model);
  if (tables.size() == 1) return;
  const Tensor one = in_fp32(source.tensor(tables.front()));
  for (size_t i = 1; i < tables.size(); ++i) {
    const Tensor other = in_fp32(source.tensor(tables[i]));
    const bool same =
        one.shape() == other.shape() &&
        std::equal(one.data<float>(), one.data<float>() + one.elements(), other.data<float>());
    VIADUCT_CHECK(ConfigError, same,
                  "{}: {} and {} differ, but the model has one tensor for both{}: PEFT trained "
                  "them apart{}",
                  source.where(), tables.front(), tables[i], model.tied_embeddings ? " (tied)" : "",
                  model.encoder.any() ? shared_table_advice(model) : "");
  }
}

/// Of a folder of PEFT whose tensors are all explained.
void check_tables(const TensorSource& source, const PeftContents& contents, bool ties_saved,
                  const ModelConfig& model) {
  const std::string& table = model_family(model.family).names.token_embedding;
  if (model.encoder.any()) check_all_tables(source, model);
  if (!contents.trained.contains(table)) return;
  if (!model.encoder.any() && model.tied_embeddings)
    check_tied_head(source, table, ties_saved, model);
  check_equal_tables(source, model);
}

}  // namespace

bool is_saved_as(const std::string& module, const std::string& end) {
  if (module.ends_with(end) || module.starts_with(end + ".")) return true;
  return module.find("." + end + ".") != std::string::npos;
}

PeftContents peft_contents(const TensorSource& source, const PeftSettings& settings,
                           const ModelConfig& model, bool of_run) {
  const std::vector<std::string> trainable =
      settings.saved.empty() ? std::vector<std::string>() : trainable_modules(model);
  const std::string head = model_family(model.family).names.head;
  PeftContents contents;
  std::vector<std::string> copies;
  for (const TensorInfo& info : source.tensors()) {
    if (const auto module = module_of(info.name)) {
      contents.adapters[module->first].*(module->second) = &info;
      continue;
    }
    const std::string module = saved_module(info.name, settings, trainable, model);
    const bool copy = is_table_copy(info.name, settings, model);
    if (module.empty() && !copy) refuse_tensor(info, settings, model, source.where());
    if (!module.empty()) contents.trained.insert(module);
    if (copy) copies.push_back(module_of_parameter(without_adapter_prefix(info.name)));
  }
  VIADUCT_CHECK(IoError, !contents.adapters.empty(),
                "{}: holds no adapter: it has no tensors of one", source.where());
  // A checkpoint of a run has the table alone.
  if (!of_run) check_tables(source, contents, settings.ties_saved, model);
  for (const std::string& end : settings.saved) {
    const auto is_it = [&](const std::string& module) { return is_saved_as(module, end); };
    const bool there =
        std::ranges::any_of(contents.trained, is_it) || std::ranges::any_of(copies, is_it);
    VIADUCT_CHECK(IoError,
                  there || (model.tied_embeddings && settings.ties_saved && head.ends_with(end)),
                  "{}: has no tensor of {}, which adapter_config.json has in modules_to_save",
                  source.where(), shown_name(end));
  }
  return contents;
}

int64_t rank_of(const std::string& name, const PeftFactors& factors, const AdaptableModule& module,
                bool magnitudes, const std::string& where) {
  VIADUCT_CHECK(IoError, magnitudes || factors.m == nullptr,
                "{}: {} has the magnitudes of DoRA, but adapter_config.json has no use_dora", where,
                shown_name(name));
  VIADUCT_CHECK(
      IoError,
      !magnitudes || (factors.m->shape == Shape{module.out} && is_floating(factors.m->dtype)),
      "{}: the magnitudes of {} are {} {}, but the model's weight has {} rows: it is of "
      "another model",
      where, shown_name(name), dtype_name(factors.m->dtype), to_string(factors.m->shape),
      module.out);
  const Shape &a = factors.a->shape, &b = factors.b->shape;
  const int64_t rank = a.rank() == 2 ? a[0] : 0;
  const bool fits = rank > 0 && a == Shape{rank, module.in} && b == Shape{module.out, rank} &&
                    is_floating(factors.a->dtype) && is_floating(factors.b->dtype);
  VIADUCT_CHECK(IoError, fits,
                "{}: the adapter of {} is {} {} and {} {}, but the model's weight is [{}, {}]: "
                "expected floating [r, {}] and [{}, r]: it is of another model",
                where, shown_name(name), dtype_name(factors.a->dtype), to_string(a),
                dtype_name(factors.b->dtype), to_string(b), module.out, module.in, module.in,
                module.out);
  return rank;
}

}  // namespace viaduct
