#include "checkpoint/peft_missing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "model/expert_adapters.h"

namespace viaduct {
namespace {

constexpr size_t kShown = 4;

/// The parts of a name between its dots.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts{""};
  for (const char c : name) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool is_number(const std::string& part) {
  return !part.empty() &&
         std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c); });
}

/// "model.layers.#.mlp.experts.#.w1": what layers of one kind are all called.
std::string kind_of(const std::string& module) {
  std::vector<std::string> parts = parts_of(module);
  for (std::string& part : parts)
    if (is_number(part)) part = "#";
  return fmt::format("{}", fmt::join(parts, "."));
}

/// `like` with the numbers of `module`, in their order.
std::string with_numbers_of(const std::string& module, const std::string& like) {
  std::vector<std::string> numbers = parts_of(module), parts = parts_of(like);
  std::erase_if(numbers, [](const std::string& part) { return !is_number(part); });
  size_t next = 0;
  for (std::string& part : parts)
    if (is_number(part) && next < numbers.size()) part = numbers[next++];
  return fmt::format("{}", fmt::join(parts, "."));
}

/// Whether PEFT's model may have something else than a linear layer there, or it is not of the part
/// of the model that was trained: then one of the kind has to have an adapter.
bool may_be_no_layer(const AdaptableModule& module, bool experts) {
  if (module.of_images || module.named_only || is_expert_module(module.name)) return true;
  return experts && module.layer.starts_with("linear_fc");
}

}  // namespace

void fail_if_missing(const std::vector<std::string>& tensors, const std::string& where) {
  if (tensors.empty()) return;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kShown, tensors.size()); ++i)
    shown.push_back(shown_name(tensors[i]));
  const std::string rest =
      tensors.size() > kShown ? fmt::format(" and {} more", tensors.size() - kShown) : "";
  fail<IoError>(
      "{}: {}{} {} missing ({} of adapters that adapter_config.json asks for): expected the whole "
      "file, or settings that leave these layers out (target_modules, exclude_modules, "
      "layers_to_transform)",
      where, fmt::join(shown, ", "), rest, tensors.size() == 1 ? "is" : "are",
      counted(std::ssize(tensors), "tensor"));
}

void check_complete(const PeftContents& contents, const AskedAdapters& asked,
                    const std::vector<AdaptableModule>& modules, const std::string& where) {
  std::map<std::string, std::string> of_kind;  // a module with an adapter, by its kind
  for (const auto& [name, factors] : contents.adapters) of_kind.emplace(kind_of(name), name);
  std::vector<std::string> missing;
  const auto add = [&](const std::string& module, const PeftFactors& there) {
    if (there.a == nullptr) missing.push_back(kAdapterPrefix + module + kAdapterA);
    if (there.b == nullptr) missing.push_back(kAdapterPrefix + module + kAdapterB);
    if (there.m == nullptr && asked.settings.magnitudes)
      missing.push_back(kAdapterPrefix + module + kAdapterMagnitude);
  };
  for (const AdaptableModule& module : modules) {
    if (const auto found = contents.adapters.find(module.name); found != contents.adapters.end()) {
      add(module.name, found->second);
      continue;
    }
    if (asked.of_run || module.further >= 0) continue;
    const auto like = of_kind.find(kind_of(module.name));
    const bool known = like != of_kind.end();
    if (known ? asked.parameters.contains(like->second) : may_be_no_layer(module, asked.experts))
      continue;
    const std::string stored =
        known ? with_numbers_of(module.name, asked.names.of(like->second)) : module.name;
    if (asked.settings.targets.ask_for(stored, known)) add(stored, {});
  }
  fail_if_missing(missing, where);
}

}  // namespace viaduct
