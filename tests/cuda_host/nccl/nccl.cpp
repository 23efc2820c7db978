// The functions of NCCL's double, and its connections.

#include "nccl.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "cuda_host/emulator.h"
#include "cuda_host/nccl/exchange.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/runtime/state.h"

using cuda_host::runtime;
using cuda_host::Runtime;
using cuda_host::Work;

namespace nccl_double {
namespace {

/// The ranks that connect with one id.
struct Clique {
  int ranks = 0;
  std::set<int> here, devices;
  std::vector<std::vector<size_t>> windows;  // of each, the bytes of those who have called
  std::map<int64_t, std::shared_ptr<Round>> rounds;
  // Messages that the peer has not called yet, by (from, to).
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> sent, awaited;
};

/// A rank of a connection: state that its pieces of work share with the connection, which may be
/// destroyed earlier.
struct Member {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  bool aborted = false;
  int in_flight = 0, in_graphs = 0;  // calls
  int64_t next_round = 0;
  int64_t given = 0, left = 0;  // entries so far
  size_t windows = 0;
  ncclResult_t failed = ncclSuccess;
  std::string error;

  bool all_here() const { return static_cast<int>(clique->here.size()) == clique->ranks; }
};

}  // namespace
}  // namespace nccl_double

using namespace nccl_double;

struct ncclComm {
  std::shared_ptr<Member> member;
  cudaStream_t stream = nullptr;  // of its first call
  bool connecting = true, blocks = false;
  int polls = 0;                         // until the late work is done
  std::function<ncclResult_t()> late{};  // not yet in the stream
  std::map<const char*, size_t> registered{}, windows{};
  Config config{};
  /// A window that not all ranks have registered yet.
  struct Coming {
    size_t number = 0;
    char* data = nullptr;
    size_t bytes = 0;
    ncclWindow_t* window = nullptr;
  };
  std::optional<Coming> coming{};

  using Ranges = std::map<const char*, size_t>;
  /// Where in one of the ranges the memory is; −1: in none.
  static int64_t place_in(const Ranges& ranges, const void* data, size_t bytes) {
    const auto* const at = static_cast<const char*>(data);
    for (const auto& [begin, size] : ranges)
      if (at >= begin && at + bytes <= begin + size) return at - begin;
    return -1;
  }
  static bool all_in(const Ranges& ranges, const Call& call, size_t in, size_t out) {
    return (call.in == nullptr || place_in(ranges, call.in, in) >= 0) &&
           (call.out == nullptr || place_in(ranges, call.out, out) >= 0);
  }
};

namespace {

struct State {
  Settings settings;
  std::mt19937_64 random;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  int64_t ids = 0, live = 0, calls = 0, fails_from = 0;
  std::vector<Config> configs;
  std::vector<std::pair<Config, std::string>> by_config;  // of each call, its connection's
  Registered registered;
  std::map<void*, size_t> allocated;  // by ncclMemAlloc
  std::map<int, int> resident;        // operations that have joined and not left, by device
};
/// Guarded by the runtime's lock.
State& state() {
  static State instance;
  return instance;
}

/// Calls of this thread between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Call> calls;
  bool mixed = false;
};
thread_local Group group;
thread_local std::string no_connection;

ncclResult_t refuse(Member& member, ncclResult_t result, std::string why) {
  member.error = std::move(why);
  return member.failed = result;
}
ncclResult_t refuse(ncclComm_t comm, ncclResult_t result, std::string why) {
  (comm != nullptr ? comm->member->error : no_connection) = std::move(why);
  return result;
}

/// One entry of a rank in its stream.
struct Entry {
  std::vector<std::pair<std::shared_ptr<Round>, int>> rounds;       // and the rank
  std::vector<std::pair<std::shared_ptr<Message>, bool>> messages;  // and whether it receives
  bool fails = false;
  int64_t number = 0;  // among those of the rank in this connection

  void come() const {
    for (const auto& [round, rank] : rounds) round->came[static_cast<size_t>(rank)] = true;
    for (const auto& [message, receives] : messages)
      (receives ? message->receiver_came : message->sender_came) = true;
  }
  bool all_came() const {
    if (fails) return false;
    for (const auto& [round, rank] : rounds)
      if (!round->all_came()) return false;
    for (const auto& [message, receives] : messages)
      if (!message->all_came()) return false;
    return true;
  }
  void leave(Sums sums) const {
    for (const auto& [round, rank] : rounds) round->exchange(sums), round->leave(rank);
    for (const auto& [message, receives] : messages) message->leave(receives);
  }
};

