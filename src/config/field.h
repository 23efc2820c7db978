#pragma once
// Typed configuration. A folder keeps its settings in a plain struct with default member
// initializers, and declares them in one function, one line a field:
//
//   struct OptimizerConfig {                       // optim/optimizer_config.h
//     OptimizerKind optimizer = OptimizerKind::adam;  // an enum with names (config/choice.h)
//     double lr = 3e-4;
//     std::optional<int64_t> lr_decay_steps;       // null unless given
//     Auto<bool> overlap;                          // `auto` until resolved
//   };
//
//   FieldGroup optimizer_fields(OptimizerConfig& config) {          // optim/optimizer_config.cpp
//     FieldGroup group("optimizer", "How weights are updated.");
//     group.field("optimizer", config.optimizer, "The update rule.");
//     group.field("lr", config.lr, "Peak learning rate.").range(0, 1).alias("learning_rate");
//     group.field("overlap", config.overlap, "Gather beside the forward.").planned("needs dp > 1");
//     group.field("adam_eps", config.adam_eps, "Added to the root.")
//         .idle([&config] { return config.optimizer != OptimizerKind::adam; }, "no Adam");
//     return group;
//   }
//
// The group refers to the struct's members: reading a file writes them, printing reads them, and
// the value a member has when the group is made is the field's default. Several groups may add to
// one section. The application collects the groups of all folders as a value (run/run_config.h);
// nothing registers itself.

#include <array>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_kind.h"
#include "config/convert.h"
#include "config/idle_rule.h"
#include "config/layout_part.h"
#include "config/resume_rule.h"
#include "config/value.h"

namespace viaduct {

/// built: works. planned: known, and an error when set to anything but its default. not_applicable:
/// accepted, and reported as having no effect on the device.
enum class KnobState { built, planned, not_applicable };
std::string to_string(KnobState state);

/// One setting: its description, and how to read and print the member it is bound to.
struct Field {
  std::string section, name, type, unit, doc, constraints, reason;
  std::vector<std::string>
      aliases;  // other names: within the section, or full ("recipe.trainer.x") if dotted
  /// An alias that is a switch: `true` and `false` stand for two of the field's values.
  struct Switch {
    std::string name, when_true, when_false;
  };
  std::vector<Switch> switches;
  std::vector<std::string> allowed;  // of a string, or of each string of a list
  std::optional<double> low, high;   // of a number, or of each number of a list; inclusive
  bool above_low = false;            // the lower bound itself is excluded
  bool below_high = false;           // the upper bound itself is excluded
  Value default_value;
  std::vector<std::string>
      harmless;  // values, as text, that a planned field accepts besides its default
  std::vector<std::string> planned_choices;  // of `allowed`: not implemented yet
  std::array<KnobState, 3> state{KnobState::built, KnobState::planned, KnobState::planned};
  bool environment = false;               // an environment variable, listed with the knobs
  std::optional<ResumeRule> resume;       // of a field that is built
  std::vector<IdleRule> idle_rules;       // when it does nothing
  bool differs_by_rank = false;           // ranks of a run may have different values
  std::optional<LayoutPart> layout_part;  // that its value decides
  std::function<bool()> values_rule;      // whether it acts on values alone (of_values); null: no

  std::function<bool(const Value&)> assign;  // false if the value is not of the type
  std::function<Value()> current;

  std::string full_name() const { return section + "." + name; }
  /// Why it does nothing among the values of its group's settings, which must be resolved; "" where
  /// it acts, as far as they say (rules over settings of several folders: run/rules/rules.h).
  std::string idle_reason() const;
  /// Whether a run without values, one in virtual time (dist.device = sim), has nothing for it.
  bool needs_values() const { return values_rule && values_rule(); }
  KnobState state_on(DeviceKind device) const { return state[static_cast<size_t>(device)]; }
  /// Range or choices as readable text: ">= 1", "0 to 1", "adam|sgd"; "" if all values of the type
  /// are valid.
  std::string allowed_text() const;
  /// Why the value is out of range or not among the choices, or "".
  std::string value_problem(const Value& value) const;
  /// The value that `given` stands for under `spelling`, which may be a switch.
  Value value_under(std::string_view spelling, const Value& given) const;

