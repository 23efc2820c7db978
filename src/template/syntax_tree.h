#pragma once
// The tree of a parsed template. Names are numbered, so that scopes compare numbers.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "template/template_error.h"
#include "template/template_value.h"

namespace viaduct::jinja {

struct Place {
  int line = 1, column = 1;
};

enum class Operation {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  concat,
  logical_and,
  logical_or,
  equal,
  unequal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
  logical_not,
  negative,
  positive,
};

enum class ExpressionKind {
  constant,
  name,
  list,
  tuple,
  map,
  attribute,
  item,
  slice,
  call,
  filter,
  test,
  unary,
  binary,
  comparison,
  conditional,
};

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct NamedArgument {
  std::string name;
  ExpressionPointer value;
};

/// One node; which members have a meaning is said at the kinds.
struct Expression {
  ExpressionKind kind = ExpressionKind::constant;
  Place place;
  int depth = 1;                         // of the tree below
  Operation operation = Operation::add;  // unary, binary
  int name = -1;                         // name: its number
  TemplateValue value;                   // constant
  std::string text;                      // attribute, filter, test, name: the name
  // list, tuple: the items. map: keys and values in turn. attribute: the object. item: object and
  // index. slice: object, begin, end, step (null: not given). call: the function, then arguments.
  // filter, test: the operand (null for the text of a block), then arguments. unary, binary: the
  // operands. comparison: the operands. conditional: condition, then, else (may be null).
  std::vector<ExpressionPointer> parts;
  std::vector<Operation> operations;              // comparison: between the operands
  std::vector<NamedArgument> named;               // call, filter, test
  ExpressionPointer more_positional, more_named;  // call, filter, test: *list and **map
};

/// A node without parts.
inline ExpressionPointer make_expression(ExpressionKind kind, Place place) {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->place = place;
  return made;
}

/// A deeper tree is refused, since whoever walks it recurses.
inline constexpr int kDeepestTree = 1000;

/// Whenever a part is added. TemplateFault beyond kDeepestTree.
inline void note_depth(Expression& parent, const Expression& part) {
  parent.depth = std::max(parent.depth, part.depth + 1);
  if (parent.depth > kDeepestTree) template_fault("an expression that is nested too deeply");
}
/// Adds a part, which may be null.
inline void adopt(Expression& parent, ExpressionPointer part) {
  if (part) note_depth(parent, *part);
  parent.parts.push_back(std::move(part));
}

/// What is assigned to: a name, an attribute of a namespace, or a tuple of those.
struct Target {
  Place place;
  int name = -1;
  std::string text, attribute;  // the name; `attribute` is set for namespaces
  bool is_tuple = false;
  std::vector<Target> parts;
};

enum class StatementKind {
  text,
  output,
  loop,
  condition,
  macro,
  call_block,
  filter_block,
  set,
  set_block,
  with,
  block,
  generation,
  loop_break,
  loop_continue,
  unsupported,
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  int name = -1;
  std::string text;
  ExpressionPointer standard;  // the value without an argument; null: undefined
};

/// A macro, or the body of a call block.
struct MacroTree {
  std::string name;
  int name_number = -1;
  std::vector<Parameter> parameters;
  Body body;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
};

struct Statement {
  StatementKind kind = StatementKind::text;
  Place place;
  std::string text;                            // text; unsupported: the tag
  std::vector<ExpressionPointer> expressions;  // output: what is printed; loop: iterated, condition
                                               // (may be null); condition: of each branch;
                                               // set, with: values; call_block: the call;
                                               // filter_block, set_block: the filters (may be none)
  std::vector<Target> targets;                 // loop, set, set_block, with
  std::vector<Body> bodies;                    // loop: body, else; condition: branches, then else;
                                               // others: one
  bool recursive = false;                      // loop
  bool reads_loop = false;                     // loop: whether the body reads `loop`
  int loop_name = -1;                          // loop: the number of that name
  std::shared_ptr<MacroTree> macro;            // macro, call_block
};

struct Tree {
  Body body;
  std::vector<std::string> names;  // by number
};

}  // namespace viaduct::jinja