ncclResult_t join_round(Member& member, const Call& call, Entry& entry) {
  auto& rounds = member.clique->rounds;
  const int64_t number = member.next_round++;
  std::shared_ptr<Round>& round = rounds[number];
  if (round == nullptr) round = std::make_shared<Round>(call, member.clique->ranks);
  if (signature(round->call) != signature(call))
    return refuse(member, ncclInvalidUsage,
                  "rank " + std::to_string(member.rank) + " calls " + signature(call) +
                      ", another rank " + signature(round->call));
  if (round->call.shared_at != call.shared_at)
    return refuse(member, ncclInvalidUsage,
                  "rank " + std::to_string(member.rank) + " has its memory at " +
                      std::to_string(call.shared_at) + " of its window, another rank at " +
                      std::to_string(round->call.shared_at));
  round->parts[static_cast<size_t>(member.rank)] = call;
  entry.rounds.emplace_back(round, member.rank);
  if (++round->called == member.clique->ranks) rounds.erase(number);
  return ncclSuccess;
}

ncclResult_t join_message(Member& member, const Call& call, Entry& entry) {
  const bool receives = call.kind == Kind::receive;
  const std::pair<int, int> ends =
      receives ? std::pair{call.peer, member.rank} : std::pair{member.rank, call.peer};
  auto& waiting = (receives ? member.clique->sent : member.clique->awaited)[ends];
  std::shared_ptr<Message> message;
  if (!waiting.empty()) {
    message = waiting.front();
    waiting.pop_front();
    if (message->bytes != bytes_of(call))
      return refuse(member, ncclInvalidUsage,
                    "a message of " + std::to_string(message->bytes) + " bytes at one end has " +
                        std::to_string(bytes_of(call)) + " at the other");
  } else {
    message = std::make_shared<Message>();
    message->bytes = bytes_of(call);
    (receives ? member.clique->awaited : member.clique->sent)[ends].push_back(message);
  }
  (receives ? message->out : const_cast<void*&>(message->in)) =
      receives ? call.out : const_cast<void*>(call.in);
  entry.messages.emplace_back(message, receives);
  return ncclSuccess;
}

/// Joins the calls to those of the other ranks. Returns null if they do not match, and the
/// connection fails.
std::shared_ptr<Entry> join(Member& member, const std::vector<Call>& calls) {
  auto entry = std::make_shared<Entry>();
  for (const Call& call : calls) {
    const bool message = call.kind == Kind::send || call.kind == Kind::receive;
    if ((message ? join_message(member, call, *entry) : join_round(member, call, *entry)) !=
        ncclSuccess)
      return nullptr;
    const int64_t fails_from = state().fails_from;
    if (++state().calls >= fails_from && fails_from > 0) {
      entry->fails = true;
      refuse(member, ncclRemoteError, "the other end is gone");
    }
  }
  entry->number = member.given++;
  ++member.in_flight;
  return entry;
}

Work coming(const std::string& what, int device, const std::shared_ptr<Member>& member,
            const std::shared_ptr<Entry>& entry) {
  const auto come = [device, member, entry] {
    ++state().resident[device];
    if (entry == nullptr) return;
    if (!member->aborted && member->left != entry->number)
      throw cuda_host::Error("a connection's operations overtake each other");
    entry->come();
  };
  const int room = state().settings.resident;
  if (room == 0) return {.what = what, .run = come};
  const auto has_room = [device, room] { return state().resident[device] < room; };
  return {.what = what + " (no room)", .run = come, .others_came = has_room};
}
Work leaving(const std::string& what, int device, const std::shared_ptr<Member>& member,
             const std::shared_ptr<Entry>& entry) {
  const auto leave = [device, member, entry, sums = state().settings.sums] {
    --state().resident[device];
    if (entry == nullptr) return;
    --member->in_flight;
    ++member->left;
    if (!member->aborted) entry->leave(sums);
  };
  const auto others_came = [member, entry] {
    return member->aborted || (entry != nullptr && entry->all_came());
  };
  return {.what = what, .run = leave, .others_came = others_came};
}

