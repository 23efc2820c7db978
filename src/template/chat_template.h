#pragma once
// Templates of chats: the Jinja that Hugging Face's `transformers` renders (its environment of
// Jinja 3.1: immutable sandbox, trim_blocks, lstrip_blocks, loop controls, {% generation %},
// raise_exception, strftime_now, tojson), as an interpreter over a parsed tree. A template can read
// nothing but its variables, and ends with an error instead of looping, recursing or growing
// without bound. Differences: integers have 64 bits; include, import and extends are errors where
// they are reached, and so are a few filters about HTML and files (filters.h).

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/budget.h"
#include "template/template_clock.h"
#include "template/template_value.h"

namespace viaduct {

namespace jinja {
struct Tree;
}

/// What a template is rendered with. A later value of a name replaces an earlier one.
struct TemplateVariables {
  std::vector<std::pair<std::string, TemplateValue>> values;
  std::optional<TemplateClock> clock;  // of strftime_now, which is an error without one

  void set(std::string name, TemplateValue value) {
    values.emplace_back(std::move(name), std::move(value));
  }
};

struct RenderedTemplate {
  std::string text;
  /// Begin and end, in bytes of `text`, of what {% generation %} blocks made.
  std::vector<std::pair<size_t, size_t>> generations;
};

/// One rendering of all messages, and what it tells about renderings of the first ones.
struct RenderedPrefixes {
  RenderedTemplate whole;

  /// The text of the first messages: `shared` bytes of the whole one, then one of these, without
  /// and with add_generation_prompt.
  struct Prefix {
    size_t shared = 0;
    std::string plain, prompt;
  };
  /// By the number of messages, as far as they are known.
  std::map<size_t, Prefix> prefixes;
};

class ChatTemplate {
 public:
  /// TemplateError with `where`, line and column for broken syntax and unknown tags.
  static ChatTemplate parse(std::string_view text, std::string where);

  /// TemplateError with line and column where Python raises an error, where the template itself
  /// does (raise_exception), or beyond the limits. Several threads may render at once.
  RenderedTemplate render(const TemplateVariables& variables,
                          const TemplateLimits& limits = {}) const;

  /// As `render` of `variables`, which have `messages` (a list) and add_generation_prompt (false);
  /// also tells the texts of the first messages alone, as far as the template shows a message
  /// without regard to later ones, in time linear in their number.
  RenderedPrefixes render_prefixes(const TemplateVariables& variables,
                                   const TemplateLimits& limits = {}) const;

  /// Whether the template has {% generation %} blocks.
  bool has_generation() const { return has_generation_; }
  /// Whether any expression reads the name.
  bool reads(std::string_view name) const;

 private:
  ChatTemplate() = default;

  std::string where_;
  std::shared_ptr<const jinja::Tree> tree_;
  bool has_generation_ = false;
};

}  // namespace viaduct
