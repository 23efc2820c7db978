#pragma once
// One rendering of all messages that also tells the texts of the first ones: after an iteration of
// the loop over the messages the text is that of the messages so far, unless something has looked
// at later ones. The watch notes what a template reads of its messages.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/objects.h"
#include "template/syntax_tree.h"
#include "template/template_value.h"

namespace viaduct::jinja {

/// Thrown out of a rendering that would have to be undone: what follows the loop changes values
/// that are there before.
struct PrefixesUnknown {};

/// The variable that ends a text with the begin of an answer.
inline constexpr std::string_view kAddGenerationPrompt = "add_generation_prompt";

class PrefixWatch {
 public:
  explicit PrefixWatch(const TemplateValue& messages) { lists_.emplace_back(messages, 0); }

  /// Of `messages` itself or a rest of it: how many messages are before it. Nothing for another
  /// value.
  std::optional<int64_t> offset(const TemplateValue& value) const;
  /// Whether the value is the `loop` of the loop over the messages.
  bool is_loop(const TemplateValue& value) const;
  /// A value that is used in a way that is not followed.
  void use(const TemplateValue& value);
  /// object[index], object.name and object[begin:]; the result of a slice is followed too.
  void use_item(const TemplateValue& object, const TemplateValue& index);
  void use_attribute(const TemplateValue& object, const std::string& name);
  void use_slice(const TemplateValue& object, const TemplateValue (&bounds)[3],
                 const TemplateValue& result);

  /// Whether the text so far is that of `count` messages.
  bool holds(int64_t count) const { return !ahead_ && count >= least_; }
  /// Something depends on all messages.
  void look_ahead() { ahead_ = true; }
  bool looked_ahead() const { return ahead_; }

  void begin_loop(std::shared_ptr<TemplateLoop> loop, int64_t offset);
  /// The loop comes to its message `index`.
  void begin_message(int64_t index) { current_ = loop_offset_ + index + 1; }
  int64_t loop_offset() const { return loop_offset_; }

 private:
  std::vector<std::pair<TemplateValue, int64_t>> lists_;
  std::shared_ptr<TemplateLoop> loop_;
  int64_t loop_offset_ = 0;
  int64_t current_ = 0;  // messages that the loop has reached; 0 before it
  int64_t least_ = 0;    // messages without which the text before the loop would be another one
  bool ahead_ = false;
};

}  // namespace viaduct::jinja
