#include "conversation/message_images.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json_reader.h"
#include "base/units.h"
#include "conversation/line_members.h"

namespace viaduct {
namespace {

using Problem = ConversationProblem;

constexpr std::array<std::string_view, 2> kLists = {"image", "images"};
constexpr std::array<std::string_view, 4> kPaths = {"path", "image", "url", "image_url"};

TemplateValue image_part() {
  TemplateMap part;
  part.set("type", "image");
  return TemplateValue::map(std::move(part));
}

/// The path that a text, or an object like {"path": …}, names.
std::string path_of(const TemplateValue& value) {
  if (value.is_map()) {
    for (const std::string_view name : kPaths) {
      const TemplateValue* path = member(value.as_map(), name);
      if (path != nullptr && (path->is_text() || path->is_map())) return path_of(*path);
    }
  }
  if (!value.is_text() || value.as_text().empty()) {
    invalid_line(Problem::wrong_member, "a picture is {}, expected the path of a file",
                 value.is_text() ? "an empty text" : type_name(value));
  }
  std::string path = value.as_text();
  constexpr std::string_view kFile = "file://";
  if (path.starts_with(kFile)) path.erase(0, kFile.size());
  if (path.starts_with("data:") || path.find("://") != std::string::npos) {
    invalid_line(Problem::unknown_part, "the picture {} is no file; expected a path",
                 shown_name(path));
  }
  return path;
}

/// Hands out the pictures that the line itself names, and counts their places.
class LineImages {
 public:
  explicit LineImages(const TemplateMap& line) {
    for (const std::string_view name : kLists) {
      const TemplateValue* value = member(line, name);
      if (value == nullptr) continue;
      if (!value->is_list()) {
        paths_.push_back(path_of(*value));
        continue;
      }
      for (const TemplateValue& item : value->as_list().items) paths_.push_back(path_of(item));
    }
  }

  bool any() const { return !paths_.empty(); }
  std::string next() {
    const size_t place = places_++;
    return place < paths_.size() ? paths_[place] : std::string();
  }
  void check_all_taken() const {
    if (places_ == paths_.size()) return;
    invalid_line(Problem::wrong_member, "the line names {}, and its messages have {} for them ({})",
                 counted(static_cast<int64_t>(paths_.size()), "picture"),
                 counted(static_cast<int64_t>(places_), "place"), kImagePlace);
  }

 private:
  std::vector<std::string> paths_;
  size_t places_ = 0;
};

/// The content of one message, taken apart.
struct Parts {
  std::vector<TemplateValue> items;
  std::vector<std::string> images;

  void add_image(std::string path) {
    items.push_back(image_part());
    images.push_back(std::move(path));
  }
  void add_text(std::string_view text) {
    if (text.empty()) return;
    TemplateMap part;
    part.set("type", "text");
    part.set("text", text);
    items.push_back(TemplateValue::map(std::move(part)));
  }
  /// A text with places for the line's pictures.
  void add_places(std::string_view text, LineImages& line) {
    bool behind_place = false;
    while (true) {
      const size_t place = line.any() ? text.find(kImagePlace) : std::string_view::npos;
      std::string_view before = text.substr(0, place);
      if (behind_place && before.starts_with('\n')) before.remove_prefix(1);
      if (place == std::string_view::npos) return add_text(before);
      if (before.ends_with('\n')) before.remove_suffix(1);
      add_text(before);
      add_image(line.next());
      text.remove_prefix(place + kImagePlace.size());
      behind_place = true;
    }
  }
};

bool is_image_part(const TemplateValue& part) {
  const TemplateValue* type = part.is_map() ? member(part.as_map(), "type") : nullptr;
  return type != nullptr && type->is_text() &&
         (type->as_text() == "image" || type->as_text() == "image_url");
}

Parts parts_of(const TemplateValue& content, LineImages& line) {
  Parts parts;
  if (content.is_text()) {
    parts.add_places(content.as_text(), line);
    return parts;
  }
  for (const TemplateValue& part : content.as_list().items) {
    if (is_image_part(part)) {
      const bool named = std::ranges::any_of(
          kPaths, [&](std::string_view name) { return member(part.as_map(), name) != nullptr; });
      parts.add_image(named ? path_of(part) : line.next());
      continue;
    }
    const TemplateValue* text = part.is_map() ? member(part.as_map(), "text") : nullptr;
    if (line.any() && text != nullptr && text->is_text()) {
      parts.add_places(text->as_text(), line);
    } else {
      parts.items.push_back(part);
    }
  }
  return parts;
}

}  // namespace

void read_images(const TemplateMap& line, Conversation& conversation) {
  LineImages of_line(line);
  for (ChatMessage& message : conversation.messages) {
    const TemplateValue* content = message.value.as_map().find("content");
    if (content == nullptr || !(content->is_text() || content->is_list())) continue;
    Parts parts = parts_of(*content, of_line);
    if (parts.images.empty()) continue;
    message.images = std::move(parts.images);
    TemplateMap map = message.value.as_map();
    map.set("content", TemplateValue::list(std::move(parts.items)));
    message.value = TemplateValue::map(std::move(map));
  }
  of_line.check_all_taken();
}

ChatMessage with_images(ChatMessage message, const std::vector<std::string>& paths) {
  Parts parts;
  for (const std::string& path : paths) parts.add_image(path);
  const TemplateValue* content = message.value.as_map().find("content");
  if (content != nullptr && content->is_text()) parts.add_text(content->as_text());
  if (content != nullptr && content->is_list()) {
    const auto& items = content->as_list().items;
    parts.items.insert(parts.items.end(), items.begin(), items.end());
  }
  parts.images.insert(parts.images.end(), message.images.begin(), message.images.end());
  message.images = std::move(parts.images);
  TemplateMap map = message.value.as_map();
  map.set("content", TemplateValue::list(std::move(parts.items)));
  message.value = TemplateValue::map(std::move(map));
  return message;
}

void check_no_images(const TemplateMap& line, std::string_view why) {
  for (const std::string_view name : kLists) {
    const TemplateValue* value = member(line, name);
    if (value == nullptr || (value->is_list() && value->as_list().items.empty())) continue;
    invalid_line(Problem::unknown_part, "the line has pictures ('{}'), and {}", name, why);
  }
}

std::vector<std::string> images_of(const Conversation& conversation, size_t count) {
  const auto& messages = conversation.messages;
  if (count == 0) count = messages.size();
  std::vector<std::string> images;
  for (size_t i = 0; i < std::min(count, messages.size()); ++i)
    images.insert(images.end(), messages[i].images.begin(), messages[i].images.end());
  return images;
}

}  // namespace viaduct