/// Calls in a graph: each launch joins them anew.
struct Captured {
  std::shared_ptr<Member> member;
  std::vector<Call> calls;
  std::shared_ptr<Entry> entry = nullptr;  // of this launch

  ~Captured() { --member->in_graphs; }
};

ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, const std::vector<Call>& calls) {
  std::string what = "NCCL";
  for (const Call& call : calls) what += std::string(" ") + kind_name(call.kind);
  const std::shared_ptr<Member> member = comm->member;
  const int device = stream->device;
  if (stream->capture != nullptr) {
    const auto captured = std::make_shared<Captured>(member, calls);
    ++member->in_graphs;
    runtime().push(stream, {.what = what, .again = [=] {
                              if (!member->aborted) captured->entry = join(*member, calls);
                              return coming(what, device, member, captured->entry);
                            }});
    runtime().push(stream, {.what = what, .again = [=] {
                              return leaving(what, device, member, std::move(captured->entry));
                            }});
    return ncclSuccess;
  }
  const std::shared_ptr<Entry> entry = join(*member, calls);
  if (entry == nullptr) return member->failed;
  runtime().push(stream, coming(what, device, member, entry));
  runtime().push(stream, leaving(what, device, member, entry));
  return ncclSuccess;
}

ncclResult_t launch(ncclComm_t comm, cudaStream_t stream, std::vector<Call> calls) {
  if (comm->connecting || comm->late)
    return refuse(comm, ncclInvalidUsage, "a call while the connection is in progress");
  if (comm->stream == nullptr) comm->stream = stream;
  if (comm->stream != stream)
    return refuse(comm, ncclInvalidUsage, "two streams for one connection");
  const bool late = state().random() % 4 == 0;
  if (comm->blocks || !late) return enqueue(comm, stream, calls);
  comm->polls = static_cast<int>(state().random() % 3) + 1;
  comm->late = [=] { return enqueue(comm, stream, calls); };
  return ncclInProgress;
}

/// What is left of a call on a connection that blocks: other ranks may use the library meanwhile.
ncclResult_t finish(ncclComm_t comm, Runtime::Call& lock) {
  ncclResult_t result = ncclInProgress;
  lock.lock.unlock();
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    ncclCommGetAsyncError(comm, &result);
  }
  lock.lock.lock();
  return result;
}

/// Bytes of all that a rank reads and writes.
std::pair<size_t, size_t> sizes_of(const Call& call, int ranks) {
  const size_t bytes = bytes_of(call), all = bytes * static_cast<size_t>(ranks);
  return {call.kind == Kind::reduce_scatter ? all : bytes,
          call.kind == Kind::all_gather ? all : bytes};
}

/// What other ranks read or write of this one's memory: what it gives to a sum, what it gathers.
int64_t shared_place(const ncclComm_t comm, const Call& call, size_t in, size_t out) {
  if (!ncclComm::all_in(comm->windows, call, in, out)) return -1;
  switch (call.kind) {
    case Kind::all_gather:
      return ncclComm::place_in(comm->windows, call.out, out);
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      return ncclComm::place_in(comm->windows, call.in, in);
    default:
      return -1;
  }
}

ncclResult_t called(ncclComm_t comm, cudaStream_t stream, Call call) {
  const Runtime::Call lock = runtime().call();
  if (lock.error != cudaSuccess) return ncclUnhandledCudaError;
  if (!runtime().peers_may_access(call.in) || !runtime().peers_may_access(call.out))
    return refuse(comm, ncclInvalidUsage,
                  "memory that the other GPUs of the process cannot access");
  const auto [in, out] = sizes_of(call, comm->member->clique->ranks);
  call.shared_at = shared_place(comm, call, in, out);
  state().by_config.emplace_back(comm->config, kind_name(call.kind));
  if (group.depth == 0) return launch(comm, stream, {call});
  if (ncclComm::all_in(comm->registered, call, in, out)) ++state().registered.calls;
  if (ncclComm::all_in(comm->windows, call, in, out)) ++state().registered.calls_in_windows;
  group.mixed |= group.comm != nullptr && (group.comm != comm || group.stream != stream);
  group.comm = comm;
  group.stream = stream;
  group.calls.push_back(call);
  return ncclSuccess;
}

}  // namespace

