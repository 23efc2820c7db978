#include "data/conversation_index.h"

#include <limits>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/physical_memory.h"
#include "base/units.h"
#include "data/empty_split.h"

namespace viaduct {
namespace {

using nlohmann::ordered_json;

constexpr char kClass[] = "ConversationDataset";

std::vector<int32_t> lengths_of(const ConversationRequest& request) {
  const IndexedDataset& dataset = *request.dataset;
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(request.range.size()));
  int64_t tokens = 0;
  for (int64_t i = request.range.first; i < request.range.end; ++i) {
    lengths.push_back(dataset.sequence_length(i));
    tokens += lengths.back();
  }
  dataset.check_read();
  const auto& asked = request.num_samples;
  VIADUCT_CHECK(ConfigError, tokens > 0,
                "dataset {}: its {} split is empty: conversations [{}, {}) of {} hold no token "
                "({} asked for){}",
                dataset.prefix(), split_name(request.split), request.range.first, request.range.end,
                dataset.sequence_count(), asked ? counted(*asked, "row") : std::string("all rows"),
                empty_split_advice(request.split, request.range, dataset.sequence_count()));
  return lengths;
}

/// Checked now: a mistyped, far too large number of rows would otherwise exhaust memory.
void check_memory(const ConversationRequest& request, const EpochRows& epoch) {
  if (!request.num_samples) return;
  const auto rows = static_cast<double>(epoch.row_ends.size()),
             parts = static_cast<double>(epoch.conversations.size() + epoch.offsets.size());
  const double bytes =
      static_cast<double>(*request.num_samples) * (8 + sizeof(int32_t) * parts / rows);
  VIADUCT_CHECK(ConfigError, 2 * bytes < physical_memory_bytes(),
                "dataset {}: the order of {} rows of its {} split would take {:.0f} GiB, more than "
                "half of this machine's memory",
                request.dataset->prefix(), *request.num_samples, split_name(request.split),
                bytes / (1 << 30));
}

void write(IndexSink& sink, const IndexShape& shape, const void* values) {
  sink.begin(shape);
  sink.write(values, static_cast<size_t>(shape.bytes()));
}

}  // namespace

ConversationIndex::ConversationIndex(std::vector<IndexArray> arrays)
    : parts_(std::move(arrays.at(0))), rows_(std::move(arrays.at(1))) {
  const int64_t columns = parts_.shape().columns;
  VIADUCT_CHECK(IoError,
                (columns == 0 || columns == 2) && rows_.shape().columns == 0 && rows_.size() > 0 &&
                    rows_[rows_.size() - 1] == parts_.shape().rows,
                "a conversation index of {} and a row index of {} do not belong together",
                describe(parts_.shape()), describe(rows_.shape()));
}

void ConversationIndex::check_read() const {
  parts_.check_read();
  rows_.check_read();
}

void build_conversation_index(const ConversationRequest& request, IndexSink& sink) {
  VIADUCT_CHECK(ConfigError,
                request.dataset->sequence_count() <= std::numeric_limits<int32_t>::max(),
                "dataset {}: {} conversations, more than can be numbered; split the file",
                request.dataset->prefix(), request.dataset->sequence_count());
  const std::vector<int32_t> lengths = lengths_of(request);
  const int64_t wanted = request.num_samples.value_or(1);
  const auto first = static_cast<int32_t>(request.range.first);
  std::vector<int32_t> parts;
  std::vector<int64_t> rows{0};
  const bool split = request.packing.split;
  for (int64_t epoch = 0; epoch == 0 || static_cast<int64_t>(rows.size()) - 1 < wanted; ++epoch) {
    const EpochRows plan = plan_epoch(lengths, request.packing, request.random_seed, epoch);
    if (epoch == 0) check_memory(request, plan);
    const int64_t before = rows.back();
    for (size_t i = 0; i < plan.conversations.size(); ++i) {
      parts.push_back(first + plan.conversations[i]);
      if (split) parts.push_back(plan.offsets[i]);
    }
    for (const int64_t end : plan.row_ends) rows.push_back(before + end);
  }
  const IndexShape shape{IndexType::int32, rows.back(), split ? 2 : 0};
  write(sink, shape, parts.data());
  write(sink, {IndexType::int64, static_cast<int64_t>(rows.size()), 0}, rows.data());
}

StoredConversationIndex::StoredConversationIndex(ConversationRequest request, IndexStorage storage)
    : request_(std::move(request)), storage_(std::move(storage)) {
  if (storage_.fast_cache_load || storage_.path_to_cache ||
      request_.range.size() >= kManyConversations)
    files_ = files();
  if (!files_ || !storage_.defer_npy_index_mmap) {
    rows_ = get().rows();
    return;
  }
  if (!storage_.fast_cache_load)
    ensure_built(*files_, [&](IndexSink& sink) { build_conversation_index(request_, sink); });
  rows_ = read_npy_shape(files_->array_file(1)).rows - 1;
}

std::string StoredConversationIndex::description() const {
  const PackingSettings& packing = request_.packing;
  const auto& asked = request_.num_samples;
  return index_description({{"class", kClass},
                            {"dataset_path", request_.dataset->prefix()},
                            {"num_samples", asked ? ordered_json(*asked) : ordered_json()},
                            {"index_split", split_name(request_.split)},
                            {"conversations", {request_.range.first, request_.range.end}},
                            {"random_seed", request_.random_seed},
                            {"row_tokens", packing.row_tokens},
                            {"packing_algorithm", static_cast<int>(packing.algorithm)},
                            {"multiple", packing.multiple},
                            {"packing_split", packing.split}});
}

IndexCacheEntry StoredConversationIndex::files() const {
  IndexCacheEntry entry = index_files(storage_, kClass, request_.dataset->prefix(), request_.split,
                                      description(), {"conversation_index", "row_index"});
  // The order depends on the lengths of the conversations and on the description.
  if (!storage_.fast_cache_load) entry.source = hash64(request_.dataset->length_bytes());
  return entry;
}

const ConversationIndex& StoredConversationIndex::get() const {
  std::call_once(opened_, [&] {
    index_ = ConversationIndex(
        open_index(files_, storage_, request_.dataset->prefix(),
                   [&](IndexSink& sink) { build_conversation_index(request_, sink); }));
  });
  return index_;
}

}  // namespace viaduct
