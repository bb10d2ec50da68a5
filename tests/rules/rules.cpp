#include "tests/rules/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

namespace rubato::rules {
namespace {

constexpr std::size_t kLineLengthMax = 100;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::size_t skip_space(std::string_view text, std::size_t i) {
  while (i < text.size() && is_space(text[i])) ++i;
  return i;
}

// The text up to `end` without the white space before it.
std::string_view before(std::string_view text, std::size_t end) {
  while (end > 0 && is_space(text[end - 1])) --end;
  return text.substr(0, end);
}

// The text ends with the word `word`.
bool ends_with_word(std::string_view text, std::string_view word) {
  return text.ends_with(word) &&
         (text.size() == word.size() || !is_word(text[text.size() - word.size() - 1]));
}

// Calls `visit(word, begin, line)` for every run of letters, digits and '_'.
template <class Visit>
void each_word(std::string_view text, Visit visit) {
  std::size_t line = 1;
  std::size_t i = 0;
  while (i < text.size()) {
    if (!is_word(text[i])) {
      if (text[i] == '\n') ++line;
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    visit(text.substr(i, end - i), i, line);
    i = end;
  }
}

std::string first_folder(std::string_view path) {
  return std::string(path.substr(0, path.find('/')));
}

bool is_product(const SourceFile& file) {
  const std::string module = first_folder(file.path);
  return module != "tests" && module != "bench";
}

struct Include {
  std::size_t line;
  std::string target;
  bool quoted;
};

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> found;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(file.text)) {
    ++number;
    std::size_t i = skip_space(line, 0);
    if (i >= line.size() || line[i] != '#') continue;
    i = skip_space(line, i + 1);
    if (!line.substr(i).starts_with("include")) continue;
    i = skip_space(line, i + 7);
    if (i >= line.size() || (line[i] != '"' && line[i] != '<')) continue;
    const bool quoted = line[i] == '"';
    const std::size_t end = line.find(quoted ? '"' : '>', i + 1);
    if (end == line.npos) continue;
    found.push_back({number, std::string(line.substr(i + 1, end - i - 1)), quoted});
  }
  return found;
}

std::string at(const SourceFile& file, std::size_t line, std::string_view what) {
  return fmt::format("{}:{}: {}", file.path, line, what);
}

}  // namespace

Violations include_arrows(const SourceFile& file) {
  static const std::set<std::string> kProduct = {
      "base",    "train",     "sync",  "proto", "scheduler", "server", "worker",
      "cluster", "emulation", "nodes", "abi",   "report",    "cli"};
  static const std::map<std::string, std::set<std::string>> kArrows = {
      {"base", {}},
      {"train", {"base"}},
      {"sync", {"base"}},
      {"proto", {"base"}},
      {"scheduler", {"sync", "proto", "base"}},
      {"server", {"sync", "proto", "base"}},
      {"worker", {"train", "sync", "proto", "base"}},
      {"cluster", {"scheduler", "server", "worker", "train", "sync", "proto", "base"}},
      {"emulation", {"cluster", "scheduler", "server", "worker", "train", "sync", "proto", "base"}},
      {"nodes",
       {"emulation", "cluster", "scheduler", "server", "worker", "train", "sync", "proto", "base"}},
      {"abi",
       {"nodes", "emulation", "cluster", "scheduler", "server", "worker", "train", "sync", "proto",
        "base"}},
      {"report", {"cluster", "scheduler", "train", "sync", "base"}},
      {"cli", kProduct},
      {"bench", kProduct},
      {"tests", kProduct},
  };
  // Of folders in a room: all that they may include of that room.
  static const std::map<std::string, std::vector<std::string_view>> kInside = {
      {"train/model/", {"train/model/", "train/cuda/precision.hpp"}},
      {"train/data/", {"train/data/", "train/model/"}},
  };
  // Beyond the arrows: one file of a folder.
  static const std::map<std::string, std::set<std::string>> kFiles = {
      {"proto", {"sync/words.hpp"}},
      {"bench", {"tests/train/host_gpu.hpp"}},
  };
  const std::string from = first_folder(file.path);
  const auto files = kFiles.find(from);
  Violations out;
  for (const Include& include : includes_of(file)) {
    const std::string to = first_folder(include.target);
    if (!kArrows.contains(to) || include.target.find('/') == std::string::npos) {
      if (include.quoted && !include.target.ends_with("_generated.h")) {
        out.push_back(at(file, include.line,
                         fmt::format("\"{}\" is not a path from the root", include.target)));
      }
      continue;
    }
    if (!include.quoted) {
      out.push_back(
          at(file, include.line, fmt::format("<{}> is ours: use quotes", include.target)));
    }
    for (const auto& [folder, allowed] : kInside) {
      if (to != from || !file.path.starts_with(folder)) continue;
      if (std::ranges::any_of(
              allowed, [&](std::string_view begin) { return include.target.starts_with(begin); }))
        continue;
      out.push_back(
          at(file, include.line, fmt::format("{} may not include {}", folder, include.target)));
    }
    const bool alone = files != kFiles.end() && files->second.contains(include.target);
    if (to != from && !alone && !kArrows.at(from).contains(to)) {
      out.push_back(at(file, include.line,
                       fmt::format("{} may not include {} ({})", from, to, include.target)));
    }
  }
  return out;
}

