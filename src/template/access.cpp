// Reading parts of values: attributes, items, slices, iteration.

#include <algorithm>

#include "template/methods.h"
#include "template/operators.h"
#include "template/prefix_watch.h"
#include "template/runtime.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

TemplateValue without_attribute(const TemplateValue& object, const std::string& name) {
  const std::string shown = object.is_none()  ? "None"
                            : object.is_map() ? "a map"
                                              : "a value of type '" + type_name(object) + "'";
  return TemplateValue::undefined(fmt::format("{} has no attribute '{}'", shown, name));
}

/// Whether the value holds, or is, an object of the room.
bool holds_object(Runtime& runtime, const TemplateValue& value) {
  runtime.budget.step();
  const auto holds = [&](const TemplateValue& part) { return holds_object(runtime, part); };
  if (value.is_list()) {
    const auto& items = value.as_list().items;
    return std::any_of(items.begin(), items.end(), holds);
  }
  if (value.is_map()) {
    const auto& entries = value.as_map().entries();
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& entry) { return holds(entry.second); });
  }
  return value.is_object();
}

TemplateValue loop_attribute(Runtime& runtime, const std::shared_ptr<TemplateLoop>& loop,
                             const std::string& name) {
  const auto index = static_cast<int64_t>(loop->index);
  const auto size = static_cast<int64_t>(loop->items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return loop->level + 1;
  if (name == "depth0") return loop->level;
  if (name == "previtem") {
    if (index == 0) return TemplateValue::undefined("there is no previous item");
    return loop->items[loop->index - 1];
  }
  if (name == "nextitem") {
    if (index + 1 >= size) return TemplateValue::undefined("there is no next item");
    return loop->items[loop->index + 1];
  }
  if (name == "cycle") {
    return make_function("cycle", [loop](TemplateArguments& arguments) {
      if (arguments.positional.empty()) template_fault("loop.cycle needs arguments");
      return arguments.positional[loop->index % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return make_function("changed", [loop, &runtime](TemplateArguments& arguments) {
      TemplateValue now = TemplateValue::list(arguments.positional, ListForm::tuple);
      // The loop would hold itself and never be freed.
      if (holds_object(runtime, now)) template_fault("loop.changed compares plain values only");
      if (runtime.forked) throw PrefixesUnknown{};
      if (loop->changed && equals(runtime, *loop->changed, now)) return TemplateValue(false);
      loop->changed = std::move(now);
      return TemplateValue(true);
    });
  }
  return without_attribute(TemplateValue(std::shared_ptr<TemplateObject>(loop)), name);
}

/// An attribute of Python's object; nothing where there is none.
std::optional<TemplateValue> own_attribute(Runtime& runtime, const TemplateValue& object,
                                           const std::string& name) {
  if (object.is_object()) {
    if (const auto space = std::dynamic_pointer_cast<TemplateNamespace>(object.as_object())) {
      const TemplateValue* found = space->members.find(std::string_view(name));
      if (found != nullptr) return *found;
      return std::nullopt;
    }
    if (const auto loop = std::dynamic_pointer_cast<TemplateLoop>(object.as_object())) {
      return loop_attribute(runtime, loop, name);
    }
    const auto function = std::dynamic_pointer_cast<TemplateCallable>(object.as_object());
    if (function && function->is_macro && name == "name") return TemplateValue(function->name);
    return std::nullopt;
  }
  bool changes = false;
  const Method method = find_method(object, name, changes);
  if (changes) {
    return TemplateValue::undefined(
        fmt::format("'{}' would change a {}, which templates must not", name, type_name(object)));
  }
  if (method == nullptr) return std::nullopt;
  TemplateValue bound =
      make_function(name, [&runtime, object, method](TemplateArguments& arguments) {
        return method(runtime, object, arguments);
      });
  bound.as_object()->depth = object.depth() + 1;
  if (bound.as_object()->depth > kDeepestValue) template_fault("values nested too deeply");
  return bound;
}

/// `object[index]` of Python; nothing where it raises TypeError or LookupError.
std::optional<TemplateValue> own_item(const TemplateValue& object, const TemplateValue& index) {
  if (object.is_map()) {
    try {
      const TemplateValue* found = object.as_map().find(index);
      if (found != nullptr) return *found;
    } catch (const TemplateFault&) {
      // Not hashable.
    }
    return std::nullopt;
  }
  if (!index.is_number() || index.is_float()) return std::nullopt;
  int64_t at = index.as_integer();
  if (object.is_list()) {
    const TemplateList& list = object.as_list();
    const auto size = static_cast<int64_t>(list.items.size());
    const bool has_items = list.form != ListForm::keys && list.form != ListForm::values &&
                           list.form != ListForm::items;
    if (at < 0) at += size;
    if (!has_items || at < 0 || at >= size) return std::nullopt;
    return list.items[static_cast<size_t>(at)];
  }
  if (!object.is_text()) return std::nullopt;
  const std::string& text = object.as_text();
  if (is_ascii(text)) {
    if (at < 0) at += static_cast<int64_t>(text.size());
    if (at < 0 || at >= static_cast<int64_t>(text.size())) return std::nullopt;
    return TemplateValue(text.substr(static_cast<size_t>(at), 1));
  }
  const std::u32string characters = to_code_points(text);
  if (at < 0) at += static_cast<int64_t>(characters.size());
  if (at < 0 || at >= static_cast<int64_t>(characters.size())) return std::nullopt;
  return TemplateValue(from_code_points(characters.substr(static_cast<size_t>(at), 1)));
}

}  // namespace

void check_defined(const TemplateValue& value) {
  if (value.is_undefined()) template_fault("{}", value.undefined_message());
}

TemplateValue make_generator(int depth, std::function<std::vector<TemplateValue>()> make) {
  auto generator = std::make_shared<TemplateGenerator>();
  generator->make = std::move(make);
  generator->depth = depth + 1;
  if (generator->depth > kDeepestValue) template_fault("filters nested too deeply");
  return TemplateValue(std::shared_ptr<TemplateObject>(std::move(generator)));
}

TemplateValue make_function(std::string name,
                            std::function<TemplateValue(TemplateArguments&)> call) {
  return TemplateValue(std::shared_ptr<TemplateObject>(
      std::make_shared<TemplateCallable>(std::move(name), std::move(call))));
}

std::vector<TemplateValue> iterate(Runtime& runtime, const TemplateValue& value) {
  std::vector<TemplateValue> items;
  if (value.is_undefined()) return items;
  if (value.is_list()) {
    items = value.as_list().items;
  } else if (value.is_map()) {
    for (const auto& entry : value.as_map().entries()) items.push_back(entry.first);
  } else if (value.is_text()) {
    const std::string& text = value.as_text();
    runtime.budget.make(text.size() * 64);
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      next_code_point(text, at);
      items.emplace_back(text.substr(begin, at - begin));
    }
  } else if (value.is_object()) {
    if (auto* generator = dynamic_cast<TemplateGenerator*>(value.as_object().get())) {
      if (runtime.forked) throw PrefixesUnknown{};
      items = generator->take();
    } else {
      template_fault("a value of type '{}' is not iterable", type_name(value));
    }
  } else {
    template_fault("a value of type '{}' is not iterable", type_name(value));
  }
  runtime.budget.step(static_cast<int64_t>(items.size()) / 4 + 1);
  runtime.budget.make(items.size() * sizeof(TemplateValue));
  return items;
}

int64_t length_of(Runtime& runtime, const TemplateValue& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) {
    runtime.budget.step(static_cast<int64_t>(value.as_text().size()) / 256);
    return static_cast<int64_t>(code_points(value.as_text()));
  }
  if (value.is_list()) return static_cast<int64_t>(value.as_list().items.size());
  if (value.is_map()) return static_cast<int64_t>(value.as_map().size());
  if (value.is_object()) {
    if (const auto* loop = dynamic_cast<const TemplateLoop*>(value.as_object().get())) {
      return static_cast<int64_t>(loop->items.size());
    }
  }
  template_fault("a value of type '{}' has no length", type_name(value));
}

TemplateValue get_attribute(Runtime& runtime, const TemplateValue& object,
                            const std::string& name) {
  check_defined(object);
  if (!name.starts_with('_')) {
    if (auto found = own_attribute(runtime, object, name)) return *std::move(found);
  }
  if (object.is_map()) {
    const TemplateValue* found = object.as_map().find(std::string_view(name));
    if (found != nullptr) return *found;
  }
  return without_attribute(object, name);
}

TemplateValue get_item(Runtime& runtime, const TemplateValue& object, const TemplateValue& index) {
  check_defined(object);
  if (auto found = own_item(object, index)) return *std::move(found);
  if (index.is_text() && !index.as_text().starts_with('_')) {
    if (auto found = own_attribute(runtime, object, index.as_text())) return *std::move(found);
  }
  if (index.is_text()) return without_attribute(object, index.as_text());
  return TemplateValue::undefined(
      fmt::format("a value of type '{}' has no such item", type_name(object)));
}

TemplateValue get_slice(Runtime& runtime, const TemplateValue& object, const TemplateValue& begin,
                        const TemplateValue& end, const TemplateValue& step) {
  check_defined(object);
  const bool sliceable =
      object.is_text() || (object.is_list() && (object.as_list().form <= ListForm::tuple ||
                                                object.as_list().form == ListForm::range));
  if (!sliceable) template_fault("a value of type '{}' has no slices", type_name(object));
  const auto bound = [](const TemplateValue& value) {
    check_defined(value);
    if (!value.is_number() || value.is_float()) {
      template_fault("bounds of slices are integers, found '{}'", type_name(value));
    }
    return value.as_integer();
  };
  const int64_t stride = step.is_none() ? 1 : bound(step);
  if (stride == 0) template_fault("the step of a slice is zero");
  const bool plain = object.is_text() && is_ascii(object.as_text());
  const std::u32string characters =
      object.is_text() && !plain ? to_code_points(object.as_text()) : std::u32string();
  const auto size = static_cast<int64_t>(plain              ? object.as_text().size()
                                         : object.is_text() ? characters.size()
                                                            : object.as_list().items.size());
  const auto clamp = [&](const TemplateValue& value, int64_t standard) {
    if (value.is_none()) return standard;
    int64_t at = bound(value);
    if (at < 0) at = at < -size ? -1 : at + size;
    return std::clamp<int64_t>(at, stride < 0 ? -1 : 0, stride < 0 ? size - 1 : size);
  };
  const int64_t first = clamp(begin, stride < 0 ? size - 1 : 0);
  const int64_t last = clamp(end, stride < 0 ? -1 : size);
  runtime.budget.make(static_cast<size_t>(size));
  if (plain && stride == 1) {
    return TemplateValue(first < last ? object.as_text().substr(static_cast<size_t>(first),
                                                                static_cast<size_t>(last - first))
                                      : std::string());
  }
  std::vector<TemplateValue> items;
  std::string text;
  for (int64_t at = first; stride > 0 ? at < last : at > last;) {
    const auto place = static_cast<size_t>(at);
    if (object.is_list()) {
      items.push_back(object.as_list().items[place]);
    } else if (plain) {
      text += object.as_text()[place];
    } else {
      append_code_point(text, characters[place]);
    }
    if (__builtin_add_overflow(at, stride, &at)) break;
  }
  if (object.is_text()) return TemplateValue(std::move(text));
  runtime.budget.make(items.size() * sizeof(TemplateValue));
  return TemplateValue::list(std::move(items), object.as_list().form);
}

}  // namespace viaduct::jinja
