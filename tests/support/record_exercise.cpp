#include "support/record_exercise.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

#include "comm/comm_group.h"
#include "device/recording.h"

namespace viaduct::test {
namespace {

/// A rank's record as lines: one for each operation, with the number of ranks that must have the
/// same line in front.
std::string lines(const StepRecord& record, int rank) {
  std::string text;
  for (const CollectiveRecord& c : record.collectives()) {
    const bool sends = c.operation == Collective::send, message = is_message(c.operation);
    const std::string what = message
                                 ? fmt::format("from {} to {}, {}", sends ? rank : c.peer,
                                               sends ? c.peer : rank, choice_name_or(c.flow, ""))
                                 : fmt::format("{} from {}", choice_name(c.operation), c.peer);
    text += fmt::format("{} {} of {} ({}), number {}: {} bytes\n", message ? 2 : c.members->size(),
                        what, c.group, c.members->text(), c.sequence, c.bytes);
  }
  for (const HostCallRecord& c : record.host_calls())
    text += fmt::format("{} {} of {} ({}), number {}\n", c.members->size(), c.what, c.group,
                        c.members->text(), c.sequence);
  return text;
}

void run(Communicator& group) {
  const Tensor tensor = host_tensor(DType::f32, {8}), other = host_tensor(DType::f32, {8});
  std::fill_n(tensor.data<float>(), 8, 1.0f);
  group.all_reduce(tensor, ReduceOp::sum).wait();
  group.broadcast(tensor, group.size() - 1).wait();
  if (group.size() > 1) {
    const int next = (group.rank() + 1) % group.size(),
              previous = (group.rank() + group.size() - 1) % group.size();
    for (const Flow flow : {Flow::activations, Flow::gradients}) {
      CommGroup messages(group);
      messages.send(tensor, next, flow);
      messages.receive(other, previous, flow);
      messages.start().wait();
    }
  }
  group.host().sum(1);
}

}  // namespace

void exercise_records(const std::shared_ptr<Communicator>& world) {
  const auto device = make_cpu_device(1);
  StepRecord record;
  {
    world->record_on(device.get());
    std::vector<int> alike;  // of even or of odd rank
    for (int rank = world->rank() % 2; rank < world->size(); rank += 2) alike.push_back(rank);
    const auto part = world->split(alike, "alike");
    run(*part);  // operations that nobody recorded are errors too
    const Recording recording(*device, record);
    for (int round = 0; round < 2; ++round) run(*part), run(*world);
  }
  world->record_on(nullptr);
  std::map<std::string, int> ranks_with;
  for (const std::string& text : world->host().texts_on_all(lines(record, world->rank()))) {
    std::istringstream all(text);
    for (std::string line; std::getline(all, line);) ++ranks_with[line];
  }
  for (const auto& [line, count] : ranks_with) {
    if (std::stoi(line) != count)
      throw std::runtime_error(fmt::format("{} ranks recorded \"{}\"", count, line));
  }
}

}  // namespace viaduct::test