Violations library_owners(const SourceFile& file) {
  struct Owner {
    std::string_view library;
    std::vector<std::string_view> headers;  // how the names of its headers begin
    // The file, the folder with its '/', or how its sources are named; then headers are not meant.
    std::string_view wrapper;
  };
  static const std::array<Owner, 8> kOwners = {{
      {"ZeroMQ", {"zmq"}, "proto/zmq_"},
      {"FlatBuffers", {"flatbuffers/", "rubato_generated"}, "proto/codec.cpp"},
      {"BLAS and oneDNN", {"cblas", "openblas", "dnnl", "oneapi/dnnl"}, "train/cpu/"},
      {"CUDA", {"cuda", "cublas", "cudnn", "curand"}, "train/cuda/"},
      {"toml++", {"toml"}, "base/config.cpp"},
      {"CLI11", {"CLI/"}, "cli/"},
      {"cpp-httplib", {"httplib"}, "report/live/live_server.cpp"},
      {"nlohmann::json", {"nlohmann/"}, "base/json"},
  }};
  Violations out;
  if (!is_product(file)) return out;
  for (const Include& include : includes_of(file)) {
    for (const Owner& owner : kOwners) {
      const bool its = std::ranges::any_of(
          owner.headers, [&](std::string_view begin) { return include.target.starts_with(begin); });
      const bool named = owner.wrapper.ends_with('_') && file.path.ends_with(".hpp");
      if (its && (named || !file.path.starts_with(owner.wrapper))) {
        out.push_back(
            at(file, include.line,
               fmt::format("{} belongs to its wrapper alone ({})", owner.library, include.target)));
      }
    }
  }
  return out;
}

