// docs/privacy.md, checked on the wire: every byte that a worker sends goes through a relay that
// keeps it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "base/file.hpp"
#include "base/rng.hpp"
#include "proto/codec.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/relay.hpp"
#include "train/data_summary.hpp"
#include "train/model_file.hpp"

namespace rubato::integration {
namespace {

// Rows whose every field can be told from any other text. The last one is the label.
std::string rows_of_box(std::uint64_t box, int rows) {
  Rng rng(box);
  std::string text = "id,height,weight,kind\n";
  for (int i = 0; i < rows; ++i) {
    const bool large = rng.below(2) == 1;
    text += fmt::format("id-{}-{},{:.6f},{:.6f},{}\n", box, i, (large ? 20 : 10) + rng.normal(),
                        (large ? 7 : 5) + rng.normal(), large ? "large" : "small");
  }
  return text;
}

// The messages of a ZeroMQ stream (ZMTP 3.1: a greeting of 64 bytes, then frames of a flag byte, a
// length of one or eight bytes, and a body).
std::vector<proto::Message> messages_of(const std::string& stream) {
  constexpr std::size_t kGreeting = 64;
  constexpr unsigned kMore = 1, kLong = 2, kCommand = 4;
  std::vector<proto::Message> messages;
  std::vector<std::vector<std::byte>> parts;
  for (std::size_t at = kGreeting; at + 2 <= stream.size();) {
    const auto flags = static_cast<unsigned char>(stream[at++]);
    const std::size_t length_bytes = flags & kLong ? 8 : 1;
    if (at + length_bytes > stream.size()) break;
    std::size_t length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i)
      length = length << 8 | static_cast<unsigned char>(stream[at++]);
    if (at + length > stream.size()) break;  // the node ended in the middle
    const auto* bytes = reinterpret_cast<const std::byte*>(stream.data() + at);
    at += length;
    if (flags & kCommand) continue;
    parts.emplace_back(bytes, bytes + length);
    if (flags & kMore) continue;
    REQUIRE(parts.size() == 2);
    const auto payload = std::make_shared<std::vector<std::byte>>(std::move(parts[1]));
    CAPTURE(at);
    CAPTURE(stream.size());
    CAPTURE(parts[0].size());
    CAPTURE(messages.size());
    auto message = proto::decode(parts[0], proto::Payload::of(payload));
    REQUIRE_MESSAGE(message.has_value(), (message ? "" : message.error().message));
    messages.push_back(std::move(*message));
    parts.clear();
  }
  return messages;
}

// The names in the first column of the page's first table.
std::set<std::string> documented_messages() {
  const auto page = read_file(std::string(RUBATO_SOURCE_DIR) + "/docs/privacy.md");
  REQUIRE(page.has_value());
  std::set<std::string> names;
  std::istringstream lines(*page);
  for (std::string line; std::getline(lines, line) && !line.starts_with("## ");) {
    if (!line.starts_with("| ")) continue;
    std::istringstream words(line.substr(2, line.find('|', 2) - 2));
    for (std::string word; std::getline(words, word, ',');) {
      const auto begin = word.find_first_not_of(' ');
      names.insert(word.substr(begin, word.find_last_not_of(' ') + 1 - begin));
    }
  }
  return names;
}

std::string bytes_of(const float* values, std::size_t count) {
  std::string text(count * sizeof(float), '\0');
  std::memcpy(text.data(), values, text.size());
  return text;
}

TEST_CASE("privacy: what leaves a box is what docs/privacy.md says, counted on the wire") {
  const Workplace place;
  const std::string own = rows_of_box(1, 400);
  place.write("north.csv", own);
  place.write("south.csv", rows_of_box(2, 300));
  place.write("c.toml", R"(name = "private"
[[workers]]
name = "north"
step_seconds = 0.01
[[workers]]
name = "south"
step_seconds = 0.01
[model]
kind = "mlp"
hidden = [7]
[dataset]
partition = "local"
label_column = "kind"
ignore = ["id"]
[training]
batch = 16
learning_rate = 0.1
[evaluation]
interval_seconds = 0.2
[stop]
max_seconds = 3
)");
  const int port = free_port();
  const Relay to_scheduler(port);
  const int server_port = free_port();
  const Relay to_server(server_port);
  const std::string scheduler = fmt::format("tcp://127.0.0.1:{}", port);
  Process host(place, {"scheduler", "c.toml", "--sync", "asp", "--bind", scheduler, "--out", "o"});
  host.wait_for_words("listens on ");
  Process server(
      place, {"server", "c.toml", "--sync", "asp", "--scheduler", scheduler, "--bind",
              fmt::format("tcp://127.0.0.1:{}", server_port), "--advertise", to_server.endpoint()});
  Process south(place, {"worker", "c.toml", "--sync", "asp", "--scheduler", scheduler, "--name",
                        "south", "--data", "south.csv"});
  const std::size_t others = to_server.sent().size();
  Process north(place, {"worker", "c.toml", "--sync", "asp", "--scheduler", to_scheduler.endpoint(),
                        "--name", "north", "--data", "north.csv"});
  for (Process* process : {&north, &south, &server, &host}) {
    const int code = process->wait_for_end();
    CAPTURE(process->err());
    REQUIRE(code == 0);
  }
  CHECK(others <= 1);

  // North's streams: all to the scheduler's relay, and those to the server's whose messages name
  // it.
  std::vector<std::string> streams = to_scheduler.sent();
  REQUIRE_FALSE(streams.empty());
  std::optional<proto::NodeId> me;
  Incarnation incarnation = 0;
  for (const auto& message : messages_of(streams.front()))
    if (message.sender.role == proto::Role::Worker &&
        std::holds_alternative<proto::Progress>(message.body))
      me = message.sender, incarnation = message.incarnation;
  REQUIRE(me.has_value());
  for (const std::string& stream : to_server.sent()) {
    const auto messages = messages_of(stream);
    if (!messages.empty() && messages.front().incarnation == incarnation) streams.push_back(stream);
  }
  REQUIRE(streams.size() >= 2);

  const auto model = train::read_model(place.path("o/model.safetensors").string());
  REQUIRE(model.has_value());
  const std::uint64_t update_bytes = model->parameters.size() * sizeof(float);
  train::DatasetOptions options;
  options.kind = "";
  options.label_column = "kind";
  options.ignore = {"id"};
  const auto summary = train::summarise(place.path("north.csv").string(), options);
  REQUIRE(summary.has_value());

  std::map<std::string, std::size_t> seen;
  std::set<Sequence> commits;
  std::uint64_t payload = 0;
  for (const std::string& stream : streams)
    for (const auto& message : messages_of(stream)) {
      ++seen[proto::body_name(message.body)];
      if (const auto* commit = std::get_if<proto::Commit>(&message.body)) {
        commits.insert(commit->sequence);
        payload += message.payload.size();
      } else {
        CHECK(message.payload.empty());  // nothing else carries more than its frame
      }
      if (const auto* describe = std::get_if<proto::Describe>(&message.body))
        CHECK(describe->summary == to_text(*summary));
    }
  const auto documented = documented_messages();
  for (const auto& [name, count] : seen) {
    CAPTURE(name);
    CHECK(documented.contains(name));
  }
  for (const char* name : {"Describe", "Hello", "Commit", "Progress", "Evaluation"})
    CHECK(seen[name] > 0);
  CHECK(commits.size() > 10);
  // One slice of U for each commit; a chunk may be sent again.
  CHECK(payload >= commits.size() * update_bytes);
  CHECK(payload <= (commits.size() + 5) * update_bytes);

  // No row, neither its fields as text nor its features as the model takes them.
  std::set<std::string> needles;
  std::istringstream lines(own);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line.substr(0, line.rfind(',')));
    for (std::string field; std::getline(fields, field, ',');) needles.insert(field);
  }
  CHECK(needles.size() > 1000);
  const auto samples =
      train::load_local(place.path("north.csv").string(), model->schema, options, 0, 1);
  REQUIRE(samples.has_value());
  const auto& features = std::get<std::vector<float>>(samples->train.features);
  REQUIRE(features.size() == 800);
  for (std::size_t i = 0; i < features.size(); i += 2) needles.insert(bytes_of(&features[i], 2));
  for (const std::string& needle : needles)
    for (const std::string& stream : streams) REQUIRE_FALSE(contains(stream, needle));
}

}  // namespace
}  // namespace rubato::integration
