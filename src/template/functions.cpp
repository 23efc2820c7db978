#include "template/functions.h"

#include <ctime>

#include "template/arguments.h"
#include "template/operators.h"
#include "template/printing.h"

namespace viaduct::jinja {
namespace {

constexpr int64_t kLongestRange = 100'000;

TemplateValue make_range(Runtime& runtime, const TemplateArguments& arguments) {
  if (!arguments.named.empty()) template_fault("range takes no arguments by name");
  const Parameters given("range", arguments, {"start", "stop", "step"}, 1);
  const int64_t begin = given.has(1) ? given.integer(0, 0) : 0;
  const int64_t end = given.has(1) ? given.integer(1, 0) : given.integer(0, 0);
  const int64_t step = given.integer(2, 1);
  if (step == 0) template_fault("range: the step is zero");
  std::vector<TemplateValue> items;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (static_cast<int64_t>(items.size()) == kLongestRange) {
      template_fault("range: more than {} items", kLongestRange);
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  runtime.budget.make(items.size() * sizeof(TemplateValue));
  std::string shown = fmt::format("range({}, {}", begin, end);
  shown += step == 1 ? ")" : fmt::format(", {})", step);
  return TemplateValue::range(std::move(items), std::move(shown));
}

/// dict(pairs or map, name=value …).
TemplateMap make_map(Runtime& runtime, const char* function, const TemplateArguments& arguments) {
  TemplateMap map;
  if (arguments.positional.size() > 1) template_fault("{} takes at most 1 argument", function);
  if (!arguments.positional.empty()) {
    const TemplateValue& from = arguments.positional[0];
    if (from.is_map()) {
      map = from.as_map();
    } else {
      for (const TemplateValue& pair : iterate(runtime, from)) {
        const std::vector<TemplateValue> both = iterate(runtime, pair);
        if (both.size() != 2) template_fault("{}: expected pairs of a key and a value", function);
        map.set(both[0], both[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) map.set(TemplateValue(name), value);
  runtime.budget.make(map.size() * 2 * sizeof(TemplateValue));
  return map;
}

void check_member(const TemplateValue& name) {
  if (name.is_text() && name.as_text().starts_with('_')) {
    template_fault("a namespace cannot have the member '{}': it begins with an underscore",
                   name.as_text());
  }
}

TemplateValue make_namespace(Runtime& runtime, const TemplateArguments& arguments) {
  auto space = std::make_shared<TemplateNamespace>();
  space->members = make_map(runtime, "namespace", arguments);
  for (const auto& entry : space->members.entries()) check_member(entry.first);
  runtime.budget.make(sizeof(TemplateNamespace));
  runtime.namespaces.push_back(space);
  return TemplateValue(std::shared_ptr<TemplateObject>(std::move(space)));
}

/// cycler('a', 'b'): an object with next(), reset() and current.
TemplateValue make_cycler(Runtime& runtime, const TemplateArguments& arguments) {
  if (arguments.positional.empty()) template_fault("cycler needs arguments");
  auto place = std::make_shared<size_t>(0);
  auto space = std::make_shared<TemplateNamespace>();
  std::weak_ptr<TemplateNamespace> weak = space;
  const std::vector<TemplateValue> items = arguments.positional;
  const auto show = [items, place, weak] {
    if (const auto held = weak.lock()) held->members.set("current", items[*place]);
  };
  space->members.set("next", make_function("next", [=](TemplateArguments&) {
                       const TemplateValue now = items[*place];
                       *place = (*place + 1) % items.size();
                       show();
                       return now;
                     }));
  space->members.set("reset", make_function("reset", [=](TemplateArguments&) {
                       *place = 0;
                       show();
                       return TemplateValue();
                     }));
  show();
  runtime.namespaces.push_back(space);
  return TemplateValue(std::shared_ptr<TemplateObject>(std::move(space)));
}

TemplateValue make_joiner(const TemplateArguments& arguments) {
  const Parameters given("joiner", arguments, {"sep"});
  auto used = std::make_shared<bool>(false);
  return make_function("joiner",
                       [used, separator = given.get(0, TemplateValue(", "))](TemplateArguments&) {
                         return std::exchange(*used, true) ? separator : TemplateValue("");
                       });
}

TemplateValue raise_exception(Runtime& runtime, const TemplateArguments& arguments) {
  const Parameters given("raise_exception", arguments, {"message"}, 1);
  template_fault("the template refuses: {}", to_text(runtime, given[0]));
}

TemplateValue now(Runtime& runtime, const TemplateArguments& arguments) {
  const Parameters given("strftime_now", arguments, {"format"}, 1);
  if (!runtime.clock) template_fault("strftime_now: no time was given");
  return TemplateValue(format_time(runtime, *runtime.clock, given.text(0)));
}

}  // namespace

std::optional<TemplateValue> global_function(Runtime& runtime, std::string_view name) {
  const auto function = [&](TemplateValue (*call)(Runtime&, const TemplateArguments&)) {
    return make_function(std::string(name), [&runtime, call](TemplateArguments& arguments) {
      return call(runtime, arguments);
    });
  };
  if (name == "range") return function(make_range);
  if (name == "namespace") return function(make_namespace);
  if (name == "raise_exception") return function(raise_exception);
  if (name == "strftime_now") return function(now);
  if (name == "cycler") return function(make_cycler);
  if (name == "dict") {
    return function([](Runtime& in, const TemplateArguments& arguments) {
      return TemplateValue::map(make_map(in, "dict", arguments));
    });
  }
  if (name == "joiner") {
    return function(
        [](Runtime&, const TemplateArguments& arguments) { return make_joiner(arguments); });
  }
  return std::nullopt;
}

std::string format_time(Runtime& runtime, const TemplateClock& clock, const std::string& format) {
  std::tm time{};
  time.tm_year = clock.year - 1900;
  time.tm_mon = clock.month - 1;
  time.tm_mday = clock.day;
  time.tm_hour = clock.hour;
  time.tm_min = clock.minute;
  time.tm_sec = clock.second;
  time.tm_isdst = -1;
  // The days of week and year; timegm also brings values out of range back into it.
  std::tm days = time;
  timegm(&days);
  time.tm_wday = days.tm_wday;
  time.tm_yday = days.tm_yday;
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      text += format[i];
      continue;
    }
    std::string directive = "%";
    if (format[i + 1] == '-' && i + 2 < format.size()) directive += format[++i];
    directive += format[++i];
    if (directive == "%f") {
      text += fmt::format("{:06d}", clock.microsecond);
    } else if (directive != "%z" && directive != "%Z" && directive != "%s") {
      char buffer[128];
      text.append(buffer, std::strftime(buffer, sizeof buffer, directive.c_str(), &time));
    }
    runtime.budget.check_text(text.size());
  }
  runtime.budget.make_text(text.size());
  return text;
}

}  // namespace viaduct::jinja
