#pragma once
// The pictures of a line of a chat file, and where they stand in its messages.

#include <string>
#include <string_view>
#include <vector>

#include "conversation/conversation.h"

namespace viaduct {

/// The place of a picture in a text, as LLaVA and ShareGPT write it.
inline constexpr std::string_view kImagePlace = "<image>";

/// Gives the messages their pictures (ChatMessage::images). A picture stands at a part of the type
/// `image` (or `image_url`) of a content, which names its file (`path`, `image`, `url`) or has the
/// next one of the line's `image` or `images`; those also stand at each <image> of a text, which
/// with one line break beside it becomes such a part. The content of a message with pictures is a
/// list of parts {"type": "image"} and texts then. InvalidConversation where places and pictures
/// are not as many, and for what is no path: addresses and data.
void read_images(const TemplateMap& line, Conversation& conversation);

/// The message with pictures in front of its content.
ChatMessage with_images(ChatMessage message, const std::vector<std::string>& paths);

/// InvalidConversation if the line names pictures, for a reader that takes none; `why`: in words.
void check_no_images(const TemplateMap& line, std::string_view why);

/// The paths of the pictures of the first `count` messages (0: of all), in order of appearance.
std::vector<std::string> images_of(const Conversation& conversation, size_t count = 0);

}  // namespace viaduct
