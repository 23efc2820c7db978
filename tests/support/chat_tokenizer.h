#pragma once
// A tokenizer whose tokens are single characters, with the control tokens of ChatML and Llama: the
// mask of its tokens is a mask of characters. And the text of a row with what is learned in
// brackets.

#include <filesystem>
#include <string>

#include "conversation/chat_encoder.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct::test {

/// <|im_start|>, <|im_end|>, <s> and </s> are special, <think> is not; é is two tokens.
Tokenizer chat_tokenizer();

/// ChatML, without a default system message.
extern const char* const kChatMl;
/// The same with {% generation %} around what the assistant writes.
extern const char* const kChatMlGeneration;

/// A model folder with this tokenizer and template.
void write_chat_model(const std::filesystem::path& folder, const std::string& chat_template);

/// The text of a row, learned tokens in [brackets].
std::string bracketed(const Tokenizer& tokenizer, const ChatRow& row);

}  // namespace viaduct::test
