// What leaves a box is what docs/privacy.md says: counted on the wire, between a worker with data
// of its own and the other nodes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/rng.hpp"
#include "proto/codec.hpp"
#include "proto/shm/signal.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/relay.hpp"
#include "tests/loopback.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

// What the box has. Its numbers are unusual, so their bytes are found if they are anywhere.
struct Box {
  std::string csv = "name,dose,city,risk\n";
  std::vector<double> doses;
  std::vector<std::string> names;
};

Box make_box() {
  Box box;
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    const double dose = 1000 * rng.normal() + 0.123456;
    const std::string name = fmt::format("Patient{}", 700'000 + rng.below(100'000));
    box.csv += fmt::format("{},{:.6f},{},{}\n", name, dose, i % 3 == 0 ? "Ulm" : "Kiel",
                           dose > 0 ? "high" : "low");
    box.doses.push_back(std::stod(fmt::format("{:.6f}", dose)));
    box.names.push_back(name);
  }
  return box;
}

constexpr const char* kCluster = R"(name = "clinic"
[[workers]]
name = "north"
step_seconds = 0.005
data = "north.csv"
[model]
kind = "mlp"
hidden = [8]
[dataset]
partition = "local"
label_column = "risk"
ignore = ["name"]
[training]
batch = 16
learning_rate = 0.05
[evaluation]
interval_seconds = 0.2
[stop]
max_steps = 200
)";

bool holds(const Relay::Bytes& bytes, std::string_view pattern) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.find(pattern) != std::string_view::npos;
}

std::string bytes_of(double number) {
  const auto raw = std::bit_cast<std::array<char, sizeof number>>(number);
  return {raw.begin(), raw.end()};
}

// As an element of a payload. Elsewhere four bytes are too few to mean anything.
bool holds_float(const Relay::Bytes& bytes, float number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += sizeof number)
    if (std::memcmp(bytes.data() + at, &number, sizeof number) == 0) return true;
  return false;
}

// The names of docs/privacy.md's first table.
std::set<std::string> documented_messages() {
  std::ifstream file(RUBATO_SOURCE_DIR "/docs/privacy.md");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| ") || line.starts_with("| message")) continue;
    const std::string cell = line.substr(2, line.find(" |") - 2);
    for (std::size_t at = 0; at <= cell.size();) {
      const std::size_t end = std::min(cell.find(", ", at), cell.size());
      names.insert(cell.substr(at, end - at));
      at = end + 2;
    }
  }
  return names;
}

// What the worker has said, by name of the message.
struct Heard {
  std::map<std::string, std::vector<proto::Message>> messages;
  std::size_t offers = 0;
  std::size_t connections = 0;
};

// Decodes whatever went through the relays, and checks that it is all that did.
Heard decode_all(const std::vector<Relay::Sent>& links) {
  Heard heard;
  for (const Relay::Sent& link : links) {
    std::size_t bytes = link.handshake;
    CHECK(link.handshake < 200);
    bool of_worker = false;  // or of the evaluator
    std::size_t offers = 0;
    for (const Relay::Message& frames : link.messages) {
      REQUIRE(frames.size() == 2);
      for (const auto& frame : frames) bytes += proto::framed_bytes(frame.size());
      if (const auto signal = proto::shm::read_signal(frames[0])) {
        CHECK(frames[0].size() == 128);
        CHECK(frames[1].empty());
        offers += signal->kind == proto::shm::SignalKind::Offer;
        continue;
      }
      const auto payload = std::make_shared<Relay::Bytes>(frames[1]);
      const auto message = proto::decode(frames[0], proto::Payload::of(payload));
      REQUIRE(message.has_value());
      of_worker = message->sender.role == proto::Role::Worker;
      if (!of_worker) continue;
      heard.messages[body_name(message->body)].push_back(*message);
    }
    CHECK(link.bytes == bytes);
    if (!of_worker) continue;
    ++heard.connections;
    heard.offers += offers;
  }
  return heard;
}

TEST_CASE("privacy: what a worker sends is what docs/privacy.md says, to the byte") {
  const Workplace place;
  const Box box = make_box();
  place.write("north.csv", box.csv);
  place.write("c.toml", kCluster);
  Relay to_scheduler, to_server;
  Process scheduler(
      place, {"scheduler", "c.toml", "--sync", "asp", "--bind", "tcp://127.0.0.1:*", "--out", "o"});
  const std::string endpoint = endpoint_of(scheduler);
  to_scheduler.set_target(tests::port_of(endpoint));
  Process worker(place, {"worker", "c.toml", "--sync", "asp", "--name", "north", "--data",
                         "north.csv", "--scheduler", to_scheduler.endpoint()});
  const int port = tests::free_port();
  to_server.set_target(port);
  Process server(
      place, {"server", "c.toml", "--sync", "asp", "--name", "s", "--scheduler", endpoint, "--bind",
              tests::endpoint_at(port), "--advertise", to_server.endpoint()});
  for (Process* process : {&scheduler, &server, &worker}) {
    const int code = process->wait_for_end();
    CAPTURE(process->err());
    REQUIRE(code == 0);
  }
  auto links = to_scheduler.sent();
  for (auto& link : to_server.sent()) links.push_back(std::move(link));
  const Heard heard = decode_all(links);
  CHECK(heard.offers == heard.connections);

  const auto documented = documented_messages();
  REQUIRE(documented.contains("Describe"));
  for (const auto& [name, all] : heard.messages) {
    CAPTURE(name);
    CHECK(documented.contains(name));
    for (const proto::Message& message : all) CHECK((name == "Commit" || message.payload.empty()));
  }
  for (const char* name : {"Describe", "Hello", "Commit", "Progress", "Evaluation"})
    CHECK(heard.messages.contains(name));

  // The summary is what `rubato data` prints, and nothing else.
  Process data(place, {"data", "north.csv", "--label", "risk", "--ignore", "name", "--json"});
  REQUIRE(data.wait_for_end() == 0);
  const auto& describe = std::get<proto::Describe>(heard.messages.at("Describe").front().body);
  CHECK(describe.summary.total == describe.summary.bytes.size());
  CHECK(Json::parse(describe.summary.bytes) == Json::parse(data.out()).at("summary"));

  // A commit is 4 bytes a parameter: 3 inputs (dose, two cities), 8 hidden, 2 classes.
  const std::size_t parameters = (3 + 1) * 8 + (8 + 1) * 2;
  for (const proto::Message& message : heard.messages.at("Commit")) {
    const auto& commit = std::get<proto::Commit>(message.body);
    CHECK(commit.total == parameters);
    CHECK(message.payload.size() == 4 * commit.count);
  }

  // No sample, and no name of a column that is left out.
  for (const Relay::Sent& link : links)
    for (const Relay::Message& frames : link.messages)
      for (const auto& frame : frames) {
        const auto leaks = [&](const std::string& pattern) { return holds(frame, pattern); };
        CHECK_FALSE(std::ranges::any_of(box.names, leaks));
        for (const double dose : box.doses)
          CHECK_FALSE((leaks(bytes_of(dose)) || leaks(fmt::format("{:.6f}", dose)) ||
                       holds_float(frame, static_cast<float>(dose))));
      }
}

}  // namespace
}  // namespace rubato::integration
