#include "template/parser.h"

#include <algorithm>

#include "base/nearest.h"
#include "template/expression_parser.h"
#include "template/tree_names.h"

namespace viaduct::jinja {
namespace {

using StatementPointer = std::unique_ptr<Statement>;

class Parser {
 public:
  Parser(std::string_view source, const std::string& where)
      : stream_(tokenize(source, where), where), expressions_(stream_) {}

  Tree parse() {
    Tree tree;
    try {
      tree.body = parse_body({});
    } catch (const TemplateFault& fault) {
      stream_.fail(stream_.current().place, fault.what());
    }
    tree.names = stream_.take_names();
    return tree;
  }

 private:
  using Ends = std::vector<std::string_view>;

  StatementPointer make(StatementKind kind, Place place) {
    auto made = std::make_unique<Statement>();
    made->kind = kind;
    made->place = place;
    return made;
  }

  /// Statements up to a tag of `ends`, whose name is the current token then.
  Body parse_body(const Ends& ends) {
    const TokenStream::Level level(stream_);
    Body body;
    while (true) {
      const Token& token = stream_.current();
      if (token.kind == TokenKind::end) {
        if (ends.empty()) return body;
        stream_.fail(token.place, fmt::format("expected {{% {} %}}, found the end of the template, "
                                              "in the block that begins in line {}",
                                              ends.back(), open_.back().line));
      }
      if (token.kind == TokenKind::data) {
        StatementPointer made = make(StatementKind::text, token.place);
        made->text = stream_.take().text;
        body.push_back(std::move(made));
      } else if (token.kind == TokenKind::variable_begin) {
        const Place place = stream_.take().place;
        StatementPointer made = make(StatementKind::output, place);
        made->expressions.push_back(expressions_.parse_tuple());
        if (!stream_.is_kind(TokenKind::variable_end)) stream_.fail_expected("}}");
        stream_.take();
        body.push_back(std::move(made));
      } else {
        const Place place = stream_.take().place;
        if (std::any_of(ends.begin(), ends.end(),
                        [&](std::string_view end) { return stream_.is_name(end); })) {
          return body;
        }
        open_.push_back(place);
        body.push_back(parse_statement(ends));
        open_.pop_back();
        end_tag();
      }
    }
  }

  void end_tag() {
    if (!stream_.is_kind(TokenKind::block_end)) stream_.fail_expected("%}");
    stream_.take();
  }
  /// The body behind the tag that is being read, up to the tag `end`, whose name is taken.
  Body parse_inner(std::string_view end) {
    Body body = parse_inner_until({end});
    stream_.take();
    return body;
  }
  /// The same where the loops around the tag cannot be left from: a function of its own.
  Body parse_outside_of_loops(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Body body = parse_inner(end);
    loops_ = loops;
    return body;
  }
  Body parse_inner_until(const Ends& ends) {
    stream_.skip_symbol(":");
    end_tag();
    return parse_body(ends);
  }

  StatementPointer parse_statement(const Ends& ends) {
    const Token token = stream_.current();
    if (token.kind != TokenKind::name) stream_.fail_expected("the name of a tag");
    const std::string& tag = token.text;
    if (tag == "for") return parse_for();
    if (tag == "if") return parse_if();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call_block();
    if (tag == "filter") return parse_filter_block();
    if (tag == "with") return parse_with();
    if (tag == "print") return parse_print();
    if (tag == "generation") return parse_plain_block(StatementKind::generation, "endgeneration");
    if (tag == "block") return parse_block();
    if (tag == "break" || tag == "continue") {
      stream_.take();
      if (loops_ == 0) stream_.fail(token.place, fmt::format("\"{}\" outside of a loop", tag));
      return make(tag == "break" ? StatementKind::loop_break : StatementKind::loop_continue,
                  token.place);
    }
    if (tag == "autoescape") {
      stream_.fail(token.place, "autoescape is not supported: templates of chats do not use it");
    }
    for (const char* loads : {"extends", "include", "import", "from"}) {
      if (tag == loads) return parse_unsupported(tag);
    }
    fail_unknown(token, ends);
  }

