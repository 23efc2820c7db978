#include "run/determinism.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace viaduct {
namespace {

/// Cuts the part before `separator` off `text`, which is all of it where there is none.
std::string_view take_part(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

bool begins_with(std::string_view name, std::string_view lower) {
  return name.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), name.begin(), [](char wanted, char found) {
           return wanted == std::tolower(static_cast<unsigned char>(found));
         });
}

/// Sets a variable that is not set, or adds why the value that it has contradicts.
void choose(const char* name, const char* value, bool (*contradicts)(std::string_view),
            std::vector<std::string>& lines, Problems& problems) {
  const char* present = std::getenv(name);
  if (present == nullptr) {
    ::setenv(name, value, 0);
    lines.push_back(
        fmt::format("{}={} is set for this run (model.deterministic_mode)", name, value));
  } else if (contradicts(present)) {
    problems.add(
        "model.deterministic_mode: true, but {}={} (of the environment or env_vars) lets switches "
        "add up, in an order of their own; expected {}, or deterministic_mode = false",
        name, present, value);
  }
}

bool is_on(std::string_view value) {
  return value != "0";
}

}  // namespace

FieldGroup determinism_fields(DeterminismConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field("deterministic_mode", config.deterministic_mode,
             "The same run has the same bits each time. On cpu that is always so, and on a GPU; "
             "for ranks with a GPU each NCCL is told not to leave sums to switches (docs/cuda.md).")
      .alias("deterministic")
      .constraint(
          "with cuda: not dist.use_sharp, nor variables of NCCL that ask for sums in "
          "switches");
  return group;
}

bool sums_in_switches(std::string_view nccl_algo) {
  // "Ring", "^NVLS,NVLSTree", and from NCCL 2.24 on "allreduce:tree,nvls;broadcast:ring".
  while (!nccl_algo.empty()) {
    std::string_view list = take_part(nccl_algo, ';');
    if (const size_t colon = list.find(':'); colon != std::string_view::npos)
      list.remove_prefix(colon + 1);
    if (list.starts_with('^')) continue;
    while (!list.empty()) {
      const std::string_view name = take_part(list, ',');
      if (begins_with(name, "nvls") || begins_with(name, "collnet")) return true;
    }
  }
  return false;
}

std::vector<std::string> set_deterministic(Problems& problems) {
  std::vector<std::string> lines;
  // The first two leave nothing to switches, whatever algorithms NCCL_ALGO excludes.
  choose("NCCL_NVLS_ENABLE", "0", is_on, lines, problems);
  choose("NCCL_COLLNET_ENABLE", "0", is_on, lines, problems);
  choose("NCCL_ALGO", "^NVLS,NVLSTree", sums_in_switches, lines, problems);
  return lines;
}

}  // namespace viaduct
