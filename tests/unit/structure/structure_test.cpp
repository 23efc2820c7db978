// The rules of docs/architecture.md that the compiler cannot check: allowed includes, and
// constructs that libraries must not use.

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "base/file.h"
#include "support/source_text.h"

namespace viaduct::test {
namespace {

using Paths = std::vector<std::filesystem::path>;

const std::vector<std::string> kCode{".h", ".cpp", ".cu", ".cuh"};
const std::set<std::string> kBackends{"cpu", "cuda", "thread", "mpi", "nccl"};

// The folders of src/ in the order of the architecture table, top first: its rows start with |
// `src/NAME` |.
std::vector<std::string> architecture_order() {
  std::vector<std::string> order;
  const std::string text = read_file(source_folder() / "docs" / "architecture.md");
  const std::string start = "\n| `src/";
  for (size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
    const size_t name = at + start.size();
    order.push_back(text.substr(name, text.find('`', name) - name));
  }
  return order;
}

// The first path element below src/ of a file, and the first of an include written from src/.
std::string room_of(const std::filesystem::path& file) {
  return std::next(file.lexically_relative(source_folder()).begin())->string();
}

std::string unquoted(const std::string& name) {
  return name.substr(1, name.size() - 2);
}

bool in_backend_folder(const std::filesystem::path& file) {
  const auto parts = file.lexically_relative(source_folder()).parent_path();
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& part) { return kBackends.contains(part.string()); });
}

// True for headers of instruction sets, BLAS, CUDA, MPI and NCCL.
bool is_backend_header(const std::string& name) {
  static constexpr const char* kStarts[] = {
      "cblas",     "openblas",  "mpi.h",    "mpi-ext",   "nccl",      "cuda",      "cublas",
      "cudnn",     "cutlass",   "cute/",    "immintrin", "x86intrin", "amxintrin", "avx",
      "emmintrin", "xmmintrin", "arm_neon", "arm_sve",   "nvtx",      "nvml",      "nvshmem"};
  return std::any_of(std::begin(kStarts), std::end(kStarts),
                     [&](const char* start) { return name.starts_with(start); });
}

// Only one reader parses foreign JSON, with limits and errors that name a place.
TEST(Structure, JsonIsParsedByOneReader) {
  for (const char* folder : {"src", "apps"}) {
    for (const auto& file : files_below(folder, kCode)) {
      if (file.filename() == "json_reader.h") continue;
      const std::string code = without_comments_and_literals(read_file(file));
      for (const char* call :
           {"json::parse(", "Json::parse(", "sax_parse(", "json::accept(", "Json::accept("})
        EXPECT_EQ(code.find(call), std::string::npos)
            << shown(file) << ": " << call << " instead of base/json_reader.h";
    }
  }
}

TEST(Structure, EveryFolderIsInTheArchitectureTable) {
  const auto order = architecture_order();
  ASSERT_THAT(order, testing::Contains("base"));
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "src")) {
    if (!entry.is_directory()) continue;
    EXPECT_THAT(order, testing::Contains(entry.path().filename().string()));
  }
}

TEST(Structure, FoldersIncludeOnlyFoldersAbove) {
  std::map<std::string, size_t> place;
  for (const auto& name : architecture_order()) place.emplace(name, place.size());
  for (const auto& file : files_below("src", kCode)) {
    const std::string room = room_of(file);
    for (const auto& name : included_names(read_file(file))) {
      if (name[0] != '"') continue;
      const std::string other = std::filesystem::path(unquoted(name)).begin()->string();
      ASSERT_TRUE(place.contains(other))
          << shown(file) << " includes " << name << ", which is not written from src/";
      EXPECT_LE(place[other], place[room])
          << shown(file) << " includes " << name << ", from a folder below its own";
    }
  }
}

TEST(Structure, LibrariesAreDeclaredInTheOrderOfTheTable) {
  const std::string text = read_file(source_folder() / "src" / "CMakeLists.txt");
  std::vector<std::string> declared;
  const std::string start = "\nviaduct_library(";
  for (size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
    const size_t name = at + start.size();
    declared.push_back(text.substr(name, text.find_first_of(" \n)", name) - name));
  }
  ASSERT_THAT(declared, testing::Not(testing::IsEmpty()));
  std::vector<std::string> expected;
  for (const auto& name : architecture_order()) {
    if (std::find(declared.begin(), declared.end(), name) != declared.end())
      expected.push_back(name);
  }
  EXPECT_EQ(declared, expected);
}

TEST(Structure, BackendHeadersStayInBackendFolders) {
  for (const char* folder : {"src", "apps"}) {
    for (const auto& file : files_below(folder, kCode)) {
      if (in_backend_folder(file)) continue;
      for (const auto& name : included_names(read_file(file))) {
        EXPECT_FALSE(is_backend_header(unquoted(name)))
            << shown(file) << " includes " << name << " outside a backend folder";
      }
    }
  }
}

// Code for which a processor without these instructions has another path. Files beside the kernels
// have that path beside the call.
TEST(Structure, IntrinsicsStayInKernelFiles) {
  const std::set<std::string> with_another_path{"src/base/cpu_pause.h",
                                                "src/comm/rank_order_sum.cpp"};
  for (const char* folder : {"src", "apps"}) {
    for (const auto& file : files_below(folder, kCode)) {
      if (in_backend_folder(file)) continue;
      const std::string code = without_comments_and_literals(read_file(file));
      for (const char* word : {"_mm_", "_mm256_", "_mm512_", "__m128", "__m256", "__m512",
                               "__builtin_ia32_", "vld1q_", "vst1q_", "vfmaq_", "svld1"}) {
        if (!contains_word(code, word)) continue;
        EXPECT_TRUE(with_another_path.contains(shown(file)) &&
                    (code.find("#if defined(__x86_64__)") != std::string::npos ||
                     code.find("#if defined(__F16C__)") != std::string::npos))
            << shown(file) << " has " << word << " outside a kernel file";
      }
    }
  }
}