const std::vector<Impure>& impure_files() {
  static const std::vector<Impure> kFiles = {
      {"abi/", "runs a core in real time, reads the environment"},
      {"base/companion.", "keeps a thread on the core of another"},
      {"base/cores.", "asks the system for cores"},
      {"base/disk.", "reads and writes files, on threads too"},
      {"base/file.", "reads and writes files, reads the environment"},
      {"base/halves.", "lets two threads pass over memory"},
      {"base/lock.", "locks files"},
      {"base/log.", "writes to standard error"},
      {"base/memory.", "asks the system for huge pages"},
      {"base/memory_file.", "maps files of shared memory"},
      {"base/rng.cpp", "tests itself against the standard library's generator"},
      {"base/limits.", "asks the system for its limits"},
      {"base/shareable.", "maps memory that processes share"},
      {"base/shipped.", "looks files up"},
      {"base/store_order.", "orders stores for memory that outlives the process"},
      {"base/terminal.", "asks what a stream can show"},
      {"base/thread_time.", "reads the clock"},
      {"base/time.", "reads the clock"},
      {"base/trace.", "records instants and writes them from a thread"},
      {"base/trace_merge.", "reads and writes trace files"},
      {"cli/", "is the command line"},
      {"cluster/file_kind.", "looks whether a path is a directory"},
      {"cluster/cluster_config.", "reads the cluster file"},
      {"cluster/compute_thread.", "is a thread"},
      {"cluster/evaluator_node.", "runs a core in real time"},
      {"cluster/lookout.", "has threads that look"},
      {"cluster/named_files.", "looks for the catalog"},
      {"cluster/node_loop.", "runs a core in real time"},
      {"cluster/node_peers.", "looks peers up by hash and never iterates over them"},
      {"cluster/server_lookouts.", "has threads that look"},
      {"cluster/worker_client.", "runs a core in real time"},
      {"cluster/worker_node.", "runs a core in real time"},
      {"cluster/model_start.", "asks whether two paths are one file"},
      {"emulation/compute_pool.", "computes gradients on several threads"},
      {"emulation/fair_network.", "looks flows up by hash and never iterates over them"},
      {"emulation/loop_output.", "reads what processes print, from a thread"},
      {"emulation/loop_processes.", "starts processes"},
      {"emulation/process_training.", "waits for processes"},
      {"emulation/step_channel.", "joins processes"},
      {"emulation/throttle/kernel_network.", "makes namespaces and shapes links"},
      {"emulation/throttle/link_check.", "measures a link"},
      {"emulation/throttle/link_probe.", "measures the way to another host"},
      {"emulation/throttle/pipe.", "reads and writes sockets"},
      {"emulation/throttle/relay.", "is a thread between sockets"},
      {"emulation/throttle/tcp.", "makes sockets"},
      {"emulation/throttle/traced_link.", "is a thread that changes a link over time"},
      {"emulation/virtual_network.", "looks pairs up by hash and never iterates over them"},
      {"nodes/", "runs cores in real time"},
      {"proto/address.", "asks the system for addresses"},
      {"proto/awake_wait.", "yields to other threads"},
      {"proto/block_pool.", "takes blocks back from other threads"},
      {"proto/loop_trace.", "records instants"},
      {"proto/memory_transport.", "joins threads"},
      {"proto/reach.", "connects to a port"},
      {"proto/shm/", "joins processes"},
      {"proto/key_files.", "reads and writes files"},
      {"proto/zmq_connections.", "asks the kernel about sockets"},
      {"proto/zmq_curve.", "is a thread"},
      {"proto/zmq_transport.", "joins hosts"},
      {"report/host_info.", "asks the system what it is"},
      {"report/live/live_board.", "is written and read by different threads"},
      {"report/live/live_server.", "serves pages from threads"},
      {"report/outputs.", "makes directories"},
      {"report/run_directory.", "writes and reads files"},
      {"report/study/journal.", "writes a file"},
      {"report/study/runner.", "runs on several threads"},
      {"report/study/study_directory.", "writes and reads files"},
      {"report/study/study_file.", "looks files up"},
      {"server/file_storage.", "writes files from a thread"},
      {"server/journal_parts.", "writes files from a thread"},
      {"train/best_time.", "measures times"},
      {"train/cpu/cpu_info.", "reads the environment"},
      {"train/cpu/cpu_rates.", "measures times, with threads beside"},
      {"train/cpu/primitive_call.", "hands oneDNN a hash table, as oneDNN demands"},
      {"train/cpu/product_cache.", "keeps measured times in a file"},
      {"train/cpu/product_times.", "measures times"},
      {"train/cuda/cuda_gpu.", "keeps other threads off a GPU that records"},
      {"train/data/data_files.", "looks files up"},
      {"train/data/image_files.", "reads files"},
      {"train/data/image_folders.", "reads files"},
      {"train/data/image_formats.", "reads files"},
      {"train/data/table_files.", "reads files"},
      {"train/layer_clock.", "measures times"},
      {"worker/residual_file.", "maps a file"},
  };
  return kFiles;
}