  [[noreturn]] void fail_unknown(const Token& token, const Ends& ends) {
    std::vector<std::string> known = {"for",    "if",       "set",   "macro", "call",
                                      "filter", "with",     "print", "block", "generation",
                                      "break",  "continue", "raw"};
    known.insert(known.end(), ends.begin(), ends.end());
    const auto near = nearest_name(token.text, known);
    std::string message = fmt::format("unknown tag \"{}\"", token.text);
    if (!ends.empty()) {
      message += fmt::format(" in a block that ends with \"{}\"", ends.back());
    }
    if (near) message += fmt::format("; did you mean \"{}\"?", *near);
    stream_.fail(token.place, message);
  }

  StatementPointer parse_for() {
    StatementPointer made = make(StatementKind::loop, stream_.take().place);
    made->targets.push_back(expressions_.parse_target("in", false));
    stream_.expect_name("in");
    made->expressions.push_back(expressions_.parse_tuple(false, "recursive"));
    made->expressions.push_back(stream_.skip_name("if") ? expressions_.parse() : nullptr);
    made->recursive = stream_.skip_name("recursive");
    ++loops_;
    made->bodies.push_back(parse_inner_until({"else", "endfor"}));
    --loops_;
    made->loop_name = stream_.number_of("loop");
    made->reads_loop = made->recursive || body_uses(made->bodies[0], "loop");
    made->bodies.emplace_back();
    if (stream_.skip_name("else")) made->bodies[1] = parse_inner_until({"endfor"});
    stream_.take();
    return made;
  }

  StatementPointer parse_if() {
    StatementPointer made = make(StatementKind::condition, stream_.current().place);
    while (true) {
      stream_.take();
      made->expressions.push_back(expressions_.parse_tuple(false));
      made->bodies.push_back(parse_inner_until({"elif", "else", "endif"}));
      if (stream_.is_name("elif")) continue;
      if (stream_.skip_name("else")) made->bodies.push_back(parse_inner_until({"endif"}));
      stream_.take();
      return made;
    }
  }

  StatementPointer parse_set() {
    StatementPointer made = make(StatementKind::set, stream_.take().place);
    made->targets.push_back(expressions_.parse_target({}, true));
    if (stream_.skip_symbol("=")) {
      made->expressions.push_back(expressions_.parse_tuple());
      return made;
    }
    made->kind = StatementKind::set_block;
    made->expressions.push_back(expressions_.parse_filters(nullptr, false));
    made->bodies.push_back(parse_inner("endset"));
    return made;
  }

  void parse_signature(MacroTree& macro) {
    stream_.expect_symbol("(");
    while (!stream_.is_symbol(")")) {
      if (!macro.parameters.empty()) stream_.expect_symbol(",");
      const Token name = expressions_.parse_plain_name();
      Parameter parameter;
      parameter.text = name.text;
      parameter.name = stream_.number_of(name.text);
      if (stream_.skip_symbol("=")) {
        parameter.standard = expressions_.parse();
      } else if (!macro.parameters.empty() && macro.parameters.back().standard) {
        stream_.fail(name.place, "a parameter without a default behind one that has one");
      }
      for (const Parameter& other : macro.parameters) {
        if (other.text == parameter.text) {
          stream_.fail(name.place, fmt::format("the parameter \"{}\" appears twice", name.text));
        }
      }
      macro.parameters.push_back(std::move(parameter));
    }
    stream_.expect_symbol(")");
  }

