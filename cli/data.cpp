// `rubato data`: what files hold, and the schema that follows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/data_options.hpp"
#include "report/table.hpp"
#include "train/data/data_files.hpp"
#include "train/data/data_hints.hpp"
#include "train/data/image_folders.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/data/table_files.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::cli {
namespace {

using Json = OrderedJson;
using train::RawImages;
using train::RawTable;
using Cells = std::vector<std::vector<std::string>>;

constexpr std::size_t kFirstLook = 5;     // samples
constexpr std::size_t kColumnsShown = 8;  // in the first look
constexpr std::size_t kRowsShown = 40;    // columns and classes
constexpr std::size_t kCellWidth = 24;
constexpr double kMostlyBad = 0.2;  // from this share of the samples on nobody leaves them out

struct File {
  std::string path, kind;
  train::RawData raw;
  train::DataSummary summary;
  double least = 0, most = 0;  // of a regression's target
};

// Training refuses some samples. They are counted here, and the rest of the data is shown.
Result<File> read(const std::string& path, train::DatasetOptions options) {
  options.skip_unlabelled = true;
  options.skip_bad = 1;
  File file{.path = path, .kind = options.kind, .raw = {}, .summary = {}};
  if (file.kind.empty()) {
    RUBATO_ASSIGN(file.kind, train::kind_of(path));
  } else if (!train::is_file_kind(file.kind)) {
    return fail(ErrorCode::BadInput,
                fmt::format("--kind {}: must be csv, libsvm, numpy, idx or images", file.kind));
  }
  options.kind = file.kind;
  auto raw = train::read_raw(path, options);
  if (!raw) return fail(ErrorCode::BadInput, std::move(raw.error().message));
  file.raw = std::move(*raw);
  RUBATO_ASSIGN(file.summary, train::summarise(file.raw, path, options));
  if (!file.summary.target) return file;
  RUBATO_ASSIGN(const auto values, train::target_values(file.raw, path));
  const auto [least, most] = std::ranges::minmax_element(values);
  file.least = *least;
  file.most = *most;
  return file;
}

// At most kCellWidth characters of a text, in one line.
std::string shortened(const std::string& text) {
  std::size_t at = 0, characters = 0;
  for (; at < text.size(); ++at) {
    const bool continued = (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    if (!continued && ++characters > kCellWidth) break;
  }
  return printable(at == text.size() ? text : text.substr(0, at) + "...");
}

// A mean far from 0 with the digits in which the numbers differ.
std::string mean_text(const train::Moments& of) {
  constexpr int kDigits = 6, kMost = 15;
  const double times =
      std::abs(of.mean) / train::deviation(of);  // infinite or NaN where all are the same
  const double more = std::isfinite(times) && times > 1 ? std::ceil(std::log10(times)) : 0;
  const int digits = std::isinf(times) ? kMost : kDigits - 1 + static_cast<int>(more);
  return fmt::format("{:.{}g}", of.mean, std::clamp(digits, kDigits, kMost));
}

std::string list_text(const std::vector<std::string>& words) {
  constexpr std::size_t kListed = 4;
  std::vector<std::string> shown(
      words.begin(), words.begin() + static_cast<std::ptrdiff_t>(std::min(words.size(), kListed)));
  for (std::string& word : shown) word = shortened(word);
  return fmt::format("{}: {}{}", words.size(), fmt::join(shown, ", "),
                     words.size() > kListed ? ", ..." : "");
}

void add_row(Cells& columns, std::vector<std::string> row) {
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].push_back(std::move(row[i]));
}

std::string more_text(std::size_t all, const char* word) {
  return all <= kRowsShown ? "" : fmt::format("... and {}\n", counted(all - kRowsShown, word));
}

std::string columns_text(const train::DataSummary& summary) {
  Cells cells = {{summary.steps > 1 ? "Channel" : "Column"},
                 {"Kind"},
                 {"Missing"},
                 {"Mean"},
                 {"Deviation"},
                 {"Categories"}};
  for (std::size_t i = 0; i < std::min(summary.columns.size(), kRowsShown); ++i) {
    const train::ColumnSummary& column = summary.columns[i];
    const std::string missing = count_text(static_cast<double>(column.missing));
    const std::string name = shortened(train::shown_name(column.name, i, summary.sparse));
    if (!column.categories.empty()) {
      add_row(cells, {name, "category", missing, "-", "-", list_text(column.categories)});
    } else if (column.values.count == 0) {
      add_row(cells, {name, "empty", missing, "-", "-", "-"});
    } else {
      add_row(cells, {name, "number", missing, mean_text(column.values),
                      fmt::format("{:.6g}", train::deviation(column.values)), "-"});
    }
  }
  return report::aligned(cells, text_columns(stdout)) + "\n" +
         more_text(summary.columns.size(), summary.steps > 1 ? "channel" : "column");
}

std::string channels_text(const train::DataSummary& summary) {
  static constexpr std::array kColours = {"red", "green", "blue"};
  Cells cells = {{"Channel"}, {"Mean"}, {"Deviation"}};
  for (std::size_t c = 0; c < summary.channels.size(); ++c)
    add_row(cells, {summary.channels.size() == 1 ? "grey" : kColours.at(c),
                    fmt::format("{:.1f}", summary.channels[c].mean),
                    fmt::format("{:.1f}", train::deviation(summary.channels[c]))});
  return report::aligned(cells, text_columns(stdout)) + "\n";
}

std::string labels_text(const train::DataSummary& summary, const train::InputSchema& schema) {
  Cells cells = {{"Class"}, {"Samples"}, {"Share"}};
  for (std::size_t c = 0; c < std::min(schema.classes.size(), kRowsShown); ++c) {
    const auto found = summary.classes.find(schema.classes[c]);
    const std::uint64_t samples = found == summary.classes.end() ? 0 : found->second;
    add_row(cells,
            {shortened(schema.classes[c]), count_text(static_cast<double>(samples)),
             percent_text(static_cast<double>(samples) / static_cast<double>(summary.samples))});
  }
  return report::aligned(cells, text_columns(stdout)) + "\n" +
         more_text(schema.classes.size(), "class");
}

struct Target {
  train::Moments values;
  std::size_t missing = 0;
  double least = 0, most = 0;
};

// Of all files together.
Target target_of(const std::vector<File>& files, const train::Moments& values) {
  Target all{values, 0, files.front().least, files.front().most};
  for (const File& file : files) {
    all.missing += train::left_out_of(file.raw).unlabelled;
    all.least = std::min(all.least, file.least);
    all.most = std::max(all.most, file.most);
  }
  return all;
}

std::string target_text(const Target& target, const std::string& name) {
  const Cells cells = {{"Target", shortened(name)},
                       {"Missing", count_text(static_cast<double>(target.missing))},
                       {"Mean", mean_text(target.values)},
                       {"Deviation", fmt::format("{:.6g}", train::deviation(target.values))},
                       {"Least", fmt::format("{}", target.least)},
                       {"Most", fmt::format("{}", target.most)}};
  return report::aligned(cells, text_columns(stdout)) + "\n";
}

std::string value_cell(const train::RawColumn& column, double value) {
  if (std::isnan(value)) return "(missing)";
  if (column.text) return shortened(column.words[static_cast<std::size_t>(value)]);
  return fmt::format("{}", value);
}

// The first steps of the first sequence.
std::string sequence_look(const RawTable& table) {
  const std::size_t columns = table.columns.size(), shown = std::min(columns, kColumnsShown);
  Cells cells = {{"step"}};
  for (std::size_t step = 0; step < std::min(table.steps, kFirstLook); ++step)
    cells[0].push_back(fmt::format("{}", step));
  for (std::size_t c = 0; c < shown; ++c) {
    auto& cell = cells.emplace_back(1, fmt::format("{}", c));
    for (std::size_t step = 0; step + 1 < cells[0].size(); ++step)
      cell.push_back(value_cell(table.columns[c], table.values[step * columns + c]));
  }
  if (shown < columns) cells.emplace_back(cells[0].size(), "...");
  return report::aligned(cells, text_columns(stdout)) +
         "\nlabel: " + shortened(table.labels.front()) + "\n";
}

std::string table_look(const RawTable& table) {
  if (table.steps > 1) return sequence_look(table);
  const std::size_t shown = std::min(table.columns.size(), kColumnsShown);
  Cells cells = {{""}};
  std::vector<double> scratch;
  for (std::size_t row = 0; row < std::min(table.rows(), kFirstLook); ++row)
    cells[0].push_back(fmt::format("{}", row + 1));
  for (std::size_t c = 0; c < shown; ++c) {
    auto& cell =
        cells.emplace_back(1, shortened(train::shown_name(table.columns[c].name, c, table.sparse)));
    for (std::size_t row = 0; row + 1 < cells[0].size(); ++row)
      cell.push_back(value_cell(table.columns[c], row_of(table, row, scratch)[c]));
  }
  if (shown < table.columns.size()) cells.emplace_back(cells[0].size(), "...");
  auto& label = cells.emplace_back(1, "label");
  for (std::size_t row = 0; row + 1 < cells[0].size(); ++row)
    label.push_back(shortened(table.labels[row]));
  return report::aligned(cells, text_columns(stdout)) + "\n";
}

// Each image in characters, dark to light: half as many lines as columns, as characters are high.
std::string images_look(const RawImages& images) {
  constexpr int kSide = 18;
  constexpr std::string_view kInks = " .:-=+*#%@";
  constexpr std::size_t kGap = 2;
  const std::size_t fit =
      (std::max<std::size_t>(text_columns(stdout), kSide) - kSide) / (kSide + kGap);
  const std::size_t shown = std::min({images.count(), kFirstLook, fit + 1});
  const auto size = static_cast<std::size_t>(images.shape.count());
  std::vector<std::string> lines(kSide / 2);
  std::string names;
  for (std::size_t i = 0; i < shown; ++i) {
    train::Image image{images.shape, {}};
    for (std::size_t at = i * size; at < (i + 1) * size; ++at)
      image.pixels.push_back(images.fine.empty() ? images.pixels[at]
                                                 : static_cast<std::uint8_t>(images.fine[at] >> 8));
    const train::Image small = train::resized(image, kSide);
    constexpr std::size_t kPlane = std::size_t{kSide} * kSide;
    for (std::size_t y = 0; y < lines.size(); ++y) {
      for (std::size_t x = 0; x < kSide; ++x) {
        std::size_t light = 0, count = 0;
        for (std::size_t at = 2 * y * kSide + x; at < small.pixels.size(); at += kPlane) {
          light += std::size_t{small.pixels[at]} + small.pixels[at + kSide];
          count += 2;
        }
        lines[y] += kInks[light * (kInks.size() - 1) / (255 * count)];
      }
      lines[y] += std::string(kGap, ' ');
    }
    const std::string name = images.labels[i].substr(0, kSide);
    names += name + std::string(kSide + kGap - name.size(), ' ');
  }
  lines.push_back(names);
  std::string text;
  for (const std::string& line : lines)
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return text;
}

// What the first line of a CSV file was taken for.
const char* first_line(const File& file) {
  return file.summary.columns.front().name.empty() ? "values" : "names";
}

// What was found out of a table's text.
std::string format_of(const File& file) {
  const auto* table = std::get_if<RawTable>(&file.raw);
  return table ? table->format : "";
}

// What was not read of each file or directory, and what training would say of it.
std::string left_out_text(const std::vector<File>& files, Task task) {
  std::string text;
  for (const File& file : files) {
    const train::LeftOut& left_out = train::left_out_of(file.raw);
    if (left_out.count() == 0) continue;
    text += fmt::format("{}: {}\n", file.path, left_out.text());
    if (left_out.unlabelled > 0)
      text += fmt::format(
          "Training refuses samples without a {}, unless [dataset] has skip_unlabelled = true.\n",
          task == Task::Regression ? "target" : "label");
    if (left_out.unreadable == 0) continue;
    const auto unreadable = static_cast<double>(left_out.unreadable);
    const double share = unreadable / (unreadable + static_cast<double>(file.summary.samples));
    text +=
        share > kMostlyBad
            ? std::string(
                  "Training refuses so many unreadable samples; mend the file, or state "
                  "how it is written.\n")
            : fmt::format(
                  "Training refuses unreadable samples, unless dataset.skip_bad is {} or more.\n",
                  std::ceil(share * 1e4) / 1e4);
  }
  return text;
}

std::string caption(const std::vector<File>& files, const train::DataSummary& all) {
  static const std::map<std::string, std::string> kFormats = {
      {"csv", "CSV"},        {"libsvm", "LIBSVM"}, {"numpy", "NumPy"},
      {"idx", "IDX images"}, {"images", "images"}, {"cifar-10", "CIFAR-10 images"}};
  std::string text;
  for (const File& file : files)
    text += fmt::format("{}: {}, {}{}{}\n", file.path, kFormats.at(file.kind),
                        counted(file.summary.samples, "sample"),
                        file.kind == "csv" ? fmt::format("; first line: {}", first_line(file)) : "",
                        format_of(file).empty() ? "" : "; " + format_of(file));
  if (files.size() > 1)
    text += fmt::format("together: {} of {}\n", counted(all.samples, "sample"),
                        counted(files.size(), "box"));
  text += left_out_text(files, all.target ? Task::Regression : Task::Classification);
  if (all.image.channels > 0) {
    text += fmt::format("{} x {} pixels", all.image.width, all.image.height);
  } else if (all.steps > 1) {
    text += fmt::format("sequences of {} steps of {}", with_commas(all.steps),
                        counted(all.columns.size(), "channel"));
  } else {
    text += counted(all.columns.size(), "column");
    const bool named = !all.columns.front().name.empty();
    if (!all.label.empty())
      text += fmt::format("; the label is column {}", named ? shortened(all.label) : all.label);
  }
  if (all.weights) {
    text += fmt::format("; \"{}\" holds weights of samples: mean {:.6g}, deviation {:.6g}",
                        shortened(all.weight_column), all.weights->mean,
                        train::deviation(*all.weights));
  }
  return text + "\n";
}

// What a run would warn of.
std::vector<std::string> hints_of(const std::vector<File>& files, const train::DataSummary& all,
                                  const train::DatasetOptions& options) {
  std::vector<std::string> hints = train::data_hints(all, options);
  for (const File& file : files)
    if (const auto* table = std::get_if<RawTable>(&file.raw))
      for (const std::string& hint : train::table_hints(*table))
        hints.push_back(files.size() > 1 ? fmt::format("{}: {}", file.path, hint) : hint);
  return hints;
}

std::string page(const std::vector<File>& files, const train::DataSummary& all,
                 const train::InputSchema& schema, const std::vector<std::string>& hints) {
  const bool images = all.image.channels > 0;
  std::string text = caption(files, all) + "\n";
  if (schema.sparse) text += "mostly zeros: they stay zeros, and take no memory\n";
  text += (images ? channels_text(all) : columns_text(all)) + "\n";
  text += (all.target ? target_text(target_of(files, *all.target), schema.target_name())
                      : labels_text(all, schema)) +
          "\n";
  for (const std::string& hint : hints) text += fmt::format("Warning: {}.\n", hint);
  if (!hints.empty()) text += "\n";
  const File& first = files.front();
  text += all.steps > 1 ? "First steps of the first sample" : "First samples";
  text += files.size() > 1 ? fmt::format(" of {}\n", first.path) : "\n";
  text += images ? images_look(std::get<RawImages>(first.raw))
                 : table_look(std::get<RawTable>(first.raw));
  text += fmt::format("\nA model takes {} of a sample and gives {}.\n",
                      counted(static_cast<std::size_t>(schema.shape.count()), "input"),
                      schema.target ? "1 number" : counted(schema.classes.size(), "score"));
  return text;
}

Json data_json(const std::vector<File>& files, const train::DataSummary& all,
               const train::InputSchema& schema, const std::vector<std::string>& hints) {
  Json json;
  for (const File& file : files) {
    const train::LeftOut& left_out = train::left_out_of(file.raw);
    Json items = Json::array();
    for (const auto& item : left_out.items)
      items.push_back(
          {{"path", item.path}, {"what", item.what}, {"why", item.why}, {"files", item.files}});
    json["files"].push_back({{"path", file.path},
                             {"kind", file.kind},
                             {"samples", file.summary.samples},
                             {"unlabelled", left_out.unlabelled},
                             {"left_out", std::move(items)}});
    if (!format_of(file).empty()) json["files"].back()["format"] = format_of(file);
    if (file.kind == "csv") json["files"].back()["first_line"] = first_line(file);
  }
  if (all.target) {
    const Target target = target_of(files, *all.target);
    json["target"] = {
        {"name", schema.target_name()}, {"missing", target.missing},
        {"mean", target.values.mean},   {"deviation", train::deviation(target.values)},
        {"least", target.least},        {"most", target.most}};
  }
  json["warnings"] = hints;
  json["summary"] = Json::parse(train::to_text(all));
  json["schema"] = Json::parse(train::to_text(schema));
  return json;
}

Result<void> describe_checked(const DataRun& run) {
  std::vector<File> files;
  std::map<std::string, train::DataSummary> boxes;
  for (const std::string& path : run.files) {
    RUBATO_ASSIGN(File file, read(path, run.options));
    boxes[path] = file.summary;
    files.push_back(std::move(file));
  }
  RUBATO_ASSIGN(const auto all, train::merge(boxes));
  RUBATO_ASSIGN(const auto schema, train::agree(all, run.options));
  if (!run.schema.empty()) RUBATO_TRY(write_file(run.schema, train::to_text(schema) + "\n"));
  const auto hints = hints_of(files, all, run.options);
  if (run.json)
    print_json(json_text(data_json(files, all, schema, hints), 2));
  else
    print_shown(wrapped(page(files, all, schema, hints), text_columns(stdout)));
  return {};
}

}  // namespace

int describe_data(const DataRun& options) {
  return exit_code(in_options(describe_checked(options), true));
}

}  // namespace rubato::cli
