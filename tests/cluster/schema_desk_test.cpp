// How nodes agree on a schema: who is answered when, what is refused, and that nobody waits in
// silence. The desk and the askers speak to each other here.
#include "cluster/schema_desk.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proto/codec.hpp"
#include "proto/routes.hpp"
#include "tests/proto/samples.hpp"
#include "tests/server/sent.hpp"
#include "tests/temp_directory.hpp"
#include "train/data/summarise.hpp"

namespace rubato::cluster::schema_desk_tests {
namespace {

constexpr std::uint64_t kCluster = 0xc1;
constexpr proto::PeerId kScheduler = 7;
const Duration kSecond = Duration::from_seconds(1);

train::DatasetOptions table() {
  train::DatasetOptions options;
  options.kind = "csv";
  options.label_column = "kind";
  return options;
}

struct World {
  Instant now{1'000'000'000};
  SchemaDesk desk{
      {.cluster = kCluster, .incarnation = 1, .workers = {"a", "b"}, .stated = table()}};

  // Everything that an asker has to say goes to the desk as `peer`, and the answers back.
  void exchange(SchemaAsker& asker, proto::PeerId peer) {
    while (auto out = asker.poll_send()) desk.on_message(now, peer, out->message);
    deliver(asker, peer);
  }
  void deliver(SchemaAsker& asker, proto::PeerId peer) {
    std::vector<proto::ToPeer> others;
    while (auto out = desk.poll_send()) {
      if (out->to == peer)
        asker.on_message(now, kScheduler, out->message);
      else
        others.push_back(*out);
    }
    kept.insert(kept.end(), others.begin(), others.end());
  }
  // What was said to `peer` while others spoke.
  void catch_up(SchemaAsker& asker, proto::PeerId peer) {
    for (const auto& out : kept)
      if (out.to == peer) asker.on_message(now, kScheduler, out.message);
  }
  std::string log() {
    std::string all;
    while (const auto line = desk.poll_log()) all += *line + "\n";
    return all;
  }

  std::vector<proto::ToPeer> kept;
};

SchemaAsker asker(const std::string& name, const std::string& summary,
                  proto::Role role = proto::Role::Worker) {
  return SchemaAsker({.cluster = kCluster,
                      .incarnation = 2,
                      .role = role,
                      .name = name,
                      .summary = summary,
                      .scheduler = kScheduler});
}

std::string summary_of_csv(const std::string& text) {
  const TempDirectory directory;
  const auto summary = train::summarise(directory.write("x.csv", text), table());
  REQUIRE_MESSAGE(summary.has_value(), (summary ? "" : summary.error().message));
  return to_text(*summary);
}

TEST_CASE("schema: all are answered once the last worker has spoken, a server too") {
  World world;
  SchemaAsker a = asker("a", summary_of_csv("x,kind\n1,lily\n3,lily\n"));
  SchemaAsker b = asker("b", summary_of_csv("x,kind\n8,rose\n"));
  SchemaAsker server = asker("s", "", proto::Role::Server);
  a.on_start(world.now);
  server.on_start(world.now);
  world.exchange(a, 1);
  world.exchange(server, 2);
  CHECK_FALSE(a.stopped().has_value());
  CHECK_FALSE(server.stopped().has_value());
  CHECK_FALSE(world.desk.stopped().has_value());
  CHECK(world.log() == "worker 'a' has 2 samples of 1 class\n");
  world.desk.on_start(world.now);
  for (int second = 0; second < 7; ++second) {
    world.now = world.now + kSecond;
    world.desk.on_wakeup(world.now);
    a.on_wakeup(world.now);
    world.exchange(a, 1);  // it asks again; the desk says that it is there
  }
  const std::string awaits = "waiting for the data of b (1 of 2 workers joined)";
  CHECK(world.log() == awaits + "\n");
  CHECK(a.poll_log() == awaits);  // whoever has spoken hears it, too
  CHECK_FALSE(a.poll_log().has_value());
  CHECK_FALSE(a.failure().has_value());

  b.on_start(world.now);
  world.exchange(b, 3);
  world.catch_up(a, 1);
  world.catch_up(server, 2);
  CHECK(world.desk.stopped() == "2 workers agreed on 1 input and 2 outputs");
  CHECK(world.desk.samples() == std::map<std::string, std::uint64_t>{{"a", 2}, {"b", 1}});
  for (const SchemaAsker* each : {&a, &b, &server}) {
    REQUIRE(each->stopped().has_value());
    CHECK(each->schema() == world.desk.schema());
  }
  CHECK(a.schema().classes == std::vector<std::string>{"lily", "rose"});
  CHECK(a.schema().columns[0].scaling.mean == doctest::Approx(4));  // of 1, 3 and 8
}

TEST_CASE("schema: desk and asker refuse or drop what has no route, before they hear it") {
  using proto::Role;
  for (const Role from : {Role::Scheduler, Role::Server, Role::Worker, Role::Evaluator})
    for (proto::Message message : proto::samples::every_message()) {
      CAPTURE(to_string(proto::NodeId{from, 0}));
      CAPTURE(describe(message.body));
      message.cluster = kCluster;
      message.sender = {from, 0};
      const bool refusal = std::holds_alternative<proto::Refusal>(message.body);
      if (!has_route(from, Role::Scheduler, message.body)) {
        World world;
        world.desk.on_message(world.now, 9, message);
        const auto said = tests::sent(world.desk);
        CHECK(said.size() == (refusal ? 0 : 1));
        CHECK(tests::bodies<proto::Refusal>(said, 9).size() == said.size());
        CHECK(world.log().empty());
        CHECK_FALSE(world.desk.failure());
      }
      if (from != Role::Scheduler || has_route(from, Role::Worker, message.body)) continue;
      SchemaAsker a = asker("a", "x");
      a.on_start({1});
      tests::sent(a);
      const auto wakeup = a.poll_wakeup();
      a.on_message({5}, kScheduler, message);
      CHECK(tests::sent(a).empty());
      CHECK(a.poll_wakeup() == wakeup);
      CHECK_FALSE(a.failure());
      CHECK_FALSE(a.stopped());
    }
}

// Each announces 16 MiB and sends a byte of it.
TEST_CASE("schema: summaries that are announced and never end do not stop those that come") {
  World world;
  world.desk = SchemaDesk({.cluster = kCluster,
                           .incarnation = 1,
                           .workers = {"a", "b"},
                           .open = true,
                           .enough = 2,
                           .stated = table()});
  const auto announce = [&](const std::string& name) {
    world.desk.on_message(
        world.now, 900,
        {.cluster = kCluster,
         .sender = {proto::Role::Worker, 0},
         .incarnation = 5,
         .body =
             proto::Describe{.name = name, .summary = {.bytes = "x", .total = proto::kLongTextMax}},
         .payload = {}});
    std::uint64_t kept = 0;
    while (const auto out = world.desk.poll_send())
      if (const auto* described = std::get_if<proto::Described>(&out->message.body))
        kept = described->bytes;
    return kept;
  };
  int room = 0;
  while (room < 100 && announce("x" + std::to_string(room)) == 1) ++room;
  CHECK(room == 16);  // then there is no room for strangers
  SchemaAsker a = asker("a", summary_of_csv("x,kind\n1,lily\n"));
  a.on_start(world.now);
  world.exchange(a, 1);
  CHECK(world.log() == "worker 'a' has 1 sample of 1 class\n");
  CHECK(announce("y0") == 1);  // the others had to go
  for (int i = 1; i < 20; ++i) announce("y" + std::to_string(i));
  CHECK(announce("z") == 0);
  world.now = world.now + kSecond * 60;
  CHECK(announce("z") == 1);  // what stands still goes
}

TEST_CASE("schema: data that contradict each other refuse everybody, with the column and the box") {
  World world;
  SchemaAsker a = asker("a", summary_of_csv("x,kind\n1,lily\n"));
  SchemaAsker b = asker("b", summary_of_csv("y,kind\n8,rose\n"));
  a.on_start(world.now);
  b.on_start(world.now);
  world.exchange(a, 1);
  world.exchange(b, 3);
  world.catch_up(a, 1);
  REQUIRE(world.desk.failure().has_value());
  CHECK(world.desk.failure()->message.find("\"x\"") != std::string::npos);
  for (const SchemaAsker* each : {&a, &b}) {
    REQUIRE(each->failure().has_value());
    CHECK(each->failure()->message == "scheduler: " + world.desk.failure()->message);
  }
}

// 5,000 columns are a summary and a schema of several parts each.
std::string wide_csv(const std::string& value) {
  std::string names, values;
  for (int c = 0; c < 5000; ++c) {
    names += "a_long_name_of_column_" + std::to_string(c) + ",";
    values += value + ",";
  }
  return names + "kind\n" + values + "lily\n" + values + "rose\n";
}

TEST_CASE("schema: what is too long for one message travels in parts, over links that lose some") {
  World world;
  const std::string text = summary_of_csv(wide_csv("2.5"));
  REQUIRE(text.size() > 5 * proto::kTextPartMax);
  std::vector<SchemaAsker> askers = {asker("a", text), asker("b", summary_of_csv(wide_csv("7.5")))};
  for (SchemaAsker& each : askers) each.on_start(world.now);
  int sent = 0;
  const auto lost = [&] { return ++sent % 5 == 0; };
  for (int second = 0; second < 400; ++second) {
    if (second == 3)  // a new process of the scheduler knows nothing
      world.desk = SchemaDesk(
          {.cluster = kCluster, .incarnation = 2, .workers = {"a", "b"}, .stated = table()});
    for (std::size_t i = 0; i < askers.size(); ++i) {
      if (!askers[i].stopped()) askers[i].on_wakeup(world.now);
      while (const auto out = askers[i].poll_send())
        if (!lost()) world.desk.on_message(world.now, i, out->message);
    }
    while (const auto out = world.desk.poll_send()) {
      CHECK(encode(out->message).check_limits());
      if (!lost()) askers[out->to].on_message(world.now, kScheduler, out->message);
    }
    world.now = world.now + kSecond;
  }
  REQUIRE(world.desk.stopped().has_value());
  for (const SchemaAsker& each : askers) {
    CHECK_FALSE(each.failure().has_value());
    REQUIRE(each.stopped().has_value());
    CHECK(each.schema() == world.desk.schema());
  }
  CHECK(askers[0].schema().columns[4999].scaling.mean == doctest::Approx(5));
}

TEST_CASE("schema: one that was on its way ends with the process of the scheduler that made it") {
  World world;
  SchemaAsker a = asker("a", summary_of_csv(wide_csv("2.5")));
  SchemaAsker b = asker("b", summary_of_csv(wide_csv("7.5")));
  a.on_start(world.now);
  b.on_start(world.now);
  for (int i = 0; i < 100; ++i) world.exchange(a, 1);
  while (!world.desk.stopped()) {
    while (auto out = b.poll_send()) world.desk.on_message(world.now, 3, out->message);
    world.deliver(b, 3);
  }
  world.catch_up(a, 1);  // the first part
  REQUIRE_FALSE(a.stopped().has_value());
  world.desk =
      SchemaDesk({.cluster = kCluster, .incarnation = 2, .workers = {"a", "b"}, .stated = table()});
  SchemaAsker later = asker("b", summary_of_csv(wide_csv("5.5")));
  later.on_start(world.now);
  for (int i = 0; i < 400; ++i) {
    if (!a.stopped()) a.on_wakeup(world.now = world.now + kSecond * 0.1);
    world.exchange(a, 1);
    // It speaks last, and what the desk then says to `a` by itself is lost.
    if (i > 100) world.exchange(later, 3);
  }
  REQUIRE(a.stopped().has_value());
  CHECK(a.schema() == world.desk.schema());
  CHECK(a.schema().columns[4999].scaling.mean == doctest::Approx(4));
}

TEST_CASE("schema: a stranger, another cluster and nonsense are refused and change nothing") {
  World world;
  SchemaAsker stranger = asker("z", summary_of_csv("x,kind\n1,lily\n"));
  stranger.on_start(world.now);
  world.exchange(stranger, 9);
  REQUIRE(stranger.failure().has_value());
  CHECK(stranger.failure()->message == "scheduler: the cluster file has no worker \"z\"");
  SchemaAsker nonsense = asker("a", "{\"samples\": -1}");
  nonsense.on_start(world.now);
  world.exchange(nonsense, 9);
  CHECK(nonsense.failure().has_value());
  proto::Message foreign{.cluster = 0xbad,
                         .sender = {proto::Role::Worker, 0},
                         .incarnation = 1,
                         .body = proto::Describe{"a"},
                         .payload = {}};
  world.desk.on_message(world.now, 9, foreign);
  const auto refusal = world.desk.poll_send();
  REQUIRE(refusal.has_value());
  CHECK(std::holds_alternative<proto::Refusal>(refusal->message.body));
  CHECK(world.log().empty());
}

TEST_CASE("schema: an asker whose scheduler never answers gives up") {
  SchemaAsker a = asker("a", "");
  Instant now{1'000'000'000};
  a.on_start(now);
  for (int second = 0; second < 61; ++second) a.on_wakeup(now = now + kSecond);
  REQUIRE(a.failure().has_value());
  CHECK(a.failure()->code == ErrorCode::Timeout);
}

// --- tables of tensors ---------------------------------------------------------------------------

struct OwnWorld : World {
  OwnWorld() {
    desk = SchemaDesk({.cluster = kCluster,
                       .incarnation = 1,
                       .workers = {"a", "b"},
                       .stated = {},
                       .own_model = true});
  }
};

SchemaAsker own_asker(const std::string& name, const std::string& described,
                      proto::Role role = proto::Role::Worker) {
  return SchemaAsker({.cluster = kCluster,
                      .incarnation = 2,
                      .role = role,
                      .name = name,
                      .summary = described,
                      .own_model = true,
                      .scheduler = kScheduler});
}

std::string described(std::uint64_t samples, std::uint64_t held_out,
                      std::vector<TableTensor> tensors = {{"w", {4, 3}}, {"b", {4}}}) {
  return to_text(DescribedTable{{std::move(tensors), ""}, samples, held_out});
}

TEST_CASE("own model: all are told the table once the last worker has described its own") {
  OwnWorld world;
  SchemaAsker a = own_asker("a", described(60, 7));
  SchemaAsker b = own_asker("b", described(40, 0));
  SchemaAsker server = own_asker("s", "", proto::Role::Server);
  a.on_start(world.now);
  server.on_start(world.now);
  world.exchange(a, 1);
  world.exchange(server, 2);
  CHECK_FALSE(a.stopped().has_value());
  CHECK(world.log() == "worker 'a' has a model of 16 parameters in 2 tensors\n");
  world.desk.on_start(world.now);
  for (int second = 0; second < 7; ++second) {
    world.now = world.now + kSecond;
    world.desk.on_wakeup(world.now);
    a.on_wakeup(world.now);
    world.exchange(a, 1);
  }
  CHECK(world.log() == "waiting for the model of b (1 of 2 workers joined)\n");
  b.on_start(world.now);
  world.exchange(b, 3);
  world.catch_up(a, 1);
  world.catch_up(server, 2);
  CHECK(world.desk.stopped() == "2 workers agreed on a model of 16 parameters in 2 tensors");
  for (const SchemaAsker* each : {&a, &b, &server}) {
    REQUIRE(each->stopped().has_value());
    CHECK(each->table().parameters() == 16);
    CHECK(each->table().tensors[0].name == "w");
  }
  CHECK(world.desk.samples() == std::map<std::string, std::uint64_t>{{"a", 60}, {"b", 40}});
  CHECK(*held_out_in(world.desk.text()) == HeldOutByWorker{{"a", 7}, {"b", 0}});
  // Who asks later is told the same.
  SchemaAsker late = own_asker("a", described(60, 7));
  late.on_start(world.now);
  world.exchange(late, 9);
  CHECK(late.stopped().has_value());
}

TEST_CASE("own model: tables that differ refuse everybody, with the first difference") {
  OwnWorld world;
  SchemaAsker a = own_asker("a", described(1, 0));
  SchemaAsker b = own_asker("b", described(1, 0, {{"w", {4, 5}}, {"b", {4}}}));
  SchemaAsker server = own_asker("s", "", proto::Role::Server);
  a.on_start(world.now);
  server.on_start(world.now);
  b.on_start(world.now);
  world.exchange(a, 1);
  world.exchange(server, 2);
  world.exchange(b, 3);
  world.catch_up(a, 1);
  world.catch_up(server, 2);
  REQUIRE(world.desk.failure().has_value());
  CHECK(world.desk.failure()->message ==
        "worker b: tensor 1 is \"w\" [4, 5]; worker a has \"w\" [4, 3]");
  for (const SchemaAsker* each : {&a, &b, &server}) {
    REQUIRE(each->failure().has_value());
    CHECK(each->failure()->code == ErrorCode::Refused);
    CHECK(each->failure()->message == "scheduler: " + world.desk.failure()->message);
  }
}

TEST_CASE("own model: a text that is no table refuses its sender alone") {
  OwnWorld world;
  for (const std::string& text : {std::string("{}"), to_text(TensorTable{{{"w", {4}}}, ""})}) {
    SchemaAsker stranger = own_asker("a", text);
    stranger.on_start(world.now);
    world.exchange(stranger, 1);
    REQUIRE(stranger.failure().has_value());
    CHECK(stranger.failure()->message.find("the table of tensors: its text is damaged") !=
          std::string::npos);
  }
  CHECK_FALSE(world.desk.failure().has_value());
  CHECK(world.log().empty());
}

TEST_CASE("own model: a table of many tensors travels in parts") {
  std::vector<TableTensor> many;
  for (int i = 0; i < 3000; ++i)
    many.push_back({"encoder.layers." + std::to_string(i) + ".attention.weight", {3, 2}});
  const std::string text = described(1, 0, many);
  REQUIRE(text.size() > 2 * proto::kTextPartMax);
  OwnWorld world;
  SchemaAsker a = own_asker("a", text), b = own_asker("b", text);
  a.on_start(world.now);
  b.on_start(world.now);
  for (int second = 0; second < 30 && !(a.stopped() && b.stopped()); ++second) {
    world.exchange(a, 1);
    world.exchange(b, 3);
    world.catch_up(a, 1);
    world.kept.clear();
    world.now = world.now + kSecond;
    a.on_wakeup(world.now);
    b.on_wakeup(world.now);
  }
  REQUIRE(a.stopped().has_value());
  REQUIRE(b.stopped().has_value());
  CHECK(a.table().parameters() == 18'000);
}

TEST_CASE("schema: a scheduler of another protocol version ends whoever asks it") {
  const Error other{ErrorCode::Refused, "the peer speaks protocol version 10"};
  SchemaAsker asker({.cluster = kCluster, .name = "a", .summary = "s", .scheduler = kScheduler});
  asker.on_start(Instant{1});
  asker.on_bad_frame(kScheduler + 1, other);
  asker.on_bad_frame(kScheduler, {ErrorCode::Corrupt, "not a Rubato frame"});
  CHECK_FALSE(asker.failure());
  asker.on_bad_frame(kScheduler, other);
  REQUIRE(asker.failure());
  CHECK(asker.failure()->code == ErrorCode::Refused);
  CHECK(asker.failure()->message == "scheduler: the peer speaks protocol version 10");
}

}  // namespace
}  // namespace rubato::cluster::schema_desk_tests
