#include "run/gpu_cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace viaduct {
namespace {

/// The number at the front of `text`, which is removed; −1: there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text[0] != wanted) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::filesystem::path device_folder(const std::string& bus_id, const std::filesystem::path& sysfs) {
  std::string name = bus_id;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return sysfs / "bus/pci/devices" / name;
}

std::string system_text(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  VIADUCT_CHECK(IoError, in.is_open() && !in.bad(), "cannot read {}: {}", file.string(),
                std::strerror(errno));
  return text;
}

std::vector<int> read_core_list(const std::filesystem::path& file) {
  const std::string read = system_text(file);
  std::string_view text = read;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::vector<int> cores;
  do {
    const int first = take_number(text);
    const int last = take(text, '-') ? take_number(text) : first;
    VIADUCT_CHECK(IoError, first >= 0 && last >= first && last < CPU_SETSIZE,
                  "{}: expected a list of cores as 0-3,8, found \"{}\"", file.string(), read);
    for (int core = first; core <= last; ++core) cores.push_back(core);
  } while (take(text, ','));
  VIADUCT_CHECK(IoError, text.empty(), "{}: expected a list of cores as 0-3,8, found \"{}\"",
                file.string(), read);
  return cores;
}

std::vector<int> cores_near(const std::string& bus_id, const std::filesystem::path& sysfs) {
  return read_core_list(device_folder(bus_id, sysfs) / "local_cpulist");
}

std::string core_list(const std::vector<int>& cores) {
  std::string list;
  for (size_t i = 0; i < cores.size();) {
    size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    list += fmt::format("{}{}", list.empty() ? "" : ",", cores[i]);
    if (end > i + 1) list += fmt::format("-{}", cores[end - 1]);
    i = end;
  }
  return list;
}

std::string bind_to_cores(std::vector<int>& cores) {
  cpu_set_t allowed, chosen;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::strerror(errno);
  CPU_ZERO(&chosen);
  std::erase_if(cores, [&](int core) { return !CPU_ISSET(static_cast<size_t>(core), &allowed); });
  if (cores.empty()) return "this process may not use any of them";
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &chosen);
  return ::sched_setaffinity(0, sizeof chosen, &chosen) == 0 ? "" : std::strerror(errno);
}

std::string bind_near(const std::string& bus_id, const std::filesystem::path& sysfs) {
  std::string why;
  std::vector<int> cores;
  try {
    cores = cores_near(bus_id, sysfs);
    why = bind_to_cores(cores);
  } catch (const IoError& error) {
    why = error.what();
  }
  if (!why.empty()) return fmt::format("GPU {}: not bound to cores near it: {}", bus_id, why);
  return fmt::format("GPU {}: bound to cores {}", bus_id, core_list(cores));
}

}  // namespace viaduct