Violations pure_cores(const SourceFile& file) {
  static const std::set<std::string, std::less<>> kImpure = {
      "atomic",   "chrono",       "condition_variable", "ctime",  "fcntl.h",       "filesystem",
      "fstream",  "future",       "iostream",           "mutex",  "poll.h",        "random",
      "sched.h",  "shared_mutex", "signal.h",           "thread", "unordered_map", "unordered_set",
      "unistd.h", "csignal"};
  Violations out;
  const auto exempt = [](std::string_view path) {
    return std::ranges::any_of(impure_files(),
                               [&](const Impure& impure) { return path.starts_with(impure.path); });
  };
  if (!is_product(file) || exempt(file.path)) return out;
  for (const Include& include : includes_of(file)) {
    if (kImpure.contains(include.target) || include.target.starts_with("sys/")) {
      out.push_back(
          at(file, include.line, fmt::format("a pure file includes no <{}>", include.target)));
    }
  }
  each_word(blank_comments_and_literals(file.text),
            [&](std::string_view word, std::size_t, std::size_t line) {
              if (word == "steady_now" || word == "thread_now" || word == "getenv")
                out.push_back(at(file, line, fmt::format("'{}': a pure file is told", word)));
            });
  return out;
}

Violations line_lengths(const SourceFile& file) {
  Violations out;
  const std::vector<std::string_view> lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto characters =
        static_cast<std::size_t>(std::count_if(lines[i].begin(), lines[i].end(), [](char c) {
          return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // not a UTF-8 continuation
        }));
    if (characters > kLineLengthMax) {
      out.push_back(
          at(file, i + 1, fmt::format("{} characters, at most {}", characters, kLineLengthMax)));
    }
  }
  return out;
}

Violations header_form(const SourceFile& file) {
  Violations out;
  if (!file.path.ends_with(".hpp")) return out;
  const std::vector<std::string_view> lines = lines_of(file.text);
  const std::string opening = "// " + file.path + " - ";
  if (lines.empty() || !lines[0].starts_with(opening) || lines[0].size() == opening.size()) {
    out.push_back(at(file, 1, fmt::format("a header begins with \"{}what it is\"", opening)));
  }
  if (std::find(lines.begin(), lines.end(), "#pragma once") == lines.end()) {
    out.push_back(fmt::format("{}: no #pragma once", file.path));
  }
  return out;
}

Violations banned_words(const SourceFile& file) {
  using Words = std::set<std::string_view>;
  // Written in two halves, so that this file passes its own rule.
  static const Words kMarkers = {
      "TO"
      "DO",
      "FIX"
      "ME",
      "XX"
      "X",
      "HA"
      "CK"};
  static const Words kClocks = {"steady_clock", "system_clock", "high_resolution_clock"};
  static const Words kGenerators = {"random_device", "default_random_engine"};
  static const Words kSleeps = {"sleep_for", "sleep_until", "usleep", "nanosleep"};
  const bool test = first_folder(file.path) == "tests";

  Violations out;
  const auto report = [&](std::size_t line, std::string_view word, std::string_view why) {
    out.push_back(at(file, line, fmt::format("'{}': {}", word, why)));
  };
  each_word(file.text, [&](std::string_view word, std::size_t, std::size_t line) {
    if (kMarkers.contains(word)) report(line, word, "finish it, or open an issue");
  });

  const std::string text = blank_comments_and_literals(file.text);
  const std::string_view code = text;
  each_word(code, [&](std::string_view word, std::size_t begin, std::size_t line) {
    const std::string_view head = before(code, begin);
    if (word == "new" || word == "delete") {
      const bool declared = ends_with_word(head, "operator") ||
                            (word == "delete" && head.ends_with('=')) ||
                            code.substr(begin - std::min<std::size_t>(begin, 1), 5) == "<new>";
      if (!declared) report(line, word, "own memory by a value, a container or unique_ptr");
    }
    if (kClocks.contains(word) && file.path != "base/time.cpp")
      report(line, word, "only base/time.cpp reads a clock");
    if (word == "dump" && head.ends_with('.') && !test && file.path != "base/json.hpp")
      report(line, word, "json_text() of base/json.hpp takes texts that are no UTF-8");
    const bool generator =
        kGenerators.contains(word) || word.starts_with("mt19937") ||
        (word.ends_with("_distribution") && head.ends_with("std::")) ||
        ((word == "rand" || word == "srand") && code.substr(begin + word.size()).starts_with('('));
    if (generator && file.path != "base/rng.cpp")
      report(line, word, "use base/rng.hpp: the same numbers with every library");
    const bool sleeps =
        kSleeps.contains(word) ||
        (word == "poll" && code.substr(begin + word.size()).starts_with("(nullptr"));
    const std::string_view folder = first_folder(file.path);
    if (word == "print" && head.ends_with("fmt::") && (folder == "cli" || folder == "report"))
      report(line, word, "use base/print.hpp, or write_line() of base/log.hpp: others' texts");
    if (test && sleeps && file.path != "tests/pause.hpp")
      report(line, word, "wait for the event; in a loop with a deadline use tests/pause.hpp");
  });
  return out;
}

