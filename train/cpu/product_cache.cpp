#include "train/cpu/product_cache.hpp"

#include <cblas.h>
#include <dnnl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <thread>
#include <vector>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/numbers.hpp"
#include "train/cpu/cpu_info.hpp"

namespace rubato::train {
namespace {

constexpr std::string_view kFormat = "rubato products 1";
constexpr std::size_t kShapesMax = 4096;  // of a file
constexpr auto kPoll = std::chrono::milliseconds(5);

// While it lives no other process has its turn in the directory, unless waiting for that took too
// long, or the directory cannot be opened or locked: then all go ahead.
class Turn {
 public:
  explicit Turn(const ProductCache& cache)
      : fd_(::open(cache.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const Instant until = steady_now() + cache.patience;
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
           steady_now() < until)
      std::this_thread::sleep_for(kPoll);
  }
  ~Turn() {
    if (fd_ >= 0) ::close(fd_);  // gives up the lock
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int fd_;
};

std::string_view name_of(Library library) {
  return library == Library::OneDnn ? "oneDNN" : "OpenBLAS";
}

std::optional<Transpose> transpose_of(std::string_view word) {
  if (word == "N") return Transpose::No;
  if (word == "T") return Transpose::Yes;
  return std::nullopt;
}

std::optional<Library> library_of(std::string_view word) {
  for (const Library library : {Library::OneDnn, Library::OpenBlas})
    if (word == name_of(library)) return library;
  return std::nullopt;
}

std::optional<LibraryChoices::value_type> parse_line(const std::string& line) {
  std::istringstream stream(line);
  const std::vector<std::string> words(std::istream_iterator<std::string>(stream), {});
  if (words.size() != 6) return std::nullopt;
  const auto a = transpose_of(words[0]), b = transpose_of(words[1]);
  const auto m = parse_number<int>(words[2]), n = parse_number<int>(words[3]),
             k = parse_number<int>(words[4]);
  const auto library = library_of(words[5]);
  if (!a || !b || !m || !n || !k || !library || std::min({*m, *n, *k}) < 1) return std::nullopt;
  return LibraryChoices::value_type{{*a, *b, *m, *n, *k}, *library};
}

// What the file tells; nothing where there is none, or none that can be used.
LibraryChoices read_choices(const ProductCache& cache) {
  std::error_code unknown;  // shows when the file is read
  if (!std::filesystem::exists(cache.path(), unknown) && !unknown) return {};
  const auto read = [&]() -> Result<LibraryChoices> {
    RUBATO_ASSIGN(const std::string text, read_file(cache.path()));
    return parse_products(text, cache.machine);
  };
  auto choices = read();
  if (choices) return *std::move(choices);
  log_warning(fmt::format("products: cannot use {} ({}); measured anew", cache.path(),
                          choices.error().message));
  return {};
}

void write_choices(const ProductCache& cache, const LibraryChoices& choices) {
  const auto written = write_file(cache.path(), product_text(choices, cache.machine));
  if (!written)
    log_warning(
        fmt::format("products: {}; measured again at the next start", written.error().message));
}

}  // namespace

std::string ProductCache::path() const {
  const auto name = checksum(std::as_bytes(std::span(machine)));
  return (std::filesystem::path(directory) / fmt::format("products-{:016x}", name)).string();
}

std::string product_machine() {
  const dnnl_version_t& one_dnn = *dnnl_version();
  return fmt::format("{}; {}; oneDNN {}.{}.{} {}", describe_cpu(), openblas_get_config(),
                     one_dnn.major, one_dnn.minor, one_dnn.patch, one_dnn.hash);
}

std::string product_text(const LibraryChoices& choices, std::string_view machine) {
  std::string text = fmt::format("{}\n{}\n", kFormat, machine);
  for (const auto& [shape, library] : choices)
    text += fmt::format("{} {} {} {} {} {}\n", static_cast<char>(shape.transpose_a),
                        static_cast<char>(shape.transpose_b), shape.m, shape.n, shape.k,
                        name_of(library));
  return text;
}

Result<LibraryChoices> parse_products(std::string_view text, std::string_view machine) {
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != kFormat)
    return fail(ErrorCode::BadInput, fmt::format("its first line is not '{}'", kFormat));
  if (!std::getline(lines, line) || line != machine)
    return fail(ErrorCode::BadInput, "it is of another machine");
  LibraryChoices choices;
  for (int number = 3; std::getline(lines, line); ++number) {
    const auto choice = parse_line(line);
    if (!choice) return fail(ErrorCode::BadInput, fmt::format("its line {} is no choice", number));
    choices.insert(*choice);
  }
  return choices;
}

LibraryChoices choose_libraries(const ProductCalls& calls, const ProductCache& cache,
                                const ProductTimer& timer) {
  if (calls.empty()) return {};
  const bool kept = !cache.directory.empty();
  LibraryChoices known;
  std::optional<Turn> turn;
  if (kept) {
    std::error_code failed;  // shows when the file is written
    std::filesystem::create_directories(cache.directory, failed);
    turn.emplace(cache);
    known = read_choices(cache);
  }
  LibraryChoices chosen;
  ProductCalls missing;
  for (const auto& call : calls) {
    const auto found = known.find(call.first);
    if (found == known.end())
      missing.insert(call);
    else
      chosen.insert(*found);
  }
  std::string how;
  if (missing.empty()) {
    how = fmt::format("from {}", cache.path());
  } else {
    Duration spent;
    const auto measured = faster_libraries(missing, [&](const ProductCall& call, Library library) {
      const Duration taken = timer(call, library);
      spent += taken;
      return taken;
    });
    how = fmt::format("{} measured in {} ms", measured.size(), spent.ms());
    if (!chosen.empty()) how += fmt::format(", the others from {}", cache.path());
    chosen.insert(measured.begin(), measured.end());
    if (known.size() + missing.size() > kShapesMax) known.clear();
    known.insert(chosen.begin(), chosen.end());
    if (kept) write_choices(cache, known);
  }
  const auto one_dnns =
      std::ranges::count(chosen, Library::OneDnn, [](const auto& choice) { return choice.second; });
  log_info(fmt::format("products: {} shape{}, oneDNN {}, OpenBLAS {}; {}", chosen.size(),
                       chosen.size() == 1 ? "" : "s", one_dnns,
                       static_cast<std::ptrdiff_t>(chosen.size()) - one_dnns, how));
  return chosen;
}

}  // namespace rubato::train
