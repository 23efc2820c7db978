#pragma once
// The tokens of a template, read in order by the parser; what parsers of expressions and of
// statements share.

#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "template/lexer.h"

namespace viaduct::jinja {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, std::string where)
      : tokens_(std::move(tokens)), where_(std::move(where)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() {
    Token token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is_symbol(std::string_view symbol) const {
    return current().kind == TokenKind::symbol && current().text == symbol;
  }
  bool is_name(std::string_view name) const { return is_name(current(), name); }
  static bool is_name(const Token& token, std::string_view name) {
    return token.kind == TokenKind::name && token.text == name;
  }
  bool is_kind(TokenKind kind) const { return current().kind == kind; }
  bool skip_symbol(std::string_view symbol) {
    if (!is_symbol(symbol)) return false;
    take();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    take();
    return true;
  }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail_expected('"' + std::string(symbol) + '"');
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected('"' + std::string(name) + '"');
  }
  Token expect_kind(TokenKind kind, const char* shown) {
    if (!is_kind(kind)) fail_expected(shown);
    return take();
  }
  [[noreturn]] void fail_expected(const std::string& what) const {
    fail(current().place, fmt::format("expected {}, found {}", what, shown_token(current())));
  }
  [[noreturn]] void fail(Place place, const std::string& problem) const {
    fail_at(where_, place, problem);
  }

  /// The number of a name, the same each time.
  int number_of(const std::string& name) {
    const auto [place, added] = numbers_.emplace(name, static_cast<int>(names_.size()));
    if (added) names_.push_back(name);
    return place->second;
  }
  std::vector<std::string> take_names() { return std::move(names_); }

  /// One level of nested syntax: a deeply nested template would exhaust the stack.
  class Level {
   public:
    explicit Level(TokenStream& stream) : stream_(stream) {
      if (++stream.depth_ > kDeepest) stream.fail(stream.current().place, "nested too deeply");
    }
    ~Level() { --stream_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    static constexpr int kDeepest = 150;
    TokenStream& stream_;
  };

 private:
  std::vector<Token> tokens_;
  std::string where_;
  size_t at_ = 0;
  int depth_ = 0;
  std::unordered_map<std::string, int> numbers_;
  std::vector<std::string> names_;
};

}  // namespace viaduct::jinja