Violations test_names(const SourceFile& file) {
  Violations out;
  const std::string_view text = file.text;
  each_word(text, [&](std::string_view word, std::size_t begin, std::size_t line) {
    std::size_t i = begin + word.size();
    if (word != "TEST_CASE" || i >= text.size() || text[i] != '(') return;
    // The literals of the name.
    for (i = skip_space(text, i + 1); i < text.size() && text[i] == '"'; i = skip_space(text, i)) {
      for (++i; i < text.size() && text[i] != '"'; i += text[i] == '\\' ? 2 : 1) {
        if (text[i] != ';') continue;
        out.push_back(at(file, line, "a semicolon in its name keeps a test from running"));
        return;
      }
      ++i;
    }
  });
  return out;
}

Violations virtual_interfaces(const SourceFile& file) {
  static const std::set<std::string, std::less<>> kInterfaces = {
      "Transport", "Device",          "OwnMemory", "CommitRule", "Gate",
      "Tuner",     "Storage",         "Gpu",       "Event",      "Convolution",
      "Graph",     "VirtualTraining", "Disk",      "DiskFile",   "Turns"};
  Violations out;
  if (!is_product(file)) return out;
  const std::string code = blank_comments_and_literals(file.text);
  std::vector<std::string> scopes;  // for each open brace: the class it opens, or the one around it
  std::string announced;            // by `class X`, before its brace
  bool class_key = false;           // the last word was `class` or `struct`
  std::size_t done = 0;
  const auto braces = [&](std::size_t end) {
    for (; done < end; ++done) {
      const char c = code[done];
      if (c == '{') {
        scopes.push_back(!announced.empty() ? announced : scopes.empty() ? "" : scopes.back());
        announced.clear();
      } else if (c == '}' && !scopes.empty()) {
        scopes.pop_back();
      } else if (c == ';') {
        announced.clear();
      }
    }
  };
  each_word(code, [&](std::string_view word, std::size_t begin, std::size_t line) {
    braces(begin);
    if (class_key) announced = word;
    class_key = word == "class" || word == "struct";
    const std::string around = scopes.empty() ? "" : scopes.back();
    if (word == "virtual" && !kInterfaces.contains(around)) {
      out.push_back(
          at(file, line, fmt::format("'{}' is not one of the agreed virtual interfaces", around)));
    }
  });
  return out;
}

