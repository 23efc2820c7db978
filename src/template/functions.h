#pragma once
// The functions that every template can call: range, dict, namespace, raise_exception,
// strftime_now, cycler, joiner.

#include <optional>
#include <string_view>

#include "template/runtime.h"

namespace viaduct::jinja {

/// Nothing without such a function. The result refers to the runtime.
std::optional<TemplateValue> global_function(Runtime& runtime, std::string_view name);

/// strftime of Python for a time without a zone, in the C locale.
std::string format_time(Runtime& runtime, const TemplateClock& clock, const std::string& format);

}  // namespace viaduct::jinja
