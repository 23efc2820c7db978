#include "timeline/profile.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace viaduct {
namespace {

using Key = std::tuple<size_t, ProfileKind, std::string, std::string>;  // phase, kind, name, kernel

/// Finds the scope of kind phase (or step, if there is no phase) around an event.
class Phases {
 public:
  explicit Phases(const StepRecord& record) : record_(record) {}

  int64_t around(int64_t scope) const {
    while (scope >= 0 && at(scope).kind == ScopeKind::segment) scope = at(scope).parent;
    return scope;
  }
  /// −1 unless all of it is inside a step that has ended.
  int64_t step_of(int64_t scope) const {
    while (scope >= 0 && at(scope).kind != ScopeKind::step) scope = at(scope).parent;
    return scope >= 0 && at(scope).end_at >= 0 ? scope : -1;
  }
  /// The innermost phase or step that is open at a position. Scopes begin in ascending order.
  int64_t open_at(int64_t position) const {
    const auto& scopes = record_.scopes();
    auto next = std::upper_bound(
        scopes.begin(), scopes.end(), position,
        [](int64_t value, const ScopeRecord& scope) { return value < scope.begin_at; });
    int64_t scope = next - scopes.begin() - 1;
    while (scope >= 0 && at(scope).end_at >= 0 && at(scope).end_at <= position)
      scope = at(scope).parent;
    return around(scope);
  }
  const ScopeRecord& at(int64_t scope) const {
    return record_.scopes()[static_cast<size_t>(scope)];
  }

 private:
  const StepRecord& record_;
};

/// Time of each op minus the time of the ops that ran inside it (which were recorded before it).
std::vector<double> own_seconds(const std::vector<OpEntryRecord>& ops) {
  std::vector<double> own(ops.size());
  std::vector<size_t> open;  // ops that no enclosing op has claimed yet
  for (size_t i = 0; i < ops.size(); ++i) {
    own[i] = ops[i].end_seconds - ops[i].begin_seconds;
    while (!open.empty() && ops[open.back()].begin_seconds >= ops[i].begin_seconds) {
      own[i] -= ops[open.back()].end_seconds - ops[open.back()].begin_seconds;
      open.pop_back();
    }
    open.push_back(i);
  }
  return own;
}

/// Adds up rows and the time of each phase that they explain.
class Table {
 public:
  Table(const StepRecord& record, const MachinePeaks& peaks) : peaks_(peaks), phases_(record) {
    unexplained_.resize(record.scopes().size());
    for (size_t i = 0; i < record.scopes().size(); ++i) {
      const ScopeRecord& scope = record.scopes()[i];
      const auto index = static_cast<int64_t>(i);
      if (scope.kind == ScopeKind::segment || phases_.step_of(index) < 0) continue;
      const double seconds = scope.end_seconds - scope.begin_seconds;
      unexplained_[i] += seconds;
      if (scope.kind == ScopeKind::step) {
        result_.seconds += seconds, ++result_.steps;
      } else {
        unexplained_[static_cast<size_t>(phases_.around(scope.parent))] -= seconds;
      }
      phase_number(index);
    }
  }

  void add(int64_t phase, ProfileKind kind, std::string_view name, std::string_view kernel,
           double seconds, const Cost& cost) {
    if (phase < 0 || phases_.step_of(phase) < 0) return;
    unexplained_[static_cast<size_t>(phase)] -= seconds;
    ProfileRow& row = rows_[{phase_number(phase), kind, std::string(name), std::string(kernel)}];
    row.calls += 1;
    row.seconds += seconds;
    row.cost += cost;
    if (kind == ProfileKind::op) row.roofline_seconds += roofline_seconds(cost, peaks_);
  }

  Profile finish() {
    for (size_t i = 0; i < unexplained_.size(); ++i) {
      const auto scope = static_cast<int64_t>(i);
      if (phases_.at(scope).kind == ScopeKind::segment || phases_.step_of(scope) < 0) continue;
      ProfileRow& row = rows_[{phase_number(scope), ProfileKind::host, "host", ""}];
      row.calls += 1;
      row.seconds += unexplained_[i];
    }
    for (auto& [key, row] : rows_) {
      row.phase = names_[std::get<0>(key)];
      row.kind = std::get<1>(key), row.name = std::get<2>(key), row.kernel = std::get<3>(key);
      result_.rows.push_back(std::move(row));
    }
    const auto number = [&](const ProfileRow& row) {
      return std::find(names_.begin(), names_.end(), row.phase) - names_.begin();
    };
    std::stable_sort(result_.rows.begin(), result_.rows.end(), [&](const auto& a, const auto& b) {
      return std::tuple(number(a), -a.seconds) < std::tuple(number(b), -b.seconds);
    });
    return std::move(result_);
  }

  const Phases& phases() const { return phases_; }

 private:
  size_t phase_number(int64_t scope) {
    const ScopeRecord& phase = phases_.at(scope);
    const std::string name = phase.kind == ScopeKind::step ? "step" : phase.name;
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) names_.push_back(name);
    return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }

  MachinePeaks peaks_;
  Phases phases_;
  std::vector<double> unexplained_;  // of each phase and step
  std::vector<std::string> names_;   // of phases, in order of appearance
  std::map<Key, ProfileRow> rows_;
  Profile result_;
};

}  // namespace

double ProfileRow::bytes_per_second() const {
  return seconds > 0 ? static_cast<double>(cost.bytes_read + cost.bytes_written) / seconds : 0;
}

Profile profile(const StepRecord& record, const MachinePeaks& peaks) {
  Table table(record, peaks);
  const std::vector<double> own = own_seconds(record.ops());
  for (size_t i = 0; i < record.ops().size(); ++i) {
    const OpEntryRecord& op = record.ops()[i];
    table.add(table.phases().around(op.scope), ProfileKind::op, op.op, op.kernel, own[i], op.cost);
  }
  for (const CollectiveRecord& c : record.collectives()) {
    if (c.completed_at < 0 || c.ranks == 1) continue;  // one rank: nothing moves
    Cost moved;
    moved.bytes_written = c.wire_bytes;
    table.add(table.phases().open_at(c.completed_at), ProfileKind::communication,
              std::string(choice_name(c.operation)) + " " + c.group, "",
              c.complete_seconds - c.wait_begin_seconds, moved);
  }
  return table.finish();
}

std::vector<ProfileRow> over_phases(const Profile& profile) {
  std::map<std::tuple<ProfileKind, std::string, std::string>, ProfileRow> sums;
  for (const ProfileRow& row : profile.rows) {
    ProfileRow& sum = sums[{row.kind, row.name, row.kernel}];
    sum.kind = row.kind, sum.name = row.name, sum.kernel = row.kernel;
    sum.calls += row.calls;
    sum.seconds += row.seconds;
    sum.cost += row.cost;
    sum.roofline_seconds += row.roofline_seconds;
  }
  std::vector<ProfileRow> rows;
  for (auto& [key, row] : sums) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return rows;
}

}  // namespace viaduct