  // The owner describes a field with these; each returns the field, for chaining.
  Field& alias(std::string other);
  /// An older name that was a bool, of a field with choices: `enable_cuda_graph=true` is
  /// `cuda_graph_impl=local`. The field's own values are accepted under that name, too.
  Field& alias_switch(std::string other, std::string when_true, std::string when_false);
  /// The values of a text. An enum (choice.h) has its own.
  Field& one_of(std::vector<std::string> choices);
  /// Of an enum, those that this field has, where these are not all.
  template <NamedEnum E>
  Field& one_of(std::initializer_list<E> choices) {
    allowed.clear();
    for (const E choice : choices) allowed.emplace_back(choice_name(choice));
    return *this;
  }
  Field& range(double lowest, double highest = std::numeric_limits<double>::infinity());
  Field& positive();                               // greater than zero
  Field& from_below(double lowest, double bound);  // lowest <= value < bound
  Field& in(std::string unit_name);
  Field& constraint(std::string text);
  /// Not implemented on any device yet; `why` ends "not implemented yet: ".
  Field& planned(std::string why);
  /// Values of a planned field that request nothing and are therefore accepted ("false" of an
  /// `auto` feature).
  Field& accepts(std::vector<std::string> values);
  /// More choices besides `one_of`, known but not implemented yet.
  Field& planned_values(std::vector<std::string> choices, std::string why);
  Field& planned_on(DeviceKind device, std::string why);
  Field& not_applicable_on(DeviceKind device, std::string why);
  /// What its change means when a run resumes.
  Field& on_resume(ResumeRule rule);
  /// When it does nothing, and why, behind the rules that it has already: the first that holds is
  /// the reason.
  Field& idle(IdleRule rule);
  Field& idle(std::function<bool()> when, std::string why);
  /// It says something of values that are computed, read or saved and of nothing else, so that it
  /// does nothing in virtual time, unless `acts` (of settings of its own folder) holds.
  Field& of_values(std::function<bool()> acts = {});
  /// It acts in virtual time, too, unlike others of its group.
  Field& in_virtual_time();
  /// Ranks of a run may have different values: it is about their machines.
  Field& may_differ();
  /// The part of a layout that its value decides: a value that the user gave takes it from the
  /// search of plans.
  Field& decides(LayoutPart part);
};

/// Fields of one section that one folder owns.
class FieldGroup {
 public:
  FieldGroup(std::string section, std::string doc)
      : section_(std::move(section)), doc_(std::move(doc)) {}

  /// Declares a field bound to `member`, which must outlive the group.
  template <class T>
  Field& field(std::string name, T& member, std::string doc) {
    Field& added = add(std::move(name), TypeName<T>::text(), write_value(member), std::move(doc));
    added.allowed = NamesOf<T>::list();
    added.assign = [target = &member](const Value& value) { return read_value(value, *target); };
    added.current = [target = &member] { return write_value(*target); };
    return added;
  }
  /// Declares a known field that no struct holds: only its default is accepted (a planned knob of
  /// the catalogue).
  Field& unbound(std::string name, std::string type, Value default_value, std::string doc);

  /// `section=VALUE` is short for `section.NAME=VALUE`.
  FieldGroup& short_form(std::string name);
  /// The rule of the fields declared after this that do not say another.
  FieldGroup& on_resume(ResumeRule rule);
  /// The first idle rule of the fields declared after this; an empty one ends it.
  FieldGroup& idle(IdleRule rule);
  /// The fields declared after this are `of_values`, but for those that are `in_virtual_time`.
  FieldGroup& of_values();

  const std::string& section() const { return section_; }
  const std::string& doc() const { return doc_; }
  const std::string& short_form() const { return short_form_; }
  const std::vector<Field>& fields() const { return fields_; }

 private:
  Field& add(std::string name, std::string type, Value default_value, std::string doc);

  std::string section_, doc_, short_form_;
  std::optional<ResumeRule> resume_;
  IdleRule idle_;
  bool of_values_ = false;
  std::vector<Field> fields_;
};

/// Whether a value has the type that a text like "int", "bool or auto", "list of string", "map or
/// null" names.
bool has_type(const Value& value, const std::string& type);

}  // namespace viaduct
