#include "config/schema.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "config/foreign_words.h"
#include "config/prefixes.h"

namespace viaduct {
namespace {

constexpr size_t kLongestName = 120;  // longer than any known name: not searched for

bool starts_with_path(std::string_view path, std::string_view prefix) {
  return path.size() > prefix.size() && path.substr(0, prefix.size()) == prefix &&
         path[prefix.size()] == '.';
}

}  // namespace

Schema::Schema(std::vector<FieldGroup> groups) : groups_(std::move(groups)) {
  for (const FieldGroup& group : groups_) {
    if (std::find(sections_.begin(), sections_.end(), group.section()) == sections_.end()) {
      sections_.push_back(group.section());
    }
  }
  const auto add_name = [&](const std::string& name, const Field& field) {
    const auto [at, added] = names_.emplace(name, &field);
    VIADUCT_CHECK(
        ConfigError, added || at->second == &field,
        "the name {} is declared by {} and by {}: a built field replaces its catalogue row", name,
        at->second->full_name(), field.full_name());
  };
  for (const FieldGroup& group : groups_) {
    for (const Field& field : group.fields()) {
      add_name(field.full_name(), field);
      bare_names_[field.name].push_back(&field);
      for (const std::string& alias : field.aliases) {
        const bool dotted = alias.find('.') != std::string::npos;
        add_name(dotted ? alias : field.section + "." + alias, field);
        if (!dotted) bare_names_[alias].push_back(&field);
      }
    }
  }
}

std::string Schema::section_doc(const std::string& section) const {
  for (const FieldGroup& group : groups_) {
    if (group.section() == section && !group.doc().empty()) return group.doc();
  }
  return "";
}

const Field* Schema::find_in(const std::string& section, std::string_view name) const {
  const auto found = names_.find(fmt::format("{}.{}", section, name));
  return found == names_.end() ? nullptr : found->second;
}

const Field* Schema::find(std::string_view name) const {
  if (name.size() > kLongestName) return nullptr;
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  const SectionPrefix* best = nullptr;
  for (const SectionPrefix& prefix : section_prefixes()) {
    if (starts_with_path(name, prefix.prefix) &&
        (!best || prefix.prefix.size() > best->prefix.size())) {
      best = &prefix;
    }
  }
  if (!best) return nullptr;
  const std::string_view rest = name.substr(best->prefix.size() + 1);
  if (const Field* field = find_in(std::string(best->section), rest)) return field;
  const auto bare = bare_names_.find(rest);
  return bare != bare_names_.end() && bare->second.size() == 1 ? bare->second.front() : nullptr;
}

std::vector<const Field*> Schema::find_all(std::string_view name) const {
  if (const Field* field = find(name)) return {field};
  const auto bare = bare_names_.find(name);
  return bare == bare_names_.end() ? std::vector<const Field*>{} : bare->second;
}

std::optional<Schema::Inside> Schema::find_inside(std::string_view path) const {
  if (path.size() > kLongestName) return std::nullopt;
  std::vector<std::string> keys;
  std::string_view head = path;
  while (true) {
    if (const Field* field = find(head)) return Inside{field, {keys.rbegin(), keys.rend()}};
    const size_t dot = head.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    keys.emplace_back(head.substr(dot + 1));
    head = head.substr(0, dot);
  }
}

std::string Schema::section_of(std::string_view name) const {
  if (std::find(sections_.begin(), sections_.end(), name) != sections_.end())
    return std::string(name);
  for (const SectionPrefix& prefix : section_prefixes()) {
    if (prefix.prefix == name) return std::string(prefix.section);
  }
  return "";
}

bool Schema::is_prefix(std::string_view path) const {
  if (!section_of(path).empty()) return true;
  const auto prefixes = section_prefixes();
  if (std::any_of(prefixes.begin(), prefixes.end(), [&](const SectionPrefix& prefix) {
        return starts_with_path(prefix.prefix, path);
      })) {
    return true;
  }
  const auto next = names_.upper_bound(fmt::format("{}.", path));
  return next != names_.end() && starts_with_path(next->first, path);
}

const Field* Schema::short_form(std::string_view section) const {
  for (const FieldGroup& group : groups_) {
    if (group.section() == section && !group.short_form().empty()) {
      return find_in(group.section(), group.short_form());
    }
  }
  return nullptr;
}

const Field* Schema::only_one_with_word(const std::string& section, std::string_view word,
                                        const std::vector<std::string>& names) const {
  const Field* only = nullptr;
  for (const std::string& name : names) {
    if (fmt::format("_{}_", name).find(fmt::format("_{}_", word)) == std::string::npos) continue;
    const Field* field = find_in(section, name);
    if (only != nullptr && only != field) return nullptr;
    only = field;
  }
  return only;
}

std::optional<std::string> Schema::suggest(std::string_view path) const {
  if (path.size() > kLongestName) return std::nullopt;
  const size_t dot = path.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? path : path.substr(dot + 1);
  if (const auto bare = bare_names_.find(last); bare != bare_names_.end()) {
    return bare->second.front()->full_name();
  }
  if (const ForeignWord* word = find_foreign_word(last)) {
    if (const Field* field = find(word->field)) return field->full_name();
  }
  // First in the section of the path, then in all sections.
  const std::string section =
      dot == std::string_view::npos ? std::string() : section_of(path.substr(0, dot));
  std::vector<std::string> candidates;
  for (const auto& [name, fields] : bare_names_) {
    for (const Field* field : fields) {
      if (field->section == section) candidates.push_back(name);
    }
  }
  if (const auto near = nearest_name(last, candidates)) return find_in(section, *near)->full_name();
  if (const Field* only = only_one_with_word(section, last, candidates)) return only->full_name();
  candidates.clear();
  for (const auto& entry : names_) candidates.push_back(entry.first);
  if (section.empty()) {
    for (const std::string& known : sections_) candidates.push_back(known);
  }
  if (const auto near = nearest_name(path, candidates)) {
    const auto found = names_.find(*near);
    return found == names_.end() ? *near : found->second->full_name();
  }
  // Any section: only names long enough for likeness to be meaningful.
  constexpr size_t kShortest = 5;
  if (last.size() < kShortest) return std::nullopt;
  candidates.clear();
  for (const auto& entry : bare_names_) {
    if (entry.first.size() >= kShortest) candidates.push_back(entry.first);
  }
  if (const auto near = nearest_name(last, candidates)) {
    return bare_names_.find(*near)->second.front()->full_name();
  }
  return std::nullopt;
}

}  // namespace viaduct
