#pragma once
// `HostGroup`: exchanges between the hosts of a group's ranks: texts, counts, seconds, requests to
// stop, whether a file was written. Nothing here goes over device communicators: a count does not
// wait for gradients, and a GPU's network never carries a text.
//
// Everything is a merge along a binary tree of the ranks, up to rank 0 and, where all need the
// result, down again: a rank sends and receives at most 2 log2(ranks) messages a call, and the tree
// depends
// on the number of ranks alone, so sums are the same bits on every backend. Integers below 2^53 add
// up exactly.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

class Device;
class RankRule;

/// A number that a rank contributes. If `counted` is false, it is not part of the sum and the mean
/// (it copies another rank's number), only of minimum and maximum.
struct HostFigure {
  double value = 0;
  bool counted = true;
};

/// The merged figures of all ranks at one place of the list. The lowest rank with an extreme value
/// is named.
struct FigureOfRanks {
  double sum = 0, least = 0, most = 0;
  int64_t counted = 0;  // ranks in the sum
  int64_t least_rank = 0, most_rank = 0;

  double mean() const { return counted > 0 ? sum / static_cast<double>(counted) : 0; }
  /// Merges the result of higher ranks.
  void merge(const FigureOfRanks& upper);
};

/// A text and the rank that sent it.
struct TextOfRank {
  int64_t rank = 0;
  std::string text;
};

/// A call in progress; only the rank's host thread uses it. Dropping it before it is complete is a
/// failure: others may still need this rank to forward their messages.
class HostCall {
 public:
  virtual ~HostCall();
  /// Blocks until the merged text has arrived (empty on ranks that get none). After the timeout,
  /// CommError that names the call and the ranks that did not join; if a rank failed, CommError
  /// with the first cause.
  virtual std::string wait() = 0;
};

/// An exchange of figures in progress. Default constructed: none.
class PendingFigures {
 public:
  PendingFigures() = default;
  explicit PendingFigures(std::unique_ptr<HostCall> call) : call_(std::move(call)) {}
  bool pending() const { return call_ != nullptr; }
  /// Returns one entry for each posted figure; call it once. Errors as HostCall::wait.
  std::vector<FigureOfRanks> wait();

 private:
  std::unique_ptr<HostCall> call_;
};

class HostGroup {
 public:
  /// A group of ranks 0 … size − 1, of which this is `rank`. All ranks of a group make the same
  /// calls in the same order, with the same number of figures.
  HostGroup(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~HostGroup();
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Calls are recorded on `device` (not owned; null: nowhere) under the name and the members, as
  /// ranks of the run, of the group.
  void record_on(Device* device, std::string_view group, std::shared_ptr<const RankRule> members);

  /// Posts figures and returns at once.
  PendingFigures post(std::span<const HostFigure> figures);
  /// The sum or the maximum of one number; blocks.
  double sum(double value, bool counted = true);
  double most(double value);

  /// The text of the lowest rank whose text is not empty, on all ranks.
  std::optional<TextOfRank> first_text(std::string_view mine);
  /// Rank 0's text on all ranks.
  std::string text_of_rank_0(std::string_view mine);
  /// All ranks' texts in their order on rank 0; nothing elsewhere.
  std::vector<std::string> texts_on_rank_0(std::string_view mine);
  /// The same on all ranks; only for data that grow with the ranks anyway.
  std::vector<std::string> texts_on_all(std::string_view mine);
  /// `merge`d texts on rank 0, "" elsewhere. `merge` gets the results of ranks a … b − 1 and b … c
  /// − 1.
  using Merge = std::string (*)(std::string lower, const std::string& upper);
  std::string merge_on_rank_0(std::string mine, Merge merge);

 protected:
  struct Request {
    std::string_view what;  // a literal, for messages
    std::string mine;
    Merge merge;
    bool to_all = true;
  };
  virtual std::unique_ptr<HostCall> start(Request request) = 0;
  /// True where other ranks are simulated: this one's figures stand for all of them.
  virtual bool speaks_for_all() const { return false; }

 private:
  /// `start`, and an entry of the record if there is one.
  std::unique_ptr<HostCall> call(Request request);

  const int rank_, size_;
  int64_t calls_ = 0;  // recorded or not
  Device* device_ = nullptr;
  std::string group_;
  std::shared_ptr<const RankRule> members_;
};

/// A host group whose other ranks are simulated, or of one rank. A call returns this rank's own
/// input at once: a sum is its figure, counted or not, and lists of texts hold only its text.
std::shared_ptr<HostGroup> make_stated_host_group(int rank, int size);

/// The merge of all ranks' texts along the tree that every backend takes: texts[r] with texts[r +
/// 1], then neighbouring pairs, and so on.
std::string merge_along_tree(std::vector<std::string> texts, HostGroup::Merge merge);

}  // namespace viaduct
