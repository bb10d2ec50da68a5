// Messages in words: run log lines, golden traces, refusals.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "proto/compression.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {
namespace {

std::string in_codec(PayloadCodec codec) {
  return codec == PayloadCodec::F32 ? "" : fmt::format(" codec={}", codec_name(codec));
}

std::string weighted(double weight) {
  return weight == 1 ? "" : fmt::format(" weight={:g}", weight);
}

std::string part(const TextPart& of) {
  return fmt::format("bytes={}+{}/{}", of.offset, of.bytes.size(), of.total);
}

struct InWords {
  std::string operator()(const Hello& m) const {
    return fmt::format(" name={} parameters={}{}{}", m.name, m.parameters, m.looks ? " looks" : "",
                       m.trouble.empty() ? "" : ": " + m.trouble);
  }
  std::string operator()(const Welcome& m) const {
    return fmt::format(" {} shards={}", m.looks ? "looks" : "you=" + to_string(m.you),
                       m.shards.shards.size());
  }
  std::string operator()(const Refusal& m) const { return ": " + m.message; }
  std::string operator()(const Start&) const { return ""; }
  std::string operator()(const Leave& m) const { return ": " + m.reason; }
  std::string operator()(const Stop& m) const { return ": " + m.reason; }
  std::string operator()(const Notice& m) const {
    return fmt::format("{}: {}", m.rejoin ? " rejoin" : "", m.text);
  }
  std::string operator()(const Save& m) const { return fmt::format(" number={}", m.number); }
  std::string operator()(const Members& m) const {
    return fmt::format(
        " epoch={} members={}{}{}", m.epoch, m.members.size(),
        m.phase.number == 0 ? "" : fmt::format(" phase={}", m.phase.number),
        m.setbacks == 0 ? "" : fmt::format(" setbacks={} back_to={}", m.setbacks, m.back_to));
  }
  std::string operator()(const MembersAck& m) const { return fmt::format(" epoch={}", m.epoch); }
  std::string operator()(const Pull& m) const {
    return fmt::format(" seq={}", m.sequence) +
           (m.offsets.empty() ? "" : fmt::format(" missing={}", m.offsets.size()));
  }
  std::string operator()(const Commit& m) const {
    return fmt::format(" seq={} offset={} count={} steps={}{}{}{}", m.sequence, m.offset, m.count,
                       m.steps, in_codec(m.codec), weighted(m.weight), m.elastic ? " elastic" : "");
  }
  std::string operator()(const Parameters& m) const {
    return fmt::format(" seq={} version={} offset={} count={} held={}{}{}", m.sequence, m.version,
                       m.offset, m.count, m.held.seconds(),
                       m.refused   ? " refused"
                       : m.dropped ? " dropped"
                                   : "",
                       in_codec(m.codec));
  }
  std::string operator()(const Probe& m) const {
    return fmt::format(" seq={} number={}", m.sequence, m.number);
  }
  std::string operator()(const ProbeReply& m) const {
    return fmt::format(" seq={} {}", m.sequence,
                       m.held       ? "held"
                       : m.answered ? "answered"
                       : m.unknown  ? "unknown"
                                    : fmt::format("missing={}", m.missing_offsets.size()));
  }
  std::string operator()(const Progress& m) const {
    return fmt::format(" steps={} commits={} loss={:.6g}", m.steps, m.commits, m.loss);
  }
  std::string operator()(const Heartbeat& m) const {
    return (m.echo.ns == 0 ? "" : fmt::format(" clock={}", m.clock.seconds())) +
           (m.standings.empty() ? "" : fmt::format(" standings={}", m.standings.size())) +
           (m.broken ? " broken" : "") + (m.fill == 0 ? "" : fmt::format(" fill={}", m.fill));
  }
  std::string operator()(const Directive& m) const {
    std::string text = fmt::format(" commit_rate={:g}", m.commit_rate);
    if (m.local_steps > 0) text += fmt::format(" local_steps={}", m.local_steps);
    if (m.period > Duration{}) text += fmt::format(" period={}", m.period.seconds());
    if (m.batch > 0) text += fmt::format(" batch={}", m.batch);
    if (m.local_rate != 1) text += fmt::format(" local_rate={:g}", m.local_rate);
    if (m.quick_steps != sync::kQuickSteps) text += fmt::format(" quick_steps={:g}", m.quick_steps);
    return text + weighted(m.weight);
  }
  std::string operator()(const Evaluation& m) const {
    return fmt::format(
        " loss={:.9g} accuracy={:.6g} version={}{}{}", m.loss, m.accuracy, m.version,
        m.samples == 0 ? "" : fmt::format(" samples={}", m.samples),
        m.target_square == 0
            ? ""
            : fmt::format(" squared_error={:.6g} target_mean={:.6g} target_square={:.6g}",
                          m.squared_error, m.target_mean, m.target_square));
  }
  std::string operator()(const Describe& m) const {
    return fmt::format(" name={} {} schema_at={}", m.name, part(m.summary), m.schema_at);
  }
  std::string operator()(const Described& m) const { return fmt::format(" bytes={}", m.bytes); }
  std::string operator()(const Schema& m) const { return fmt::format(" {}", part(m.text)); }
  std::string operator()(const AskStatus& m) const {
    return m.fill == 0 ? "" : fmt::format(" fill={}", m.fill);
  }
  std::string operator()(const Status& m) const { return fmt::format(" bytes={}", m.text.size()); }
};

}  // namespace