Violations built_by_someone(const SourceFile& file, const std::vector<SourceFile>& lists) {
  if (!file.path.ends_with(".cpp")) return {};
  const auto ends_name = [](char c) { return is_space(c) || c == '(' || c == ')' || c == '"'; };
  for (const SourceFile& list : lists) {
    const std::string folder = list.path.substr(0, list.path.rfind('/') + 1);
    if (!file.path.starts_with(folder)) continue;
    const std::string_view name = std::string_view(file.path).substr(folder.size());
    for (const std::string_view whole : lines_of(list.text)) {
      const std::string_view line = whole.substr(0, whole.find('#'));
      for (auto i = line.find(name); i != line.npos; i = line.find(name, i + 1)) {
        const std::size_t end = i + name.size();
        if ((i == 0 || ends_name(line[i - 1])) && (end == line.size() || ends_name(line[end])))
          return {};
      }
    }
  }
  return {fmt::format("{}: named by no CMakeLists.txt", file.path)};
}

std::size_t include_count(const SourceFile& file) {
  return includes_of(file).size();
}

std::map<std::string, std::size_t> member_counts(const SourceFile& file) {
  std::map<std::string, std::size_t> counts;
  const std::string code = blank_comments_and_literals(file.text);
  struct Scope {
    std::string name;  // of the class; empty: no class
  };
  std::vector<Scope> scopes;
  std::string announced;
  bool class_key = false;
  int parentheses = 0;
  std::size_t done = 0;
  each_word(code, [&](std::string_view word, std::size_t begin, std::size_t) {
    for (; done < begin; ++done) {
      const char c = code[done];
      if (c == '(') ++parentheses;
      if (c == ')') --parentheses;
      if (c == '{') {
        scopes.push_back({announced});
        announced.clear();
      } else if (c == '}' && !scopes.empty()) {
        scopes.pop_back();
      } else if (c == ';' || c == '>') {  // a template's parameter announces no class
        announced.clear();
      }
    }
    if (class_key) announced = word;
    class_key = word == "class" || word == "struct";
    if (scopes.empty() || scopes.back().name.empty() || parentheses > 0) return;
    const std::size_t next = skip_space(code, begin + word.size());
    if (word.ends_with('_') && next < code.size() &&
        std::string_view(";={[,").find(code[next]) != std::string_view::npos)
      ++counts[scopes.back().name];
  });
  return counts;
}

bool names_one_of(const SourceFile& file, const std::vector<std::string>& models) {
  // Comments are blanked, literals are kept.
  const std::string blanked = blank_comments_and_literals(file.text);
  std::string code = file.text;
  bool literal = false;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (blanked[i] == '"') literal = !literal;
    if (!literal && blanked[i] == ' ') code[i] = ' ';
  }
  std::string letters;  // the same in small letters
  for (const char c : code)
    letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto is_lower = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
  for (const std::string& model : models) {
    std::string joined = model, underscored = model;
    std::erase(joined, '-');
    std::ranges::replace(underscored, '-', '_');
    for (const std::string& form : {model, underscored, joined}) {
      for (auto i = letters.find(form); i != letters.npos; i = letters.find(form, i + 1)) {
        const std::size_t end = i + form.size();
        const bool begins = i == 0 || !is_letter(code[i - 1]) ||
                            (is_lower(code[i - 1]) && !is_lower(code[i]));  // camelCase
        if (begins && (end == code.size() || !is_lower(code[end]))) return true;
      }
    }
  }
  return false;
}

std::string blank_comments_and_literals(std::string_view text) {
  std::string out(text);
  const auto blank = [&out](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, out.size()); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  std::size_t i = 0;
  while (i < text.size()) {
    std::size_t end = i + 1;
    if (text.substr(i, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
      blank(i, end);
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t close = text.find("*/", i + 2);
      end = close == text.npos ? text.size() : close + 2;
      blank(i, end);
    } else if (text.substr(i, 2) == "R\"") {
      const std::size_t open = std::min(text.find('(', i), text.size());
      const std::string close = ")" + std::string(text.substr(i + 2, open - i - 2)) + "\"";
      end = std::min(text.find(close, open), text.size());
      blank(i + 2, end);
      end = std::min(end + close.size(), text.size());
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') {
        end += text[end] == '\\' ? 2 : 1;
      }
      blank(i + 1, end);
      end = std::min(end + 1, text.size());
    }
    i = end;
  }
  return out;
}

}  // namespace rubato::rules
