// Runs a fuzz target (LLVMFuzzerTestOneInput) over a corpus and inputs made from it, for a bounded
// time, without a fuzzing library. An input that crashes the target, hangs it or makes it throw is
// written to a file whose path is printed.
//
//   fuzz_NAME --corpus FOLDER [--iterations N] [--seconds S] [--seed N] [--max-bytes N]
//             [--crashes FOLDER]
//   fuzz_NAME FILE…          runs only these inputs, to reproduce a crash

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Only in sanitized builds.
extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));
// Limits memory to 1 GiB, more than any valid input needs: a target that allocates by a hostile
// length has a bug.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=1024:detect_leaks=1";
}
// GCC's UBSan has its own runtime, without the callback: it aborts, and the signal handler reports
// it.
extern "C" const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}

namespace {

constexpr unsigned kHangSeconds = 30;
constexpr rlim_t kMemoryBytes = rlim_t{4} << 30;

// The current input, for the handlers, which may use only async-signal-safe functions.
const char* g_data = nullptr;
size_t g_size = 0;
char g_crash_path[4096];

void say(const char* text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
}

void save_input() {
  if (g_data == nullptr) return;
  const int file = ::open(g_crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const bool saved = file >= 0 && ::write(file, g_data, g_size) == static_cast<ssize_t>(g_size);
  say(saved ? "fuzz: input written to " : "fuzz: input could not be written to ");
  say(g_crash_path);
  say("\n");
  g_data = nullptr;
}

void on_signal(int signal) {
  say(signal == SIGALRM ? "fuzz: the input hangs the target\n"
                        : "fuzz: the input crashes the target\n");
  save_input();
  ::_exit(1);
}

void run_one(const std::string& input) {
  g_data = input.data();
  g_size = input.size();
  ::alarm(kHangSeconds);
  // A copy of exactly this size, so that a sanitizer sees the first byte read past the end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  try {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  } catch (...) {
    save_input();  // while it exists
    throw;
  }
  ::alarm(0);
  g_data = nullptr;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Options {
  std::vector<std::filesystem::path> files;
  std::filesystem::path corpus, crashes = ".";
  uint64_t iterations = 10000, seed = 1;
  double seconds = 0;  // 0: no limit
  size_t max_bytes = size_t{1} << 16;
};

void set_crash_path(const std::filesystem::path& path) {
  std::snprintf(g_crash_path, sizeof g_crash_path, "%s", path.c_str());
}

uint64_t fuzz(const Options& options, const std::string& program) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(options.corpus)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  if (paths.empty()) throw std::runtime_error("no inputs in " + options.corpus.string());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  set_crash_path(options.crashes / (program + "-corpus.crash"));
  for (const auto& path : paths) {
    corpus.push_back(read(path));
    run_one(corpus.back());
  }
  viaduct::fuzz::Mutator mutator(std::move(corpus), options.max_bytes);
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < options.iterations; ++i) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (options.seconds > 0 && spent.count() > options.seconds) return i;
    set_crash_path(options.crashes / (program + "-" + std::to_string(options.seed) + "-" +
                                      std::to_string(i) + ".crash"));
    run_one(mutator.input(options.seed, i));
  }
  return options.iterations;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs a fuzz target over a corpus and inputs made from it"};
  Options options;
  app.add_option("files", options.files, "run these inputs only");
  app.add_option("--corpus", options.corpus, "folder of valid inputs to start from");
  app.add_option("--crashes", options.crashes, "folder for an input that crashes");
  app.add_option("--iterations", options.iterations, "how many inputs to make");
  app.add_option("--seconds", options.seconds, "stop after this time even so (0: never)");
  app.add_option("--seed", options.seed, "the same seed makes the same inputs");
  app.add_option("--max-bytes", options.max_bytes, "longest input");
  CLI11_PARSE(app, argc, argv);

  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM})
    std::signal(signal, on_signal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(save_input);
  } else {
    const rlimit limit{kMemoryBytes, kMemoryBytes};  // AddressSanitizer itself reserves more
    ::setrlimit(RLIMIT_AS, &limit);
  }
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  try {
    for (const auto& file : options.files) {
      set_crash_path(options.crashes / (program + "-given.crash"));
      run_one(read(file));
    }
    if (!options.files.empty()) return 0;
    if (options.corpus.empty()) throw std::runtime_error("expected --corpus FOLDER or FILE…");
    const uint64_t done = fuzz(options, program);
    std::printf("%s: %llu inputs, no crash\n", program.c_str(),
                static_cast<unsigned long long>(done));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: the target threw: %s\n", error.what());
    return 1;
  }
}