  void finish_macro(MacroTree& macro, std::string_view end, Place place) {
    macro.body = parse_outside_of_loops(end);
    macro.uses_caller = body_uses(macro.body, "caller");
    macro.uses_kwargs = body_uses(macro.body, "kwargs");
    macro.uses_varargs = body_uses(macro.body, "varargs");
    for (const Parameter& parameter : macro.parameters) {
      if (parameter.text == "kwargs") macro.uses_kwargs = false;
      if (parameter.text == "varargs") macro.uses_varargs = false;
      if (parameter.text == "caller" && macro.uses_caller) {
        if (!parameter.standard) stream_.fail(place, "the parameter \"caller\" needs a default");
      }
    }
  }

  StatementPointer parse_macro() {
    StatementPointer made = make(StatementKind::macro, stream_.take().place);
    made->macro = std::make_shared<MacroTree>();
    made->macro->name = expressions_.parse_plain_name().text;
    made->macro->name_number = stream_.number_of(made->macro->name);
    parse_signature(*made->macro);
    finish_macro(*made->macro, "endmacro", made->place);
    return made;
  }

  StatementPointer parse_call_block() {
    StatementPointer made = make(StatementKind::call_block, stream_.take().place);
    made->macro = std::make_shared<MacroTree>();
    made->macro->name = "caller";
    if (stream_.is_symbol("(")) parse_signature(*made->macro);
    const Place place = stream_.current().place;
    made->expressions.push_back(expressions_.parse());
    if (made->expressions[0]->kind != ExpressionKind::call) {
      stream_.fail(place, "expected a call behind {% call %}");
    }
    finish_macro(*made->macro, "endcall", made->place);
    return made;
  }

  StatementPointer parse_filter_block() {
    StatementPointer made = make(StatementKind::filter_block, stream_.take().place);
    made->expressions.push_back(expressions_.parse_filters(nullptr, true));
    made->bodies.push_back(parse_inner("endfilter"));
    return made;
  }

  StatementPointer parse_with() {
    StatementPointer made = make(StatementKind::with, stream_.take().place);
    while (!stream_.is_kind(TokenKind::block_end)) {
      if (!made->targets.empty()) stream_.expect_symbol(",");
      made->targets.push_back(expressions_.parse_target({}, false));
      stream_.expect_symbol("=");
      made->expressions.push_back(expressions_.parse());
    }
    made->bodies.push_back(parse_inner("endwith"));
    return made;
  }

  StatementPointer parse_print() {
    StatementPointer made = make(StatementKind::output, stream_.take().place);
    while (!stream_.is_kind(TokenKind::block_end)) {
      if (!made->expressions.empty()) stream_.expect_symbol(",");
      made->expressions.push_back(expressions_.parse());
    }
    return made;
  }

  StatementPointer parse_plain_block(StatementKind kind, std::string_view end) {
    StatementPointer made = make(kind, stream_.take().place);
    made->bodies.push_back(parse_outside_of_loops(end));
    return made;
  }

  StatementPointer parse_block() {
    const Place place = stream_.take().place;
    const std::string name = stream_.expect_kind(TokenKind::name, "the name of the block").text;
    stream_.skip_name("scoped");
    stream_.skip_name("required");
    StatementPointer made = make(StatementKind::block, place);
    made->bodies.push_back(parse_outside_of_loops("endblock"));
    stream_.skip_name(name);
    return made;
  }

  /// Tags that load other templates: there is nowhere to load from, which is an error when reached.
  StatementPointer parse_unsupported(const std::string& tag) {
    StatementPointer made = make(StatementKind::unsupported, stream_.take().place);
    made->text = tag;
    while (!stream_.is_kind(TokenKind::block_end)) {
      if (stream_.is_kind(TokenKind::end)) stream_.fail_expected("%}");
      stream_.take();
    }
    return made;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  std::vector<Place> open_;
  int loops_ = 0;  // around what is being read, in the same function
};

}  // namespace

Tree parse_template(std::string_view source, const std::string& where) {
  return Parser(source, where).parse();
}

}  // namespace viaduct::jinja
