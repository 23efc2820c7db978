#include "base/nearest.h"

#include <algorithm>
#include <cctype>

namespace viaduct {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool equal = a[i - 1] == b[j - 1];
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (equal ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(row);
  }
  return previous[b.size()];
}

/// Whether letters of `text` were left out to make `part`.
bool contains_in_order(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (const char c : text)
    if (found < part.size() && c == part[found]) ++found;
  return found == part.size();
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = 0;
  const std::string wanted = lower(name);
  for (const auto& candidate : candidates) {
    const size_t longer = std::max(name.size(), candidate.size()),
                 shorter = std::min(name.size(), candidate.size());
    const size_t limit = std::max<size_t>(1, longer / 3);
    // The distance is at least the difference of the lengths.
    if (longer - shorter > limit || (best && longer - shorter > best_distance)) continue;
    const std::string known = lower(candidate);
    const size_t distance = edit_distance(wanted, known);
    // Of equally near names one that was only shortened: llama3-405b is llama3.1-405b.
    const bool nearer = !best || distance < best_distance ||
                        (distance == best_distance && contains_in_order(known, wanted) &&
                         !contains_in_order(lower(*best), wanted));
    if (distance <= limit && nearer) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace viaduct