const char* role_name(Role role) {
  switch (role) {
    case Role::Scheduler:
      return "scheduler";
    case Role::Server:
      return "server";
    case Role::Worker:
      return "worker";
    case Role::Evaluator:
      return "evaluator";
  }
  return "node";
}

std::string describe(const Body& body) {
  return body_name(body) + std::visit(InWords{}, body);
}

std::string other_cluster(const Message& message, std::uint64_t ours) {
  return fmt::format(
      "{} belongs to another cluster (id {:016x}, ours {:016x}): `name` must be the "
      "same in every node's cluster file",
      to_string(message.sender), message.cluster, ours);
}

namespace {

constexpr std::size_t kNamedMax = 3;
// What stands in files beside the cluster file.
constexpr std::string_view kFileSettings[] = {"model.start", "model.layers"};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view key_of(std::string_view setting) {
  return setting.substr(0, setting.find(" = "));
}

// The lines of theirs that differ, and ours in their place.
struct Differing {
  std::vector<std::string_view> has, wanted;
};
Differing differing(std::string_view theirs, std::string_view ours) {
  Differing found;
  const auto our_lines = lines_of(ours);
  for (const auto line : lines_of(theirs)) {
    const auto our = std::ranges::find(our_lines, key_of(line), key_of);
    if (our == our_lines.end() || *our == line) continue;
    found.has.push_back(line);
    found.wanted.push_back(*our);
  }
  return found;
}

}  // namespace

std::string settings_that_differ(const std::string& theirs, const std::string& ours) {
  auto [has, wanted] = differing(theirs, ours);
  if (has.empty()) return {};
  has.resize(std::min(has.size(), kNamedMax));
  wanted.resize(has.size());
  return fmt::format("{}; this cluster has {}", fmt::join(has, ", "), fmt::join(wanted, ", "));
}

std::string other_settings(NodeId sender, const Hello& hello, const std::string& ours) {
  const std::string who = fmt::format("{} '{}' has ", role_name(sender.role), hello.name);
  const auto has = differing(hello.settings, ours).has;
  const std::span named(has.data(), std::min(has.size(), kNamedMax));
  const std::string what = has.empty()
                               ? "other settings than this cluster"
                               : fmt::format("{}; this cluster has {}", fmt::join(named, ", "),
                                             named.size() == 1 ? "another value" : "others");
  const bool files = !has.empty() && std::ranges::all_of(has, [](std::string_view line) {
    return std::ranges::find(kFileSettings, key_of(line)) != std::end(kFileSettings);
  });
  return who + what +
         (!files            ? ": use the same cluster file, --sync and --seed on every node"
          : has.size() == 1 ? ": copy the file that this key names to every node"
                            : ": copy the files that these keys name to every node");
}

RefusalCode refusal_code(const Error& error) {
  // The codec says Refused for one thing only: another protocol version.
  return error.code == ErrorCode::Refused ? RefusalCode::ProtocolVersion : RefusalCode::BadMessage;
}

}  // namespace rubato::proto
