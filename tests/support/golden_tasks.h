#pragma once
// The reference results of tasks (tests/data/tasks): from lm_eval, for two small models.

#include <filesystem>
#include <string>

#include "base/json.h"
#include "data/tasks/task_file.h"

namespace viaduct::test {

/// A model's results with a number of examples before each context.
struct GoldenTasks {
  explicit GoldenTasks(const std::string& model, bool with_examples = false);

  std::filesystem::path model;  // its folder
  int64_t row = 0;              // most tokens that it reads
  TaskFile file;                // its lines that have results
  std::string examples;         // text before each context
  nlohmann::json tasks;         // figures by task
  nlohmann::json rows;          // by line
};

std::filesystem::path golden_task_file();
std::filesystem::path golden_example_file();

/// Adds a failure for each figure of `tasks`, in the form of `viaduct eval --json`, that differs
/// from the reference.
void expect_golden_figures(const nlohmann::json& tasks, const GoldenTasks& golden);

}  // namespace viaduct::test
