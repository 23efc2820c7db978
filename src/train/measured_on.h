#pragma once
// What an evaluation's figures are measured on: those of two sessions of a run mean the same only
// where it is the same.

#include <string>
#include <vector>

#include "data/dataset_builder.h"
#include "data/tasks/task_file.h"
#include "engine/evaluation.h"

namespace viaduct {

/// Identifies what the loss of validation data is the mean of, 16 digits: the content of the data
/// (dataset_fingerprint.h) and their shares, which rows of them are read, and which tokens of a row
/// are scored. Neither where the files lie nor what trains changes it. `sets`: of an evaluation;
/// "" for none. IoError for data that cannot be read.
std::string validation_measured_on(DatasetBuilder& builder, const std::vector<EvaluationSet>& sets);

/// The same of the figures of tasks: their lines, and the `positions` of the model that a text is
/// cut to.
std::string tasks_measured_on(const TaskFile& tasks, int64_t positions);

}  // namespace viaduct
