#pragma once
// What the log of a run shows about its speed: conditions that can be checked on its figures, with
// what to look at next. What the log cannot show says which figure is missing.

#include <optional>
#include <string>
#include <vector>

#include "report/run_log.h"

namespace viaduct {

enum class SymptomState { shown, absent, unknown };

struct Symptom {
  std::string name;  // "data loading"
  SymptomState state = SymptomState::unknown;
  std::string evidence;  // the figures, or which one is missing
  std::string advice;    // of one that is shown
};

/// The figures of a plan of the same configuration (seconds and bytes), if there is one.
struct PlannedRun {
  double step_seconds = 0, communication_seconds = 0;
  int64_t peak_memory_bytes = 0;
};

/// Shares of the step above which a symptom is shown.
struct SymptomLimits {
  double data = 0.01, communication = 0.30, slow_step = 1.5, expert_load = 1.2, slow_rank = 0.05,
         memory = 0.01;
};

/// All symptoms, those that are shown first.
std::vector<Symptom> find_symptoms(const RunLog& log, const std::optional<PlannedRun>& planned,
                                   const SymptomLimits& limits = {});

}  // namespace viaduct