// A kernel file that is not compiled for every processor would leave an op without a path on some.
TEST(Structure, KernelFilesArePortable) {
  for (const auto& file : files_below("src/ops/cpu", {"_kernels.cpp"})) {
    const std::string text = read_file(file);
    EXPECT_TRUE(text.starts_with("// instruction sets: portable ")) << shown(file);
  }
}

// Kernels of x86 that another processor does not have, beside those of VIADUCT_KERNELS
// (ops/cpu/kernel_sets.h): without an entry there, nothing links on it.
TEST(Structure, OtherProcessorsLinkWithoutKernelsOfX86) {
  // Without the names of headers.
  const std::string absent = std::regex_replace(
      read_file(source_folder() / "src/ops/cpu/x86_absent.cpp"), std::regex("#include [^\n]*"), "");
  const std::regex block(R"(namespace (?:avx2|avx512|avx512_bf16|amx) \{\n([^}]*)\})");
  const std::regex table(R"((\w+_kernels)(?:\(\))?;)");
  const std::sregex_iterator end;
  int tables = 0;
  for (const auto& file : files_below("src/ops/cpu", {".h"})) {
    const std::string text = read_file(file);
    for (std::sregex_iterator of(text.begin(), text.end(), block); of != end; ++of) {
      const std::string declared = (*of)[1];
      for (std::sregex_iterator at(declared.begin(), declared.end(), table); at != end;
           ++at, ++tables)
        EXPECT_TRUE(contains_word(absent, (*at)[1].str()))
            << shown(file) << ": " << (*at)[1] << " is not in src/ops/cpu/x86_absent.cpp";
    }
  }
  EXPECT_GE(tables, 3);
}

TEST(Structure, HeavyHeadersStayOutOfHeaders) {
  for (const auto& file : files_below("src", {".h", ".cuh"})) {
    for (const auto& name : included_names(read_file(file))) {
      if (name == "<nlohmann/json_fwd.hpp>") continue;  // declarations only
      if (shown(file) == "src/base/json.h") continue;   // which itself stays out of headers
      EXPECT_NE(unquoted(name), "base/json.h") << shown(file) << ": only .cpp files may include it";
      for (const char* heavy : {"nlohmann/", "yaml-cpp/", "CLI/"}) {
        EXPECT_FALSE(unquoted(name).starts_with(heavy))
            << shown(file) << " includes " << name << ": only .cpp files may";
      }
    }
  }
}

// Each unit that includes the library itself compiles its classes again.
TEST(Structure, JsonIsCompiledOnce) {
  for (const char* folder : {"src", "apps", "tests", "benchmarks"}) {
    for (const auto& file : files_below(folder, kCode)) {
      if (shown(file) == "src/base/json.h") continue;
      const auto names = included_names(read_file(file));
      EXPECT_EQ(std::count(names.begin(), names.end(), "<nlohmann/json.hpp>"), 0)
          << shown(file) << ": include \"base/json.h\"";
    }
  }
}

// Files of more than 600 lines fail, files of more than 400 are listed: such a file often holds two
// ideas.
TEST(Structure, FilesAreShort) {
  for (const char* folder : {"src", "apps"}) {
    for (const auto& file : files_below(folder, kCode)) {
      const std::string text = read_file(file);
      const auto lines = std::count(text.begin(), text.end(), '\n');
      EXPECT_LE(lines, 600) << shown(file) << " has too many lines; aim for 60 to 300";
      if (lines > 400)
        fmt::print("warning: {} has {} lines; aim for 60 to 300\n", shown(file), lines);
    }
  }
}

TEST(Structure, LibrariesNeitherExitNorPrint) {
  for (const auto& file : files_below("src", kCode)) {
    const std::string code = without_comments_and_literals(read_file(file));
    for (const char* word : {"exit(", "_exit(", "abort(", "cout", "printf(", "puts(", "putchar(",
                             "fmt::print(\"", "stdout"}) {
      // Signal handlers end the process (a second Ctrl-C; an exit that hangs): they cannot throw.
      const bool handler =
          shown(file) == "src/train/signals.cpp" || shown(file) == "src/base/exit_watchdog.cpp";
      if (word == std::string("_exit(") && handler) continue;
      EXPECT_FALSE(contains_word(code, word))
          << shown(file) << " says " << word << ": libraries throw, the application prints";
    }
  }
}

TEST(Structure, NothingNamesThisMachine) {
  // Written in two halves, so that this file passes its own test.
  const std::vector<std::string> words{
      "/wo"
      "rk/",
      "/ro"
      "ot/",
      "/ho"
      "me/",
      "../sha"
      "red",
      "sha"
      "red/golden",
      "sha"
      "red/spec"};
  Paths files;
  for (const char* folder : {"src", "apps", "tests", "cmake", "tools", "docs", "configs",
                             "examples", "benchmarks", "hardware"}) {
    for (const auto& file : files_below(folder)) {
      if (!shown(file).starts_with("tests/data/") && !shown(file).starts_with("tests/fuzz/corpus/"))
        files.push_back(file);
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(source_folder())) {
    if (entry.is_regular_file() && entry.path().filename() != ".git") files.push_back(entry.path());
  }
  for (const auto& file : files) {
    const std::string text = read_file(file);
    for (const auto& word : words)
      EXPECT_FALSE(contains_word(text, word)) << shown(file) << " names " << word;
  }
}

}  // namespace
}  // namespace viaduct::test
