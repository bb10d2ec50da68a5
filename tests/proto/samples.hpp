// tests/proto/samples.hpp - one message of every kind, and equality of messages, field by field.
#pragma once

#include <memory>
#include <span>
#include <tuple>
#include <variant>
#include <vector>

#include "proto/identity.hpp"
#include "proto/messages.hpp"

namespace rubato::proto::samples {

inline Payload floats(std::size_t count, float first = 1) {
  auto values = std::make_shared<std::vector<float>>(count);
  for (std::size_t i = 0; i < count; ++i) (*values)[i] = first + static_cast<float>(i);
  return Payload::of(std::move(values));
}

inline Message message(Body body, Payload payload = {}) {
  return {0x1234'5678'9abc'def0, {Role::Worker, 3}, 77, std::move(body), std::move(payload)};
}

// A chunk of `count` elements, the whole slice.
inline Message commit(std::uint64_t sequence, std::size_t count) {
  return message(Commit{sequence, 0, count, count, 5, PayloadCodec::F32}, floats(count));
}

// One of every body, no field at its default.
inline std::vector<Message> every_message() {
  Progress progress;
  progress.steps = 1;
  progress.commits = 2;
  progress.step_time = {3};
  progress.overhead = {4};
  progress.loss = 5.5;
  progress.loss_samples = 6;
  progress.compute = {7};
  progress.wait = {8};
  progress.communicate = {9};
  progress.bytes_up = 10;
  progress.bytes_down = 11;
  progress.batch = 12;
  progress.late = {14};
  progress.dropped_commits = 15;
  progress.dropped_samples = 16;
  progress.alignment = {.own = 0.13, .during = -0.14};
  Welcome welcome{{Role::Server, 1}, 10, {5, 10}, {}};
  welcome.shards.shards = {{{0, 5}, "tcp://10.0.0.2:5701"}, {{5, 10}, "tcp://10.0.0.3:5701"}};
  welcome.shards.shards[1].public_key = std::string(kKeyCharacters, 'p');
  welcome.snapshot = 3;
  welcome.steps = 4;
  return {
      message(Hello{"edge-7",
                    52'650,
                    "tcp://127.0.0.1:5700",
                    "sync = bsp\nseed = 1\n",
                    {{21, 22, 23}, {21, 24, 25}},
                    true,
                    std::string(kKeyCharacters, 'k'),
                    true,
                    "cannot reach server 1",
                    17,
                    true}),
      message(welcome),
      message(Refusal{RefusalCode::NameTaken, "the name edge-7 is taken"}),
      message(Start{}),
      message(Start{3}),
      message(Leave{"battery"}),
      message(Stop{"target reached", true}),
      message(Notice{"server 1 is silent", true}),
      message(Save{6, 5, {7}, {8}}),
      message(Members{4, {{WorkerId{0}, 11}, {WorkerId{7}, 12}}}),
      message(Members{5, {{WorkerId{0}, 11}}, {1, {{WorkerId{0}, {9, true}}}}}),
      message(Members{6, {{WorkerId{2}, 11}}, {}, 7, 5, 8, WorkerId{2}}),
      message(MembersAck{4, {5}}),
      message(Pull{9}),
      message(Pull{9, {4, 16'384}}),
      message(Pull{9, {}, true}),
      message(Commit{9, 4, 6, 16, 21, PayloadCodec::F16, true, PayloadCodec::TopK, 0.25, true, 0.5,
                     true, 2, 5, 4},
              floats(3)),
      message(Parameters{9, 8, 4, 10, 16, {1'000}, true, PayloadCodec::Bf16, true, 3, 6, 0, true},
              floats(5)),
      message(Probe{9, 3}),
      message(ProbeReply{9, true, {0, 262'144}, true, true, 3}),
      message(progress),
      message(Heartbeat{{5}, {6}, 7}),
      message(Heartbeat{{5}, {6}, 7, {}, true, 8, 9, 10, true, 11}),
      message(Directive{2.5, 7, Duration::from_ms(1500), 0.5, 24, 0.25, 1.5}),
      message(Evaluation{{2'000}, 0.45, 0.84, 33, 120, 0.4, 0.1, 1.2, {0.5, 0.75, 0.875}, 0.25}),
      message(Describe{"box-7", {std::string(3000, 's'), 70'000, 80'000}, 12}),
      message(Described{70'000}),
      message(Schema{{std::string(3000, 't'), 0, 9'000}}),
      message(AskStatus{12}),
      message(Status{std::string(3000, 'u')}),
  };
}

// --- equality ------------------------------------------------------------------------------------

inline auto fields(const Hello& m) {
  return std::tie(m.name, m.parameters, m.endpoint, m.settings, m.snapshots, m.again, m.public_key,
                  m.looks, m.trouble, m.left_out, m.keeps);
}
inline auto fields(const Welcome& m) {
  return std::tie(m.you, m.parameters, m.range, m.shards, m.snapshot, m.steps, m.setbacks, m.looks);
}
inline auto fields(const Refusal& m) {
  return std::tie(m.code, m.message);
}
inline auto fields(const Start& m) {
  return std::tie(m.seeding);
}
inline auto fields(const Leave& m) {
  return std::tie(m.reason);
}
inline auto fields(const Stop& m) {
  return std::tie(m.reason, m.failed);
}
inline auto fields(const Notice& m) {
  return std::tie(m.text, m.rejoin);
}
inline auto fields(const Save& m) {
  return std::tie(m.number, m.keep, m.clock, m.ago);
}
inline auto fields(const Members& m) {
  return std::tie(m.epoch, m.members, m.phase, m.setbacks, m.back_to, m.seeding, m.seeder,
                  m.evaluator);
}
inline auto fields(const MembersAck& m) {
  return std::tie(m.epoch, m.clock);
}
inline auto fields(const Pull& m) {
  return std::tie(m.sequence, m.offsets);
}
inline auto fields(const Commit& m) {
  return std::tie(m.sequence, m.offset, m.count, m.total, m.steps, m.codec, m.discard,
                  m.reply_codec, m.reply_keep, m.reply_based, m.weight, m.elastic, m.began, m.round,
                  m.seeding);
}
inline auto fields(const Parameters& m) {
  return std::tie(m.sequence, m.version, m.offset, m.count, m.total, m.held, m.refused, m.codec,
                  m.noted, m.restores, m.round, m.dropped);
}
inline auto fields(const Probe& m) {
  return std::tie(m.sequence, m.number);
}
inline auto fields(const ProbeReply& m) {
  return std::tie(m.sequence, m.held, m.missing_offsets, m.unknown, m.answered, m.number);
}
inline auto fields(const Progress& m) {
  return std::tie(m.steps, m.commits, m.step_time, m.overhead, m.loss, m.loss_samples, m.compute,
                  m.wait, m.communicate, m.bytes_up, m.bytes_down, m.batch, m.alignment, m.late,
                  m.dropped_commits, m.dropped_samples);
}
inline auto fields(const Heartbeat& m) {
  return std::tie(m.echo, m.clock, m.saved, m.broken, m.saving, m.commits, m.seeded,
                  m.wants_snapshot, m.fill);
}
inline auto fields(const Directive& m) {
  return std::tie(m);
}
inline auto fields(const Evaluation& m) {
  return std::tie(m.age, m.loss, m.accuracy, m.version, m.samples, m.squared_error, m.target_mean,
                  m.target_square, m.classes.recall, m.classes.f1, m.classes.auc);
}
inline auto fields(const Describe& m) {
  return std::tie(m.name, m.summary, m.schema_at);
}
inline auto fields(const Described& m) {
  return std::tie(m.bytes);
}
inline auto fields(const Schema& m) {
  return std::tie(m.text);
}
inline auto fields(const AskStatus& m) {
  return std::tie(m.fill);
}
inline auto fields(const Status& m) {
  return std::tie(m.text);
}

inline bool same(const Message& a, const Message& b) {
  const auto same_body = [&b](const auto& body) {
    const auto* other = std::get_if<std::decay_t<decltype(body)>>(&b.body);
    return other != nullptr && fields(body) == fields(*other);
  };
  return a.cluster == b.cluster && a.sender == b.sender && a.incarnation == b.incarnation &&
         a.sent == b.sent && std::visit(same_body, a.body) &&
         std::equal(a.payload.bytes().begin(), a.payload.bytes().end(), b.payload.bytes().begin(),
                    b.payload.bytes().end());
}

}  // namespace rubato::proto::samples
