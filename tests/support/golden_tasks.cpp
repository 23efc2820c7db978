#include "support/golden_tasks.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/paths.h"

namespace viaduct::test {

std::filesystem::path golden_task_file() {
  return test_data("tasks") / "tasks.jsonl";
}

std::filesystem::path golden_example_file() {
  return test_data("tasks") / "examples.jsonl";
}

GoldenTasks::GoldenTasks(const std::string& name, bool with_examples)
    : model(test_data("tasks") / name), file(read_task_file("", golden_task_file())) {
  const auto all = nlohmann::json::parse(read_file(test_data("tasks") / "expected.json"));
  const nlohmann::json& of_model = all.at("models").at(name);
  row = of_model.at("max_length");
  const nlohmann::json& results = of_model.at(with_examples ? "two_shot" : "zero_shot");
  tasks = results.at("tasks");
  rows = results.at("rows");
  if (!with_examples) return;
  std::erase_if(file.lines, [](const TaskLine& line) { return line.task != "facts"; });
  examples = few_shot_text(read_task_file("", golden_example_file()), 2, " ");
}

void expect_golden_figures(const nlohmann::json& found, const GoldenTasks& golden) {
  for (const auto& [task, figures] : golden.tasks.items()) {
    for (const auto& [name, value] : figures.items()) {
      const double expected = value.get<double>();
      EXPECT_NEAR(found.at(task).at(name).get<double>() / std::max(1.0, std::abs(expected)),
                  expected / std::max(1.0, std::abs(expected)), 2e-4)
          << task << " " << name;
    }
  }
}

}  // namespace viaduct::test
