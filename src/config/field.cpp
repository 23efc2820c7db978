#include "config/field.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/nearest.h"

namespace viaduct {
namespace {

// Numbers end up in kernels as FP32, where a smaller one is 0 and a larger one infinite.
constexpr double kSmallestNumber = std::numeric_limits<float>::min();
constexpr double kLargestNumber = std::numeric_limits<float>::max();

bool fits_fp32(double number) {
  const double magnitude = std::abs(number);
  return magnitude == 0 || (magnitude >= kSmallestNumber && magnitude <= kLargestNumber);
}

std::string number_text(double number) {
  return fmt::format("{}", number);
}

}  // namespace

std::string to_string(KnobState state) {
  switch (state) {
    case KnobState::built:
      return "built";
    case KnobState::planned:
      return "planned";
    case KnobState::not_applicable:
      return "not applicable";
  }
  return "";
}

std::string Field::allowed_text() const {
  if (!allowed.empty()) return fmt::format("{}", fmt::join(allowed, "|"));
  if (!low && !high) return "";
  const bool bounded = high && !std::isinf(*high);
  if (low && bounded && !above_low && !below_high)
    return number_text(*low) + " to " + number_text(*high);
  std::string text;
  if (low) text = (above_low ? "> " : ">= ") + number_text(*low);
  if (bounded)
    text +=
        (text.empty() ? "" : " and ") + std::string(below_high ? "< " : "<= ") + number_text(*high);
  return text;
}

std::string Field::value_problem(const Value& value) const {
  if (value.is_list()) {
    for (const Value& item : value.items) {
      if (std::string problem = value_problem(item); !problem.empty()) return problem;
    }
    return "";
  }
  if (value.kind != Value::Kind::scalar || same_value(value, default_value)) return "";
  double number = 0;
  const bool numeric = type.find("number") != std::string::npos || low || high;
  if (numeric && read_value(value, number) && std::isinf(number))
    return fmt::format("expected a finite number, found {}", value.scalar);
  if (type.find("number") != std::string::npos && read_value(value, number) && !fits_fp32(number))
    return fmt::format(
        "expected 0 or a magnitude from {:.3g} to {:.3g}, as FP32 has them, found {}",
        kSmallestNumber, kLargestNumber, value.scalar);
  if ((low || high) && read_value(value, number)) {
    const bool good = (!low || number > *low || (number == *low && !above_low)) &&
                      (!high || number < *high || (number == *high && !below_high));
    if (!good) return fmt::format("expected {}, found {}", allowed_text(), value.scalar);
  }
  const bool is_auto = value.is_plain("auto") && type.find("or auto") != std::string::npos;
  if (!allowed.empty() && !is_auto && !value.is_plain("None") &&
      std::find(allowed.begin(), allowed.end(), value.scalar) == allowed.end()) {
    const std::string found = value.scalar.substr(0, 80);
    const auto near = nearest_name(found, allowed);
    return fmt::format("expected one of {}, found '{}'{}", allowed_text(), found,
                       near ? "; nearest: " + *near : "");
  }
  return "";
}

Value Field::value_under(std::string_view spelling, const Value& given) const {
  const std::string_view last = spelling.substr(spelling.rfind('.') + 1);  // npos + 1 is 0
  bool on = false;
  for (const Switch& one : switches) {
    if (one.name != last || !read_value(given, on)) continue;
    Value meant = write_value(on ? one.when_true : one.when_false);
    meant.source = given.source;
    return meant;
  }
  return given;
}

Field& Field::alias(std::string other) {
  aliases.push_back(std::move(other));
  return *this;
}

Field& Field::alias_switch(std::string other, std::string when_true, std::string when_false) {
  switches.push_back({other, std::move(when_true), std::move(when_false)});
  return alias(std::move(other));
}

Field& Field::one_of(std::vector<std::string> choices) {
  allowed = std::move(choices);
  return *this;
}

Field& Field::range(double lowest, double highest) {
  low = lowest;
  high = highest;
  return *this;
}

Field& Field::positive() {
  low = 0;
  above_low = true;
  return *this;
}

Field& Field::from_below(double lowest, double bound) {
  range(lowest, bound);
  below_high = true;
  return *this;
}

Field& Field::in(std::string unit_name) {
  unit = std::move(unit_name);
  return *this;
}

Field& Field::constraint(std::string text) {
  constraints = std::move(text);
  return *this;
}

Field& Field::on_resume(ResumeRule rule) {
  resume = rule;
  return *this;
}

std::string Field::idle_reason() const {
  for (const IdleRule& rule : idle_rules) {
    if (std::string reason = rule(); !reason.empty()) return reason;
  }
  return "";
}

Field& Field::idle(IdleRule rule) {
  idle_rules.push_back(std::move(rule));
  return *this;
}

Field& Field::idle(std::function<bool()> when, std::string why) {
  return idle([when = std::move(when), why = std::move(why)] { return reason_if(when(), why); });
}

Field& Field::of_values(std::function<bool()> acts) {
  values_rule = [acts = std::move(acts)] { return !acts || !acts(); };
  return *this;
}

Field& Field::in_virtual_time() {
  values_rule = nullptr;
  return *this;
}

Field& Field::may_differ() {
  differs_by_rank = true;
  return *this;
}

Field& Field::decides(LayoutPart part) {
  layout_part = part;
  return *this;
}

Field& Field::planned(std::string why) {
  state.fill(KnobState::planned);
  reason = std::move(why);
  return *this;
}

Field& Field::accepts(std::vector<std::string> values) {
  harmless = std::move(values);
  return *this;
}

Field& Field::planned_values(std::vector<std::string> choices, std::string why) {
  allowed.insert(allowed.end(), choices.begin(), choices.end());
  planned_choices = std::move(choices);
  reason = std::move(why);
  return *this;
}

Field& Field::planned_on(DeviceKind device, std::string why) {
  state[static_cast<size_t>(device)] = KnobState::planned;
  reason = std::move(why);
  return *this;
}

Field& Field::not_applicable_on(DeviceKind device, std::string why) {
  state[static_cast<size_t>(device)] = KnobState::not_applicable;
  reason = std::move(why);
  return *this;
}

Field& FieldGroup::add(std::string name, std::string type, Value default_value, std::string doc) {
  Field& field = fields_.emplace_back();
  field.section = section_;
  field.name = std::move(name);
  field.type = std::move(type);
  field.default_value = std::move(default_value);
  field.doc = std::move(doc);
  field.state.fill(KnobState::built);  // unless its owner says otherwise
  field.resume = resume_;
  if (idle_) field.idle_rules.push_back(idle_);
  if (of_values_) field.of_values();
  return field;
}

Field& FieldGroup::unbound(std::string name, std::string type, Value default_value,
                           std::string doc) {
  Field& field = add(std::move(name), std::move(type), std::move(default_value), std::move(doc));
  field.assign = [type = field.type](const Value& value) { return has_type(value, type); };
  field.state = {KnobState::built, KnobState::planned, KnobState::planned};
  return field;
}

FieldGroup& FieldGroup::short_form(std::string name) {
  short_form_ = std::move(name);
  return *this;
}

FieldGroup& FieldGroup::on_resume(ResumeRule rule) {
  resume_ = rule;
  return *this;
}

FieldGroup& FieldGroup::idle(IdleRule rule) {
  idle_ = std::move(rule);
  return *this;
}

FieldGroup& FieldGroup::of_values() {
  of_values_ = true;
  return *this;
}

bool has_type(const Value& value, const std::string& type) {
  if (const size_t at = type.find(" or "); at != std::string::npos) {
    return has_type(value, type.substr(0, at)) || has_type(value, type.substr(at + 4));
  }
  if (type.rfind("list of ", 0) == 0) {
    return value.is_list() &&
           std::all_of(value.items.begin(), value.items.end(),
                       [&](const Value& item) { return has_type(item, type.substr(8)); });
  }
  bool flag = false;
  int64_t whole = 0;
  double number = 0;
  std::string text;
  if (type == "bool") return read_value(value, flag);
  if (type == "int") return read_value(value, whole);
  if (type == "number") return read_value(value, number);
  if (type == "string") return read_value(value, text);
  if (type == "null") return value.is_null() || value.is_plain("None");
  if (type == "auto") return value.is_plain("auto");
  if (type == "map") return value.is_map();
  return type == "list" && value.is_list();
}

}  // namespace viaduct
