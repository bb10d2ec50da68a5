#include "cli/steps/device_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/config.hpp"
#include "base/file.hpp"
#include "base/numbers.hpp"
#include "base/quote.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace rubato::cli::steps {
namespace {

constexpr int kThreadsMax = 4096;
constexpr double kGiga = 1e9;

// "32 64 784 55.2": so many numbers above 0. Empty: it is something else.
std::vector<double> numbers_of(std::string_view row, std::size_t count) {
  std::vector<double> numbers;
  while (!row.empty()) {
    const std::size_t end = std::min(row.find(' '), row.size());
    const auto number = parse_number<double>(row.substr(0, end));
    if (!number || !(*number > 0)) return {};
    numbers.push_back(*number);
    row.remove_prefix(std::min(end + 1, row.size()));
  }
  return numbers.size() == count ? numbers : std::vector<double>{};
}

// The names of a row's numbers: "samples, outputs, inputs".
std::string size_names(const train::KernelName& kernel) {
  std::string names;
  for (std::size_t i = 0; i < kernel.size_count(); ++i)
    names += fmt::format("{}{}", i ? ", " : "", kernel.sizes[i]);
  return names;
}

const char* unit_of(const train::KernelName& kernel) {
  return kernel.values ? "10^9 values a second" : "10^9 operations a second";
}

std::vector<train::KernelRate> read_rates(const ConfigTable& table,
                                          const train::KernelName& kernel) {
  std::vector<train::KernelRate> rates;
  const std::size_t sizes = kernel.size_count();
  for (const std::string& row : table.texts(kernel.name, {})) {
    const std::vector<double> numbers = numbers_of(row, sizes + 1);
    if (numbers.empty()) {
      table.problem(kernel.name, fmt::format("\"{}\" must be numbers above 0: {}, {}", row,
                                             size_names(kernel), unit_of(kernel)));
      return {};
    }
    train::KernelRate rate;
    std::copy_n(numbers.begin(), sizes, rate.sizes.begin());
    rate.rate = numbers.back() * kGiga;
    rates.push_back(rate);
  }
  if (rates.empty()) table.problem(kernel.name, "must have one measured rate at least");
  return rates;
}

std::vector<train::CopyRate> read_copies(const ConfigTable& table) {
  std::vector<train::CopyRate> copies;
  for (const std::string& row : table.texts("copy", {})) {
    const std::vector<double> numbers = numbers_of(row, 2);
    if (numbers.empty()) {
      table.problem("copy", fmt::format("\"{}\" must be two numbers above 0: bytes, 10^9 bytes a "
                                        "second",
                                        row));
      return {};
    }
    copies.push_back({numbers[0], numbers[1] * kGiga});
  }
  if (copies.empty()) table.problem("copy", "must have one measured rate at least");
  return copies;
}

int read_threads(const ConfigTable& table, const char* key) {
  return static_cast<int>(table.integer(key, 1, Limits::within(1, kThreadsMax)));
}

void add_rows(std::string& text, const train::KernelName& kernel,
              const std::vector<train::KernelRate>& rates) {
  text += fmt::format("# {}; {}\n{} = [\n", size_names(kernel), unit_of(kernel), kernel.name);
  for (const train::KernelRate& rate : rates) {
    text += "  \"";
    for (std::size_t i = 0; i < kernel.size_count(); ++i)
      text += fmt::format("{:.6g} ", rate.sizes[i]);
    text += fmt::format("{:.6g}\",\n", rate.rate / kGiga);
  }
  text += "]\n";
}

}  // namespace

const train::DeviceRates* DeviceFile::with_threads(int threads) const {
  const auto found = std::ranges::find(rates, threads, &train::DeviceRates::threads);
  return found == rates.end() ? nullptr : &*found;
}

Result<DeviceFile> parse_device(std::string_view text, const std::string& file) {
  RUBATO_ASSIGN(const Config document, Config::parse(text, file));
  const ConfigTable root = document.root();
  DeviceFile device{.name = root.text("name"), .source = root.text("source"), .rates = {}};
  if (device.name.empty()) root.problem("name", "a device needs a name");
  std::set<int> threads;
  for (const ConfigTable& table : root.tables("threads")) {
    train::DeviceRates rates;
    rates.threads = read_threads(table, "count");
    if (!threads.insert(rates.threads).second) table.problem("count", "is in the file twice");
    rates.share = table.number("share", 1, {.min = 0, .max = 1, .min_excluded = true});
    rates.call_seconds = table.number("call_seconds", 0, Limits::within(0, 1));
    rates.copies = read_copies(table);
    for (std::size_t kind = 0; kind < train::kKernelKinds; ++kind)
      rates.kernels[kind] =
          read_rates(table, train::kernel_name(static_cast<train::KernelKind>(kind)));
    device.rates.push_back(std::move(rates));
  }
  if (device.rates.empty())
    root.problem("threads", "a device needs its rates; rubato calibrate --save writes them");
  for (const ConfigTable& table : root.tables("steps")) {
    StepRow step{.model = table.text("model"),
                 .batch = static_cast<int>(table.integer("batch", 0, Limits::within(1, 65536))),
                 .threads = read_threads(table, "threads"),
                 .seconds = table.number("seconds", 0, Limits::above(0))};
    if (step.batch == 0) table.problem("batch", "a measured step needs its batch");
    if (step.seconds == 0) table.problem("seconds", "a measured step needs its time");
    if (!threads.contains(step.threads)) table.problem("threads", "has no rates in [[threads]]");
    device.steps.push_back(std::move(step));
  }
  RUBATO_TRY(document.finish());
  return device;
}

Result<DeviceFile> read_device(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text)
    return fail(ErrorCode::BadInput,
                text.error().message + "; rubato calibrate --save writes such files");
  return parse_device(*text, path);
}

std::string device_text(const DeviceFile& device) {
  std::string text = fmt::format(
      "# What a device can do, for rubato steps. Written by rubato calibrate.\n"
      "name = {}\nsource = {}\n",
      toml_text(printable(device.name)), toml_text(printable(device.source)));
  for (const train::DeviceRates& rates : device.rates) {
    text +=
        fmt::format("\n# One of so many threads that compute at once.\n[[threads]]\ncount = {}\n",
                    rates.threads);
    text += fmt::format("share = {:.6g}  # of the time that it has a core\n", rates.share);
    text += fmt::format("call_seconds = {:.6g}  # of the smallest kernel\n", rates.call_seconds);
    text += "# bytes; 10^9 bytes read and written a second\ncopy = [\n";
    for (const train::CopyRate& copy : rates.copies)
      text += fmt::format("  \"{:.6g} {:.6g}\",\n", copy.bytes, copy.rate / kGiga);
    text += "]\n";
    for (std::size_t kind = 0; kind < train::kKernelKinds; ++kind)
      add_rows(text, train::kernel_name(static_cast<train::KernelKind>(kind)), rates.kernels[kind]);
  }
  for (const StepRow& step : device.steps)
    text += fmt::format("\n[[steps]]\nmodel = {}\nbatch = {}\nthreads = {}\nseconds = {:.6g}\n",
                        toml_text(step.model), step.batch, step.threads, step.seconds);
  return text;
}

}  // namespace rubato::cli::steps
