#include "conversation/prefixes.h"

#include <algorithm>

namespace viaduct {

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  auto at = static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin()).first -
      a.begin());
  const auto inside = [&](std::string_view text) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  while (at > 0 && (inside(a) || inside(b))) --at;
  return at;
}

ConversationPrefixes::ConversationPrefixes(const ChatRenderer& renderer,
                                           const Conversation& conversation,
                                           const RenderOptions& options)
    : renderer_(renderer), conversation_(conversation), options_(options) {
  if (options.add_generation_prompt || renderer.template_of(conversation).has_generation()) {
    rendered_.whole = renderer.render(conversation, options);
  } else {
    rendered_ = renderer.render_prefixes(conversation, options);
  }
}

RenderedTemplate ConversationPrefixes::render(size_t count, bool add_generation_prompt) const {
  RenderOptions options = options_;
  options.add_generation_prompt = add_generation_prompt;
  return renderer_.render(conversation_, count, options);
}

PrefixText ConversationPrefixes::prefix(size_t count, bool add_generation_prompt) const {
  const std::string& whole = rendered_.whole.text;
  if (count == conversation_.messages.size() &&
      add_generation_prompt == options_.add_generation_prompt) {
    return {whole.size(), ""};
  }
  if (const auto known = rendered_.prefixes.find(count); known != rendered_.prefixes.end()) {
    const auto& [shared, plain, prompt] = known->second;
    const std::string& more = add_generation_prompt ? prompt : plain;
    const size_t common = common_prefix(std::string_view(whole).substr(shared), more);
    return {shared + common, more.substr(common)};
  }
  std::string text = render(count, add_generation_prompt).text;
  const size_t shared = common_prefix(whole, text);
  return {shared, text.substr(shared)};
}

std::string ConversationPrefixes::followed(size_t count, std::vector<ChatMessage> others) const {
  Conversation conversation = conversation_;
  conversation.messages.resize(count);
  for (ChatMessage& other : others) conversation.messages.push_back(std::move(other));
  RenderOptions options = options_;
  options.add_generation_prompt = false;
  return renderer_.render(conversation, options).text;
}

size_t ConversationPrefixes::generations(size_t count) const {
  if (count == 0) return 0;
  if (count == conversation_.messages.size()) return rendered_.whole.generations.size();
  return render(count, false).generations.size();
}

}  // namespace viaduct