namespace nccl_double {

void reset(const Settings& settings) {
  const Runtime::Call lock = runtime().call();
  state() = {.settings = settings, .random = std::mt19937_64(settings.seed)};
}
int64_t live_connections() {
  const Runtime::Call lock = runtime().call();
  return state().live;
}
int64_t calls() {
  const Runtime::Call lock = runtime().call();
  return state().calls;
}
std::vector<Config> configs() {
  const Runtime::Call lock = runtime().call();
  return state().configs;
}
std::map<std::string, int64_t> calls_with(const Config& config) {
  const Runtime::Call lock = runtime().call();
  std::map<std::string, int64_t> calls;
  for (const auto& [made, kind] : state().by_config)
    if (made == config) ++calls[kind];
  return calls;
}
Registered registered() {
  const Runtime::Call lock = runtime().call();
  return state().registered;
}
void fail_from_call(int64_t number) {
  const Runtime::Call lock = runtime().call();
  state().fails_from = number;
}

}  // namespace nccl_double

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const Runtime::Call lock = runtime().call();
  *version = state().settings.version;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Runtime::Call lock = runtime().call();
  *id = {};
  const int64_t number = ++state().ids;
  std::memcpy(id->internal + 8, &number, sizeof number);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  Runtime::Call lock = runtime().call();
  *comm = nullptr;
  if (rank < 0 || rank >= ranks || config->size != sizeof *config ||
      (config->blocking != 0 && config->blocking != 1))
    return refuse(nullptr, ncclInvalidArgument, "rank, size, or whether the connection blocks");
  const auto given = [](int value) {
    return value == NCCL_CONFIG_UNDEF_INT ? std::nullopt : std::optional(value);
  };
  const Config made{ranks,
                    given(config->minCTAs),
                    given(config->maxCTAs),
                    given(config->cgaClusterSize),
                    given(config->collnetEnable),
                    config->netName == nullptr ? "" : config->netName,
                    given(config->CTAPolicy),
                    config->blocking == 1};
  if (made.min_ctas && made.max_ctas && *made.min_ctas > *made.max_ctas)
    return refuse(nullptr, ncclInvalidArgument, "fewer CTAs at most than at least");
  if (made != Config{.ranks = ranks}) state().configs.push_back(made);
  auto& clique = state().cliques[std::string(id.internal, sizeof id.internal)];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  if (clique->ranks != 0 && clique->ranks != ranks)
    return refuse(nullptr, ncclInvalidUsage, "two sizes for one id");
  if (!clique->here.insert(rank).second)
    return refuse(nullptr, ncclInvalidUsage, "two ranks of one number");
  if (!clique->devices.insert(cuda_host::current_device()).second)
    return refuse(nullptr, ncclInvalidUsage, "two ranks on one device");
  clique->ranks = ranks;
  *comm = new ncclComm{.member = std::make_shared<Member>(Member{.clique = clique, .rank = rank})};
  (*comm)->config = made;
  (*comm)->polls = static_cast<int>(state().random() % 4);
  ++state().live;
  (*comm)->blocks = made.blocks;
  return made.blocks ? finish(*comm, lock) : ncclInProgress;
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, size_t bytes, void** handle) {
  const Runtime::Call lock = runtime().call();
  if (comm->connecting || bytes == 0 || !runtime().inside(data, bytes))
    return refuse(comm, ncclInvalidArgument, "memory to register, or a connection in progress");
  const auto* const begin = static_cast<const char*>(data);
  const bool owned =
      std::any_of(state().allocated.begin(), state().allocated.end(), [&](const auto& block) {
        const auto* const first = static_cast<const char*>(block.first);
        return begin >= first && begin + bytes <= first + block.second;
      });
  *handle = nullptr;
  constexpr int kIgnoresOthers = 22400;
  if ((!owned && state().settings.version >= kIgnoresOthers) ||
      state().settings.ignoring_device == cuda_host::current_device())
    return ncclSuccess;
  comm->registered[begin] = bytes;
  ++state().registered.buffers;
  *handle = data;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  const Runtime::Call lock = runtime().call();
  if (comm->registered.erase(static_cast<const char*>(handle)) == 0)
    return refuse(comm, ncclInvalidUsage, "memory that is not registered");
  return ncclSuccess;
}
ncclResult_t ncclMemAlloc(void** data, size_t bytes) {
  if (cudaMalloc(data, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  const Runtime::Call lock = runtime().call();
  state().allocated[*data] = bytes;
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* data) {
  {
    const Runtime::Call lock = runtime().call();
    if (state().allocated.erase(data) == 0)
      return refuse(nullptr, ncclInvalidUsage, "memory that is not NCCL's");
  }
  return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* data, size_t bytes, ncclWindow_t* window,
                                    int flags) {
  Runtime::Call lock = runtime().call();
  *window = nullptr;
  if (!state().settings.symmetric) return ncclSuccess;
  const auto owned = state().allocated.find(data);
  if (comm->connecting || comm->coming || flags != NCCL_WIN_COLL_SYMMETRIC ||
      owned == state().allocated.end() || bytes == 0 || bytes > owned->second)
    return refuse(comm, ncclInvalidArgument, "memory of a window, or a connection in progress");
  Member& member = *comm->member;
  comm->coming = {member.windows++, static_cast<char*>(data), bytes, window};
  auto& all = member.clique->windows;
  all.resize(std::max(all.size(), member.windows));
  all[comm->coming->number].push_back(bytes);
  return comm->blocks ? finish(comm, lock) : ncclInProgress;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  const Runtime::Call lock = runtime().call();
  char* const data = reinterpret_cast<char*>(window);
  if (comm->windows.erase(data) == 0 || !state().allocated.contains(data))
    return refuse(comm, ncclInvalidUsage, "a window that is not registered, or has no memory");
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const Runtime::Call lock = runtime().call();
  *result = ncclInProgress;
  if (comm->connecting) {
    const bool all = comm->member->all_here();
    if (!all || --comm->polls > 0) return ncclSuccess;
    comm->connecting = false;
  }
  if (comm->coming) {
    const std::vector<size_t>& bytes = comm->member->clique->windows[comm->coming->number];
    if (bytes.size() < static_cast<size_t>(comm->member->clique->ranks)) return ncclSuccess;
    const ncclComm::Coming here = *std::exchange(comm->coming, std::nullopt);
    if (std::count(bytes.begin(), bytes.end(), here.bytes) != std::ssize(bytes)) {
      *result = refuse(*comm->member, ncclInvalidUsage, "windows of different sizes");
      return ncclSuccess;
    }
    comm->windows[here.data] = here.bytes;
    *here.window = reinterpret_cast<ncclWindow_t>(here.data);
    ++state().registered.windows;
  }
  if (comm->late) {
    if (--comm->polls > 0) return ncclSuccess;
    const auto late = std::exchange(comm->late, nullptr);
    late();
  }
  *result = comm->member->failed;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const Runtime::Call lock = runtime().call();
  comm->member->aborted = true;
  --state().live;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const Runtime::Call lock = runtime().call();
  if (comm->member->in_flight > 0 || comm->late)
    return refuse(comm, ncclInvalidUsage, "destroyed while it works");
  if (comm->member->in_graphs > 0)
    return refuse(comm, ncclInvalidUsage, "destroyed while a graph has calls of it");
  if (!comm->registered.empty() || !comm->windows.empty())
    return refuse(comm, ncclInvalidUsage, "destroyed while memory is registered with it");
  --state().live;
  delete comm;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
#define NCCL_DOUBLE_NAME(name, value) \
  if (result == (value)) return #name;
  NCCL_DOUBLE_RESULTS(NCCL_DOUBLE_NAME)
#undef NCCL_DOUBLE_NAME
  return "unknown";
}
const char* ncclGetLastError(ncclComm_t comm) {
  return comm != nullptr ? comm->member->error.c_str() : no_connection.c_str();
}
ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, {});
  if (ended.calls.empty()) return ncclSuccess;
  const Runtime::Call lock = runtime().call();
  if (ended.mixed)
    return refuse(ended.comm, ncclInvalidUsage, "two connections or streams in one group");
  return launch(ended.comm, ended.stream, ended.calls);
}
ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return called(comm, stream, {Kind::all_reduce, in, out, count, type, op});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return called(comm, stream, {Kind::all_gather, in, out, count, type});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return called(comm, stream, {Kind::reduce_scatter, in, out, count, type, op});
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return called(comm, stream, {Kind::broadcast, in, out, count, type, ncclSum, root});
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return called(comm, stream, {Kind::send, in, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return called(comm, stream, {Kind::receive, nullptr, out, count, type, ncclSum, peer});
}
}
