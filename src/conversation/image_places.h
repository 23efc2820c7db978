#pragma once
// Pictures in the text of a conversation: the template prints one token for each, and a row has as
// many tokens as the model makes vectors of a picture.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "conversation/answers.h"
#include "conversation/chat_encoder.h"
#include "conversation/chat_renderer.h"
#include "data/tokenizer/added_tokens.h"

namespace viaduct {

/// What stands for a picture in a model's texts.
struct ImageTokens {
  std::string shown;   // what templates print: "<image>", "<start_of_image>"
  std::string token;   // what is repeated
  int32_t id = 0;      // of `token`
  int64_t count = 0;   // how often: vectors of a picture
  std::string before;  // of the repeated token, such as "\n\n<start_of_image>"
  std::string after;
  int64_t side = 0;  // of the pictures, in pixels
};

/// Those of a model by its config.json, which `where` names. LLaVA: (side / patch)², and one more
/// for the class token of CLIP with vision_feature_select_strategy `full`; `default` drops the
/// first vector, of SigLIP too, which has no class token. Gemma 3: mm_tokens_per_image, between its
/// marks. Nothing for other models, which take no pictures here. ConfigError for values that do not
/// fit.
std::optional<ImageTokens> image_tokens(const nlohmann::json& config, const std::string& where,
                                        const AddedTokens& added);

/// Puts pictures into texts. Several threads may use one.
class ImagePlaces {
 public:
  /// Finds out whether the template takes contents as texts or as lists of parts. `renderer` may be
  /// null, where no conversation has a text.
  ImagePlaces(ImageTokens tokens, const ChatRenderer* renderer, const RenderOptions& options);

  const ImageTokens& tokens() const { return tokens_; }
  /// The conversation with contents as the template takes them: of a template for texts alone, the
  /// token and a line break stand where a picture does.
  Conversation shown(Conversation conversation) const;
  /// Puts all tokens of each picture where the template printed one, and moves the ranges; nothing
  /// of them is learned. InvalidConversation unless the text has `pictures` places.
  void expand(ConversationText& text, size_t pictures) const;
  /// The text without what stands for pictures there.
  std::string without_places(std::string text) const;
  /// How many of the ids are `token`.
  int64_t count(const ChatRow& row) const;
  /// Of a row whose end was cut off: leaves out the tokens of a picture that is not whole any more,
  /// and pictures without a place.
  void close(ChatRow& row) const;

 private:
  TemplateValue shown_content(const TemplateValue& content, bool has_images) const;

  ImageTokens tokens_;
  bool takes_texts_ = true, takes_parts_ = true;
};

}  // namespace viaduct
