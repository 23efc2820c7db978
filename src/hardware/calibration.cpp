// Reads and checks calibration tables.

#include "hardware/calibration.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "config/convert.h"
#include "config/problems.h"
#include "hardware/calibration_rows.h"

namespace viaduct {
namespace {

using namespace calibration;

std::string joined(Names names) {
  std::string text;
  for (std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

/// "table.yaml:12: ".
std::string place(const Value& value) {
  const std::string text = value.source.text();
  return text.empty() ? text : text + ": ";
}

/// Reads the fields of one row; adds errors to the list of problems.
class RowReader {
 public:
  RowReader(Problems& problems, const Value& value, std::string where)
      : problems_(problems), value_(value), where_(std::move(where)) {}

  void operator()(std::string_view name, std::string& target, Role role, Names allowed) {
    const Value* value = find(name, role);
    if (value == nullptr) return;
    if (!read_value(*value, target) || target.empty()) return wrong(*value, name, "text");
    const bool known = std::find(allowed.begin(), allowed.end(), target) != allowed.end();
    if (allowed.size() > 0 && !known) return wrong(*value, name, "one of " + joined(allowed));
    add_key(role, target);
  }
  void operator()(std::string_view name, int64_t& target, Role role) {
    const Value* value = find(name);
    if (value == nullptr) return;
    if (!read_value(*value, target) || target < 1)
      return wrong(*value, name, "a whole number of at least 1");
    add_key(role, fmt::format("{} {}", name, target));
  }
  void operator()(std::string_view name, double& target, Role) {
    const Value* value = find(name);
    if (value == nullptr) return;
    if (!read_value(*value, target) || !std::isfinite(target) || target <= 0)
      wrong(*value, name, "a number above 0");
  }

  /// After all fields: reports unknown ones. Returns the row's key as text, "" if the row is
  /// incomplete.
  std::string finish() {
    if (!value_.is_map()) {
      problems_.add("{}{}: expected a map of fields, found {}", place(value_), where_,
                    to_flow_yaml(value_));
      return "";
    }
    for (const auto& [name, value] : value_.entries) {
      if (std::find(names_.begin(), names_.end(), name) != names_.end()) continue;
      const auto near = nearest_name(name, names_);
      problems_.add("{}{}: there is no field {}{}", place(value), where_, name,
                    near ? "; did you mean " + *near + "?" : "");
    }
    return complete_ ? key_ : "";
  }

 private:
  const Value* find(std::string_view name, Role role = Role::measured) {
    names_.emplace_back(name);
    const Value* value = value_.is_map() ? value_.find(name) : nullptr;
    if (value != nullptr || role == Role::optional) return value;
    complete_ = false;
    if (value_.is_map()) problems_.add("{}{}: {} is missing", place(value_), where_, name);
    return nullptr;
  }
  void wrong(const Value& value, std::string_view name, const std::string& expected) {
    complete_ = false;
    problems_.add("{}{}.{}: expected {}, found {}", place(value), where_, name, expected,
                  to_flow_yaml(value));
  }
  void add_key(Role role, const std::string& text) {
    if (role != Role::key) return;
    if (!key_.empty()) key_ += ", ";
    key_ += text;
  }

  Problems& problems_;
  const Value& value_;
  std::string where_, key_;
  std::vector<std::string> names_;
  bool complete_ = true;
};

class SectionReader {
 public:
  SectionReader(Problems& problems, const Value& document, std::string origin)
      : problems_(problems), document_(document), origin_(std::move(origin)) {}

  template <class Row>
  void one(const char* name, Row& row) {
    if (const Value* value = find(name)) read(*value, name, row);
  }
  template <class Row>
  void many(const char* name, std::vector<Row>& rows) {
    const Value* value = find(name);
    if (value == nullptr) return;
    if (!value->is_list() || value->items.empty()) {
      problems_.add("{}{}: expected a list of at least one row", place(*value), name);
      return;
    }
    read_rows(*value, name, rows);
  }
  template <class Row>
  void any_number(const char* name, std::vector<Row>& rows) {
    const Value* value = find(name);
    if (value == nullptr) return;
    if (!value->is_list()) {
      problems_.add("{}{}: expected a list of rows", place(*value), name);
      return;
    }
    read_rows(*value, name, rows);
  }
  void finish() const {
    for (const auto& [name, value] : document_.entries) {
      if (std::find(names_.begin(), names_.end(), name) != names_.end()) continue;
      const auto near = nearest_name(name, names_);
      problems_.add("{}there is no section {}{}", place(value), name,
                    near ? "; did you mean " + *near + "?" : "");
    }
  }

 private:
  template <class Row>
  void read_rows(const Value& list, const char* name, std::vector<Row>& rows) {
    std::set<std::string> seen;
    for (const Value& item : list.items) {
      Row row;
      const std::string key = read(item, fmt::format("{}[{}]", name, rows.size()), row);
      if (!key.empty() && !seen.insert(key).second)
        problems_.add("{}{}[{}]: a second row for {}", place(item), name, rows.size(), key);
      rows.push_back(std::move(row));
    }
  }
  const Value* find(const char* name) {
    names_.emplace_back(name);
    const Value* value = document_.find(name);
    if (value == nullptr) problems_.add("{}: section {} is missing", origin_, name);
    return value;
  }
  template <class Row>
  std::string read(const Value& value, const std::string& where, Row& row) {
    RowReader reader(problems_, value, where);
    visit(row, reader);
    return reader.finish();
  }

  Problems& problems_;
  const Value& document_;
  std::string origin_;
  std::vector<std::string> names_{"format", "version"};
};

}  // namespace

Calibration parse_calibration(std::string_view text, const std::string& origin) {
  const Value document = parse_yaml(text, origin);
  const Value* format = document.is_map() ? document.find("format") : nullptr;
  VIADUCT_CHECK(ConfigError, format != nullptr && format->scalar == kFormat,
                "{}: not a calibration table: expected a map with `format: {}`", origin, kFormat);
  int64_t version = 0;
  const Value* written = document.find("version");
  VIADUCT_CHECK(ConfigError,
                written != nullptr && read_value(*written, version) && version == kVersion,
                "{}: expected a calibration table of version {}, found {}; measure it again with "
                "`viaduct bench --calibrate`",
                origin, kVersion, written == nullptr ? "none" : to_flow_yaml(*written));
  Problems problems;
  Calibration table;
  SectionReader reader(problems, document, origin);
  visit_sections(table, reader);
  reader.finish();
  problems.throw_if_any();
  return table;
}

Calibration load_calibration(const std::filesystem::path& path) {
  return parse_calibration(read_file(path, kMaxYamlBytes), path.string());
}

}  // namespace viaduct
