// chat_template FILE…: renders templates for ./viaduct.sh oracle templates. A line of standard
// input is
// {"template": number of FILE, "variables": {…}, "now"?: [year, month, …, microsecond]}; a line of
// output
// {"text", "generations"} or {"error"}.

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "template/chat_template.h"

namespace {

using nlohmann::json;
using viaduct::TemplateValue;

json answer(const std::vector<std::string>& texts, const std::string& line) {
  const TemplateValue request = TemplateValue::from_json(line, "standard input");
  const auto& members = request.as_map();
  const auto number = static_cast<size_t>(members.find("template")->as_integer());
  const auto parsed = viaduct::ChatTemplate::parse(texts.at(number), "template");
  viaduct::TemplateVariables variables;
  for (const auto& [name, value] : members.find("variables")->as_map().entries()) {
    variables.set(name.as_text(), value);
  }
  if (const TemplateValue* now = members.find("now")) {
    const auto& parts = now->as_list().items;
    const auto part = [&](size_t i) { return static_cast<int>(parts.at(i).as_integer()); };
    variables.clock = {part(0), part(1), part(2), part(3), part(4), part(5), part(6)};
  }
  const viaduct::RenderedTemplate rendered = parsed.render(variables);
  return {{"text", rendered.text}, {"generations", rendered.generations}};
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> texts;
  for (int i = 1; i < count; ++i) texts.push_back(viaduct::read_file(arguments[i], 1 << 24));
  for (std::string line; std::getline(std::cin, line);) {
    json result;
    try {
      result = answer(texts, line);
    } catch (const viaduct::Error& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump(-1, ' ', true, json::error_handler_t::replace) << '\n';
  }
  return 0;
}
